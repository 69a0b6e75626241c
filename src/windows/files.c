/* SPDX-License-Identifier: Apache-2.0
 * Opening, reading, writing and locking files. */
#include <stdarg.h>
#include <string.h>

#include "windows/owner.h"
#include "windows/system.h"

HANDLE windows_handle(int file) {
    const HANDLE handle = (HANDLE)_get_osfhandle(file);
    if (handle == INVALID_HANDLE_VALUE)
        errno = EBADF;
    return handle;
}

/* ---- opening -------------------------------------------------------------------------------- */

static DWORD rights_of(int flags) {
    const int access = flags & (O_RDONLY | O_WRONLY | O_RDWR);
    const DWORD writing =
        flags & O_APPEND ? FILE_GENERIC_WRITE & ~(DWORD)FILE_WRITE_DATA : (DWORD)FILE_GENERIC_WRITE;
    return (access == O_WRONLY ? 0 : FILE_GENERIC_READ) | (access == O_RDONLY ? 0 : writing);
}

static DWORD creation_of(int flags) {
    if (!(flags & O_CREAT))
        return flags & O_TRUNC ? TRUNCATE_EXISTING : OPEN_EXISTING;
    if (flags & O_EXCL)
        return CREATE_NEW;
    return flags & O_TRUNC ? CREATE_ALWAYS : OPEN_ALWAYS;
}

/* Returns whether what was opened as it is, without following, is a link. Sets errno then. */
static bool is_link(HANDLE handle) {
    FILE_ATTRIBUTE_TAG_INFO info;
    const bool found =
        GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &info, sizeof info) &&
        (info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
        IsReparseTagNameSurrogate(info.ReparseTag);
    if (found)
        errno = ELOOP;
    return found;
}

static bool is_no_folder(HANDLE handle) {
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileInformationByHandle(handle, &info) &&
        (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY))
        return false;
    errno = ENOTDIR;
    return true;
}

int windows_open(const char *path, int flags, ...) {
    SECURITY_ATTRIBUTES private, *security = NULL;
    /* Without backup semantics folders cannot be opened. */
    DWORD how = FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS;
    if (flags & O_NOFOLLOW)
        how |= FILE_FLAG_OPEN_REPARSE_POINT;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        const unsigned mode = va_arg(arguments, unsigned);
        va_end(arguments);
        if ((mode & 077) == 0 && !owner_only(security = &private))
            return -1;
    }
    const HANDLE handle =
        windows_open_path(path, rights_of(flags), creation_of(flags), how, security);
    if (security)
        owner_release(security);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    int file = -1;
    if (!((flags & O_NOFOLLOW) && is_link(handle)) &&
        !((flags & O_DIRECTORY) && is_no_folder(handle)))
        file = _open_osfhandle((intptr_t)handle, _O_BINARY | (flags & (O_APPEND | O_CLOEXEC)));
    if (file < 0)
        CloseHandle(handle);
    return file;
}

FILE *windows_fopen(const char *path, const char *mode) {
    const bool updates = strchr(mode, '+') != NULL;
    const int writing = updates ? O_RDWR : O_WRONLY;
    const int flags = mode[0] == 'r'   ? (updates ? O_RDWR : O_RDONLY)
                      : mode[0] == 'w' ? writing | O_CREAT | O_TRUNC
                                       : writing | O_CREAT | O_APPEND;
    const int file = open(path, flags, 0666);
    FILE *stream = file >= 0 ? fdopen(file, mode) : NULL;
    if (file >= 0 && !stream)
        close(file);
    return stream;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

enum { MOST_AT_ONCE = 1 << 30 };

static OVERLAPPED place(off_t offset) {
    return (OVERLAPPED){.Offset = (DWORD)(uint64_t)offset,
                        .OffsetHigh = (DWORD)((uint64_t)offset >> 32)};
}

ssize_t windows_pread(int file, void *bytes, size_t length, off_t offset) {
    const HANDLE handle = windows_handle(file);
    OVERLAPPED at = place(offset);
    DWORD n = 0;
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    if (!ReadFile(handle, bytes, length < MOST_AT_ONCE ? (DWORD)length : MOST_AT_ONCE, &n, &at) &&
        GetLastError() != ERROR_HANDLE_EOF)
        return windows_fail();
    return (ssize_t)n;
}

ssize_t windows_pwrite(int file, const void *bytes, size_t length, off_t offset) {
    const HANDLE handle = windows_handle(file);
    OVERLAPPED at = place(offset);
    DWORD n = 0;
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    if (!WriteFile(handle, bytes, length < MOST_AT_ONCE ? (DWORD)length : MOST_AT_ONCE, &n, &at))
        return windows_fail();
    return (ssize_t)n;
}

ssize_t windows_write(int file, const void *bytes, size_t length) {
    return _write(file, bytes, length < MOST_AT_ONCE ? (unsigned)length : MOST_AT_ONCE);
}

int windows_fsync(int file) {
    const HANDLE handle = windows_handle(file);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    return FlushFileBuffers(handle) ? 0 : windows_fail();
}

/* ---- locks ---------------------------------------------------------------------------------- */

/* Windows keeps others from the bytes that are locked. So the byte that stands for a file is one
 * that no file has. */
int windows_flock(int file, int operation) {
    enum { TRIES = 5, MILLISECONDS = 10 };
    const HANDLE handle = windows_handle(file);
    OVERLAPPED at = place(INT64_MAX - 1);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    UnlockFileEx(handle, 0, 1, 0, &at); /* a lock of another kind takes the place of the one held */
    if (operation & LOCK_UN)
        return 0;
    const DWORD kind =
        LOCKFILE_FAIL_IMMEDIATELY | (operation & LOCK_EX ? (DWORD)LOCKFILE_EXCLUSIVE_LOCK : 0);
    for (int tries = 0;; tries++) {
        at = place(INT64_MAX - 1);
        if (LockFileEx(handle, kind, 0, 1, 0, &at))
            return 0;
        if (GetLastError() != ERROR_LOCK_VIOLATION && GetLastError() != ERROR_IO_PENDING)
            return windows_fail();
        if ((operation & LOCK_NB) || tries == TRIES)
            break;
        Sleep(MILLISECONDS);
    }
    errno = operation & LOCK_NB ? EWOULDBLOCK : EINTR;
    return -1;
}
