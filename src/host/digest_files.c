/* SPDX-License-Identifier: Apache-2.0 */
#include "host/digest_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sha256.h"
#include "host/fail_errno.h"
#include "host/own_file.h"
#include "host/read_at.h"

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

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
        if (flock(file, LOCK_EX | LOCK_NB) == 0)
            return file;
        close(file); /* another process is about to delete it */
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

struct entry {
    char name[DIGITS + 1];
    uint64_t bytes;
    struct timespec used;
};

struct entries {
    struct entry *all; /* [capacity] */
    size_t n, capacity;
    uint64_t bytes;
};

static bool is_digest(const char *name) {
    return strspn(name, "0123456789abcdef") == DIGITS;
}

/* Deletes a file that no writer has locked. */
static void remove_stale(const char *path) {
    const int file = own_file_open(path, O_WRONLY);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        unlink(path);
    if (file >= 0)
        close(file);
}

static bool add_entry(struct entries *entries, const char *name, const struct stat *info) {
    if (entries->n == entries->capacity) {
        const size_t capacity = 2 * entries->capacity + 64;
        struct entry *grown = realloc(entries->all, capacity * sizeof *grown);
        if (!grown)
            return false;
        entries->all = grown;
        entries->capacity = capacity;
    }
    struct entry *entry = &entries->all[entries->n++];
    memcpy(entry->name, name, sizeof entry->name);
    entry->bytes = (uint64_t)info->st_size;
    entry->used = info->st_mtim;
    entries->bytes += entry->bytes;
    return true;
}

/* Lists the files, and deletes those that nobody writes any more. Files of other names stay. */
static void list_entries(const struct digest_files *files, struct entries *entries) {
    DIR *folder = opendir(files->path);
    for (const struct dirent *item; folder && (item = readdir(folder));) {
        char path[PATH_MAX + 300];
        struct stat info;
        path_of(files, item->d_name, path);
        if (!is_digest(item->d_name) || lstat(path, &info) != 0 || !S_ISREG(info.st_mode))
            continue;
        const char *rest = item->d_name + DIGITS;
        if (*rest == '\0' && !add_entry(entries, item->d_name, &info))
            break;
        if (strncmp(rest, temporary_mark, strlen(temporary_mark)) == 0)
            remove_stale(path);
    }
    if (folder)
        closedir(folder);
}

static int compare_uses(const void *a, const void *b) {
    const struct timespec *x = &((const struct entry *)a)->used;
    const struct timespec *y = &((const struct entry *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

size_t digest_files_make_room(const struct digest_files *files) {
    struct entries entries = {0};
    size_t removed = 0;
    list_entries(files, &entries);
    if (entries.n > 0)
        qsort(entries.all, entries.n, sizeof *entries.all, compare_uses);
    for (; removed < entries.n && entries.bytes > files->bytes; removed++) {
        char path[PATH_MAX + 300];
        path_of(files, entries.all[removed].name, path);
        unlink(path);
        entries.bytes -= entries.all[removed].bytes;
    }
    free(entries.all);
    return removed;
}
