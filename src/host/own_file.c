/* SPDX-License-Identifier: Apache-2.0 */
#include "host/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/fail_errno.h"
#include "host/file.h"

enum { MOST_TRIES = 4 };

int own_file_open(const char *path, int flags) {
    struct stat info;
    int file = -1;
    /* O_NONBLOCK: a FIFO would be waited for. O_CREAT: some file systems, NFS among them, fail if
     * another process deletes the file between their search for it and its opening. */
    for (int tries = 0; file < 0 && tries < MOST_TRIES; tries++) {
        file = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (file < 0 && !((flags & O_CREAT) && (errno == ENOENT || errno == ESTALE)))
            return -1;
    }
    if (file < 0)
        return -1;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid())
        return file;
    close(file);
    errno = EPERM;
    return -1;
}

wisp_status own_folder_open(const char *path, const char *option, wisp_error *error) {
    struct stat info;
    char inside[PATH_MAX + 1]; /* "path/", whose folder above is the path */
    snprintf(inside, sizeof inside, "%s/", path);
    TRY(file_make_folders(inside, 0700, error));
    if (lstat(path, &info) != 0)
        return fail_errno(error, path, "look at the folder of the cache");
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid())
        return fail(error, WISP_ERROR_IO, path, NULL,
                    "is not a folder of this user: name another (%s)", option);
    if (info.st_mode & (S_IWGRP | S_IWOTH))
        return fail(error, WISP_ERROR_IO, path, NULL,
                    "others can write to it, and so to any file of this user: take that right from "
                    "them (chmod go-w), or name another (%s)",
                    option);
    return WISP_OK;
}
