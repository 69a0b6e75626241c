/* SPDX-License-Identifier: Apache-2.0
 * Loaded before the C library by tests/js/remote.test.mjs: stat() finds another inode each time, as
 * on a file system without stable ones. Only of files that say who uses an entry of the cache. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

int stat(const char *restrict path, struct stat *restrict found) {
    static ino_t other = 1u << 30;
    int (*const real)(const char *, struct stat *) =
        (int (*)(const char *, struct stat *))dlsym(RTLD_NEXT, "stat");
    const int failed = real(path, found);
    const char *end = strrchr(path, '.');
    if (failed == 0 && end && strcmp(end, ".use") == 0)
        found->st_ino = other++;
    return failed;
}
