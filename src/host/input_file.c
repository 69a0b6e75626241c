/* SPDX-License-Identifier: Apache-2.0 */
#include "host/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "host/fail_errno.h"
#include "host/read_at.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#define st_ctim st_ctimespec
#endif

struct input_file {
    int descriptor;
    struct stat opened; /* describes the file as it was before its first byte was read */
    bool loaded;        /* file_source_loaded was called */
};

static wisp_status describe(struct input_file *file, const char *path, wisp_error *error) {
    if (fstat(file->descriptor, &file->opened) != 0)
        return fail_errno(error, path, "stat");
    if (!S_ISREG(file->opened.st_mode))
        return fail(error, WISP_ERROR_IO, path, NULL, "not a regular file");
    if (file->opened.st_size < 0)
        return fail(error, WISP_ERROR_IO, path, NULL, "its size is negative");
    return WISP_OK;
}

static wisp_status open_input(const char *path, struct input_file *file, wisp_error *error) {
    /* O_NONBLOCK: opening a FIFO for reading would wait for a writer otherwise. */
    *file = (struct input_file){.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file->descriptor < 0 && errno == ENOENT)
        return fail(error, WISP_ERROR_NOT_FOUND, path, NULL, "cannot open: %s", strerror(ENOENT));
    if (file->descriptor < 0)
        return fail_errno(error, path, "open");
    const wisp_status status = describe(file, path, error);
    if (status != WISP_OK)
        close(file->descriptor);
    return status;
}

static bool same_time(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Returns whether two descriptions of a file say that its bytes are the same. The time of
 * modification alone would not do, because programs that copy files set it back. The other time
 * also changes if the file gains or loses a name, as when a new file replaces it, which does no
 * harm; the number of names then tells. */
static bool same_contents(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && same_time(a->st_mtim, b->st_mtim) &&
           (same_time(a->st_ctim, b->st_ctim) || a->st_nlink != b->st_nlink);
}

/* Returns whether the bytes that were read so far are those of the file that was opened. The system
 * sets the times before it writes, so bytes that were read before this look are old ones if the
 * times are. */
static bool is_unchanged(const struct input_file *file) {
    struct stat now;
    return fstat(file->descriptor, &now) == 0 && same_contents(&now, &file->opened);
}

/* Implements the `read` of the source. */
static int read_input(void *context, uint64_t offset, void *buffer, size_t length) {
    const struct input_file *file = context;
    const int failed = read_at(file->descriptor, offset, buffer, length);
    return failed || file->loaded || is_unchanged(file) ? failed : WISP_SOURCE_CHANGED;
}

static void close_input(void *context) {
    struct input_file *file = context;
    close(file->descriptor);
    free(file);
}

wisp_status file_source_open(const char *path, wisp_source *source, wisp_error *error) {
    struct input_file *file = malloc(sizeof *file);
    if (!file)
        return fail_memory(error, sizeof *file);
    const wisp_status status = open_input(path, file, error);
    if (status != WISP_OK) {
        free(file);
        return status;
    }
    *source = (wisp_source){.size = (uint64_t)file->opened.st_size,
                            .read = read_input,
                            .close = close_input,
                            .context = file,
                            .name = path,
                            .lasting = true,
                            .may_change = true};
    return WISP_OK;
}

bool file_source_is(const wisp_source *source) {
    return source->close == close_input;
}

void file_source_loaded(const wisp_source *source) {
    if (file_source_is(source))
        ((struct input_file *)source->context)->loaded = true;
}

void file_source_expect(const wisp_source *source, uint64_t offset, uint64_t length) {
    enum { AT_ONCE = 128 << 10 }; /* Linux ignores what one call asks for beyond its read-ahead */
    const struct input_file *file = source->context;
    for (uint64_t done = 0; done < length; done += AT_ONCE) {
        const uint64_t left = length - done;
        const off_t from = (off_t)(offset + done);
        const int bytes = (int)(left < AT_ONCE ? left : AT_ONCE);
#ifdef __APPLE__
        struct radvisory advice = {.ra_offset = from, .ra_count = bytes};
        fcntl(file->descriptor, F_RDADVISE, &advice);
#else
        posix_fadvise(file->descriptor, from, bytes, POSIX_FADV_WILLNEED);
#endif
    }
}

wisp_status file_source_check(const wisp_source *source, uint64_t start, uint64_t end,
                              wisp_error *error) {
    const struct input_file *file = source->context;
    struct stat now;
    if (fstat(file->descriptor, &now) != 0)
        return fail_errno(error, source->name, "stat");
    const uint64_t size = (uint64_t)now.st_size;
    if (size < end)
        return fail(error, WISP_ERROR_IO, source->name, NULL,
                    "bytes %llu to %llu are missing: the file has become shorter since it was "
                    "opened, and ends at byte %llu",
                    (unsigned long long)(start > size ? start : size), (unsigned long long)end - 1,
                    (unsigned long long)size);
    if (now.st_size != file->opened.st_size || !same_time(now.st_mtim, file->opened.st_mtim))
        return fail(error, WISP_ERROR_IO, source->name, NULL,
                    "the file changed after it was opened");
    return WISP_OK;
}

bool file_source_same(const wisp_source *a, const wisp_source *b) {
    const struct input_file *x = a->context, *y = b->context;
    return x->opened.st_dev == y->opened.st_dev && x->opened.st_ino == y->opened.st_ino &&
           same_contents(&x->opened, &y->opened);
}

wisp_status file_read(const char *path, struct file_bytes *bytes, wisp_error *error) {
    struct input_file file;
    *bytes = (struct file_bytes){0};
    TRY(open_input(path, &file, error));
    wisp_status status = WISP_OK;
    if (!checked_size((uint64_t)file.opened.st_size, &bytes->size) ||
        !(bytes->data = malloc(bytes->size + 1))) /* malloc(0) may be NULL */
        status = fail_memory(error, (uint64_t)file.opened.st_size);
    const int failed = status == WISP_OK ? read_input(&file, 0, bytes->data, bytes->size) : 0;
    if (failed == WISP_SOURCE_CHANGED)
        status = fail(error, WISP_ERROR_IO, path, NULL, "the file changed while it was read");
    else if (failed)
        status = fail_errno(error, path, "read");
    close(file.descriptor);
    if (status != WISP_OK) {
        free(bytes->data);
        *bytes = (struct file_bytes){0};
    }
    return status;
}
