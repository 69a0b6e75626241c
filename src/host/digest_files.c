/* SPDX-License-Identifier: Apache-2.0 */
#include "host/digest_files.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"
#include "host/fail_errno.h"
#include "host/old_files.h"
#include "host/own_file.h"
#include "host/read_at.h"

/* A name is the digest in hexadecimal digits. A file that is being written has another one after
 * them, and is locked by whoever writes it. */
enum { DIGITS = 2 * DIGEST_BYTES, NAME_BYTES = DIGITS + 32 };

static const char temporary_mark[] = ".part-";

wisp_status digest_files_open(struct digest_files *files, const char *path, uint64_t bytes,
                              const char *option, wisp_error *error) {
    const size_t length = strlen(path);
    files->bytes = bytes;
    if (length == 0 || length + 1 + NAME_BYTES > sizeof files->path)
        return fail(error, WISP_ERROR_ARGUMENT, path, NULL,
                    "the path of the folder is %s: name another (%s)",
                    length ? "too long" : "empty", option);
    memcpy(files->path, path, length + 1);
    return own_folder_open(files->path, option, error);
}

static void path_of(const struct digest_files *files, const char *name, char path[PATH_MAX + 300]) {
    snprintf(path, PATH_MAX + 300, "%s/%s", files->path, name);
}

static void path_of_digest(const struct digest_files *files, const unsigned char *digest,
                           char path[PATH_MAX + 300]) {
    char name[DIGITS + 1];
    sha256_text(digest, name);
    path_of(files, name, path);
}

bool digest_files_has(const struct digest_files *files, const unsigned char *digest) {
    char path[PATH_MAX + 300];
    struct stat info;
    path_of_digest(files, digest, path);
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode);
}

wisp_status digest_files_read(const struct digest_files *files, const unsigned char *digest,
                              void *bytes, size_t capacity, size_t *length, bool *found,
                              wisp_error *error) {
    char path[PATH_MAX + 300];
    struct stat info;
    path_of_digest(files, digest, path);
    const int file = own_file_open(path, O_RDONLY);
    *length = 0;
    *found = file >= 0;
    if (file < 0)
        return errno == ENOENT ? WISP_OK : fail_errno(error, path, "open");
    wisp_status status = WISP_OK;
    if (fstat(file, &info) != 0)
        status = fail_errno(error, path, "look at");
    else if ((uint64_t)info.st_size > capacity)
        status = fail(error, WISP_ERROR_IO, path, NULL, "%llu bytes, and at most %zu are expected",
                      (unsigned long long)info.st_size, capacity);
    else if (read_at(file, 0, bytes, (size_t)info.st_size) != 0)
        status = fail(error, WISP_ERROR_IO, path, NULL, "cannot be read to its end");
    else
        *length = (size_t)info.st_size;
    close(file);
    return status;
}

static bool write_all(int file, const unsigned char *bytes, size_t length) {
    while (length > 0) {
        const ssize_t n = write(file, bytes, length);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            bytes += n;
            length -= (size_t)n;
        }
    }
    return true;
}

/* Opens a new file under a temporary name, and locks it. Returns -1 and errno if it cannot. */
static int open_temporary(const char *path, char temporary[PATH_MAX + 400]) {
    static atomic_uint serial;
    for (;;) {
        snprintf(temporary, PATH_MAX + 400, "%s%s%ld-%u", path, temporary_mark, (long)getpid(),
                 atomic_fetch_add(&serial, 1));
        const int file = own_file_open(temporary, O_WRONLY | O_CREAT | O_EXCL);
        if (file < 0 && errno != EEXIST)
            return -1;
        if (file < 0)
            continue;
        /* Between the two calls another process may take the file for one without a writer: it
         * has the lock, or has deleted the file. Not every file system has locks. */
        struct stat info;
        const bool taken = flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        if (!taken && fstat(file, &info) == 0 && info.st_nlink > 0)
            return file;
        close(file);
    }
}

wisp_status digest_files_write(const struct digest_files *files, const unsigned char *digest,
                               const void *bytes, size_t length, wisp_error *error) {
    char path[PATH_MAX + 300], temporary[PATH_MAX + 400];
    path_of_digest(files, digest, path);
    const int file = open_temporary(path, temporary);
    if (file < 0)
        return fail_errno(error, path, "create");
    wisp_status status = WISP_OK;
    if (!write_all(file, bytes, length))
        status = fail_errno(error, path, "write");
    else if (fsync(file) != 0)
        status = fail_errno(error, path, "sync");
    else if (rename(temporary, path) != 0)
        status = fail_errno(error, path, "rename");
    if (status != WISP_OK)
        unlink(temporary);
    close(file);
    return status;
}

void digest_files_use(const struct digest_files *files, const unsigned char *digest, size_t rank) {
    enum { STEPS = 1000, NANOSECONDS = 1000000 }; /* a rank is a thousandth of a second */
    char path[PATH_MAX + 300];
    struct timespec used;
    path_of_digest(files, digest, path);
    clock_gettime(CLOCK_REALTIME, &used);
    used.tv_sec -= (time_t)(rank / STEPS) + 1;
    used.tv_nsec += (long)(STEPS - rank % STEPS) * NANOSECONDS;
    if (used.tv_nsec >= STEPS * NANOSECONDS) {
        used.tv_nsec -= STEPS * NANOSECONDS;
        used.tv_sec++;
    }
    const struct timespec times[2] = {used, used};
    utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

void digest_files_remove(const struct digest_files *files, const unsigned char *digest) {
    char path[PATH_MAX + 300];
    path_of_digest(files, digest, path);
    unlink(path);
}

/* ---- the bound ------------------------------------------------------------------------------ */

static bool has_digest(const char *name) {
    return strspn(name, "0123456789abcdef") == DIGITS;
}

static bool is_whole(const char *name) {
    return has_digest(name) && name[DIGITS] == '\0';
}

static bool is_temporary(const char *name) {
    return has_digest(name) && strncmp(name + DIGITS, temporary_mark, strlen(temporary_mark)) == 0;
}

size_t digest_files_make_room(const struct digest_files *files) {
    old_files_delete(files->path, 0, is_temporary);
    return old_files_delete(files->path, files->bytes, is_whole);
}
