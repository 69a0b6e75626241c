/* SPDX-License-Identifier: Apache-2.0
 * The functions of POSIX that the program calls with paths, and those for which WASI has no call:
 * JavaScript does their work (js/program/program-system.js). The C library's others end in calls of
 * WASI, such as fd_read, which are JavaScript's, too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMPORT(name) __attribute__((import_module("wisp"), import_name(name)))

/* These return a number that is not negative, or -errno. The numbers of errno are WASI's. */

/* Opens a file for reading, or creates one for writing. `waits`: until a FIFO has a writer. */
IMPORT("open") int host_open(const char *path, bool creates, bool waits);
/* Describes the file at the path, which is followed if it is a link and `follows` is set, or
 * that of the descriptor if the path is NULL. */
IMPORT("stat")
int host_stat(const char *path, int descriptor, bool follows, uint64_t *numbers);
IMPORT("access") int host_access(const char *path, int mode);
/* Writes the path, with its 0. */
IMPORT("realpath") int host_realpath(const char *path, char *resolved, size_t capacity);
/* Writes the names of the files in a folder, each with its 0, if they fit, and returns how many
 * bytes they have. */
IMPORT("list") int host_list(const char *path, char *names, size_t capacity);
IMPORT("rename") int host_rename(const char *from, const char *to);
IMPORT("unlink") int host_unlink(const char *path);
IMPORT("chmod") int host_chmod(int descriptor, int mode);
IMPORT("chown") int host_chown(int descriptor, int user, int group);
IMPORT("pid") int host_pid(void);
IMPORT("user") int host_user(void);

static int result(int number) {
    if (number >= 0)
        return number;
    errno = -number;
    return -1;
}

int open(const char *path, int flags, ...) {
    const bool reads = (flags & O_ACCMODE) == O_RDONLY;
    const bool creates = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    return reads != creates ? result(host_open(path, creates, !(flags & O_NONBLOCK)))
                            : result(-ENOTSUP);
}

/* The C library's would ask WASI to open the file. */
FILE *fopen(const char *restrict path, const char *restrict mode) {
    const int descriptor = strcmp(mode, "rb") == 0 ? open(path, O_RDONLY) : result(-ENOTSUP);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, mode);
    if (!file && descriptor >= 0)
        close(descriptor);
    return file;
}

static int describe(const char *path, int descriptor, bool follows, struct stat *info) {
    enum { DEVICE, INODE, MODE, LINKS, USER, GROUP, SIZE, MODIFIED, CHANGED, NUMBERS };
    static const uint64_t second = 1000000000; /* in nanoseconds */
    uint64_t n[NUMBERS];
    const int failed = host_stat(path, descriptor, follows, n);
    if (failed)
        return result(failed);
    *info = (struct stat){.st_dev = (dev_t)n[DEVICE],
                          .st_ino = (ino_t)n[INODE],
                          .st_mode = (mode_t)n[MODE],
                          .st_nlink = (nlink_t)n[LINKS],
                          .st_uid = (uid_t)n[USER],
                          .st_gid = (gid_t)n[GROUP],
                          .st_size = (off_t)n[SIZE]};
    info->st_mtim = (struct timespec){(time_t)(n[MODIFIED] / second), (long)(n[MODIFIED] % second)};
    info->st_ctim = (struct timespec){(time_t)(n[CHANGED] / second), (long)(n[CHANGED] % second)};
    return 0;
}

int stat(const char *restrict path, struct stat *restrict info) {
    return describe(path, -1, true, info);
}

int lstat(const char *restrict path, struct stat *restrict info) {
    return describe(path, -1, false, info);
}

int fstat(int descriptor, struct stat *info) {
    return describe(NULL, descriptor, true, info);
}

int access(const char *path, int mode) {
    return result(host_access(path, mode));
}

int faccessat(int folder, const char *path, int mode, int flags) {
    (void)flags;
    return result(folder == AT_FDCWD ? host_access(path, mode) : -ENOTSUP);
}

char *realpath(const char *restrict path, char *restrict resolved) {
    return result(host_realpath(path, resolved, PATH_MAX)) == 0 ? resolved : NULL;
}

/* The program asks where it lies, to find models beside it: JavaScript names them (cli-program.js).
 */
ssize_t readlink(const char *restrict path, char *restrict to, size_t capacity) {
    (void)path;
    (void)to;
    (void)capacity;
    return result(-ENOTSUP);
}

struct __dirstream {
    const char *next, *end; /* of the names that are left */
    struct dirent entry;
    char names[];
};

DIR *opendir(const char *path) {
    const int bytes = result(host_list(path, NULL, 0));
    DIR *folder = bytes < 0 ? NULL : malloc(sizeof *folder + (size_t)bytes);
    if (!folder)
        return NULL;
    const int written = result(host_list(path, folder->names, (size_t)bytes));
    if (written < 0 || written > bytes) { /* it is gone, or there are new files */
        errno = written < 0 ? errno : EAGAIN;
        free(folder);
        return NULL;
    }
    folder->next = folder->names;
    folder->end = folder->names + written;
    return folder;
}

/* Passes over names that the system can have and C cannot. */
struct dirent *readdir(DIR *folder) {
    while (folder->next < folder->end) {
        const size_t bytes = strlen(folder->next) + 1;
        const char *name = folder->next;
        folder->next += bytes;
        if (bytes > sizeof folder->entry.d_name)
            continue;
        memcpy(folder->entry.d_name, name, bytes);
        return &folder->entry;
    }
    return NULL;
}

int closedir(DIR *folder) {
    free(folder);
    return 0;
}

int rename(const char *from, const char *to) {
    return result(host_rename(from, to));
}

int unlink(const char *path) {
    return result(host_unlink(path));
}

int fchmod(int descriptor, mode_t mode) {
    return result(host_chmod(descriptor, (int)mode));
}

int fchown(int descriptor, uid_t user, gid_t group) {
    return result(host_chown(descriptor, (int)user, (int)group));
}

pid_t getpid(void) {
    return host_pid();
}

uid_t geteuid(void) {
    return (uid_t)host_user();
}

int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    (void)folder;
    (void)path;
    (void)times;
    (void)flags;
    return result(-ENOTSUP);
}

/* Node has seen to it that the standard descriptors are open. */
int fcntl(int descriptor, int command, ...) {
    return descriptor <= STDERR_FILENO && command == F_GETFD ? 0 : result(-ENOTSUP);
}

/* No other program is kept from a file. */
int flock(int descriptor, int operation) {
    (void)descriptor;
    (void)operation;
    return result(-ENOTSUP);
}

/* Memory of a module is never given back. */
int madvise(void *start, size_t length, int advice) {
    (void)start;
    (void)length;
    (void)advice;
    return result(-ENOTSUP);
}

/* All is ready: a read or write that follows waits. */
int poll(struct pollfd *waiting, nfds_t n, int milliseconds) {
    (void)milliseconds;
    for (nfds_t i = 0; i < n; i++)
        waiting[i].revents = waiting[i].events;
    return (int)n;
}
