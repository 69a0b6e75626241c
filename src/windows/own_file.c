/* SPDX-License-Identifier: Apache-2.0 */
#include "host/own_file.h"

#include "host/fail_errno.h"
#include "host/file.h"
#include "windows/owner.h"

int own_file_open(const char *path, int flags) {
    struct stat info;
    struct owner_rights rights = {0};
    const int file = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return -1;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) ||
        !owner_look(windows_handle(file), &rights) || !rights.is_own) {
        close(file);
        errno = EPERM;
        return -1;
    }
    /* Parts that were never written take no room, if the file system can do that. */
    DWORD bytes;
    if ((flags & O_CREAT) && (flags & O_RDWR))
        DeviceIoControl(windows_handle(file), FSCTL_SET_SPARSE, NULL, 0, NULL, 0, &bytes, NULL);
    return file;
}

wisp_status own_folder_open(const char *path, const char *option, wisp_error *error) {
    char inside[PATH_MAX + 1]; /* "path/", whose folder above is the path */
    struct stat info;
    struct owner_rights rights;
    snprintf(inside, sizeof inside, "%s/", path);
    TRY(file_make_folders(inside, 0700, error));
    const int folder = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (folder < 0 && errno == ELOOP)
        return fail(error, WISP_ERROR_IO, path, NULL, "is a link: name another (%s)", option);
    if (folder < 0)
        return fail_errno(error, path, "look at the folder of the cache");
    const bool good = fstat(folder, &info) == 0 && owner_look(windows_handle(folder), &rights);
    const wisp_status status =
        good ? WISP_OK : fail_errno(error, path, "look at the folder of the cache");
    close(folder);
    TRY(status);
    if (!S_ISDIR(info.st_mode) || !rights.is_own)
        return fail(error, WISP_ERROR_IO, path, NULL,
                    "is not a folder of this user: name another (%s)", option);
    if (rights.others_can_write)
        return fail(error, WISP_ERROR_IO, path, NULL,
                    "others can write to it, and so to any file of this user: take that right from "
                    "them (icacls), or name another (%s)",
                    option);
    return WISP_OK;
}
