/* SPDX-License-Identifier: Apache-2.0
 * Files of caches on disk, which only this user may access: others could replace them by links, and
 * a process would then write to any file of its user. Native only. */
#ifndef WISP_HOST_OWN_FILE_H
#define WISP_HOST_OWN_FILE_H

#include "base/status.h"

/* Opens a file as open() does, with O_CREAT for this user only. Returns -1, and errno EPERM, if it
 * is not a regular file of this user, and fails at a symbolic link. */
int own_file_open(const char *path, int flags);

/* Makes a folder of this user, and those above it, if they do not exist. Fails with
 * WISP_ERROR_IO if that cannot be done, if the folder is not this user's, or if others can write to
 * it; then `option` is what names another folder. */
wisp_status own_folder_open(const char *path, const char *option, wisp_error *error);

#endif
