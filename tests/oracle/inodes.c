/* SPDX-License-Identifier: Apache-2.0
 * Loaded before the C library by tests/js/remote.test.mjs: stat() finds another inode each time, as
 * on a file system without stable ones. Only of files that say who uses an entry of the cache. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int stat(const char *restrict path, struct stat *restrict found) {
    static ino_t other = 1u << 30;
    const int failed = fstatat(AT_FDCWD, path, found, 0);
    const char *end = strrchr(path, '.');
    if (failed == 0 && end && strcmp(end, ".use") == 0)
        found->st_ino = other++;
    return failed;
}
