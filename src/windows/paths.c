/* SPDX-License-Identifier: Apache-2.0
 * Paths of UTF-8, and the errors of Windows as errno. */
#include <string.h>

#include "windows/system.h"

static int errno_of(DWORD code) {
    static const struct {
        DWORD code;
        int number;
    } known[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_BAD_PATHNAME, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_BAD_NET_NAME, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EACCES},
        {ERROR_LOCK_VIOLATION, EACCES},
        {ERROR_DELETE_PENDING, EACCES},
        {ERROR_PRIVILEGE_NOT_HELD, EPERM},
        {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_FILE_TOO_LARGE, EFBIG},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_INVALID_HANDLE, EBADF},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_BUFFER_OVERFLOW, ENAMETOOLONG},
        {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_CANT_RESOLVE_FILENAME, ELOOP},
        {ERROR_INVALID_PARAMETER, EINVAL},
        {ERROR_NOT_SUPPORTED, ENOSYS},
        {ERROR_CALL_NOT_IMPLEMENTED, ENOSYS},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].code == code)
            return known[i].number;
    return EIO;
}

int windows_fail(void) {
    errno = errno_of(GetLastError());
    return -1;
}

/* Returns a path that is longer than Windows takes as it is in the form that may be long: whole,
 * and with a mark before it. Frees the other one. */
static wchar_t *lengthen(wchar_t *path) {
    static const wchar_t mark[] = L"\\\\?\\", server[] = L"\\\\?\\UNC";
    const DWORD length = GetFullPathNameW(path, 0, NULL, NULL);
    wchar_t *whole = calloc(length + sizeof server / sizeof *server, sizeof *whole);
    if (!whole) {
        free(path);
        errno = ENOMEM;
        return NULL;
    }
    wchar_t *at = whole + sizeof server / sizeof *server - 1;
    GetFullPathNameW(path, length, at, NULL);
    free(path);
    const bool is_server = at[0] == L'\\' && at[1] == L'\\';
    const wchar_t *before = is_server ? server : mark;
    at += is_server; /* \\server becomes \\?\UNC\server */
    memmove(whole + wcslen(before), at, (wcslen(at) + 1) * sizeof *at);
    memcpy(whole, before, wcslen(before) * sizeof *before);
    return whole;
}

wchar_t *wide_path(const char *path) {
    enum { MOST_AS_IT_IS = 240 }; /* MAX_PATH less a name that Windows wants to add to a folder */
    const int units = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    if (units <= 0 || units > WIDE_PATH) {
        errno = units <= 0 ? EILSEQ : ENAMETOOLONG;
        return NULL;
    }
    wchar_t *wide = malloc((size_t)units * sizeof *wide);
    if (!wide) {
        errno = ENOMEM;
        return NULL;
    }
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, units);
    for (wchar_t *at = wide; *at; at++)
        if (*at == L'/')
            *at = L'\\';
    return units > MOST_AS_IT_IS && wcsncmp(wide, L"\\\\?\\", 4) != 0 ? lengthen(wide) : wide;
}

bool narrow_text(const wchar_t *wide, char *text, size_t capacity) {
    const int room = capacity < INT_MAX ? (int)capacity : INT_MAX;
    if (WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, room, NULL, NULL) > 0)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

HANDLE windows_open_path(const char *path, DWORD rights, DWORD creation, DWORD flags,
                         SECURITY_ATTRIBUTES *security) {
    wchar_t *wide = wide_path(path);
    if (!wide)
        return INVALID_HANDLE_VALUE;
    const HANDLE handle = CreateFileW(wide, rights, SHARE_ALL, security, creation, flags, NULL);
    free(wide);
    if (handle == INVALID_HANDLE_VALUE)
        windows_fail();
    return handle;
}

char *windows_realpath(const char *path, char *resolved) {
    const HANDLE handle =
        windows_open_path(path, 0, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return NULL;
    static const wchar_t mark[] = L"\\\\?\\", server[] = L"\\\\?\\UNC\\";
    wchar_t *wide = malloc(WIDE_PATH * sizeof *wide), *from = wide;
    bool good = false;
    if (!wide)
        errno = ENOMEM;
    else if (GetFinalPathNameByHandleW(handle, wide, WIDE_PATH, VOLUME_NAME_DOS) == 0)
        windows_fail();
    else {
        if (wcsncmp(wide, server, wcslen(server)) == 0)
            (from += wcslen(server) - 2)[0] = L'\\'; /* \\?\UNC\server becomes \\server */
        else if (wcsncmp(wide, mark, wcslen(mark)) == 0)
            from += wcslen(mark);
        good = narrow_text(from, resolved, PATH_MAX);
    }
    free(wide);
    CloseHandle(handle);
    for (char *at = resolved; good && *at; at++)
        if (*at == '\\')
            *at = '/';
    return good ? resolved : NULL;
}

static bool is_slash(char c) {
    return c == '/' || c == '\\';
}

char *windows_dirname(char *path) {
    static char here[] = ".";
    const bool has_drive = path[0] && path[1] == ':';
    char *first = path + (has_drive ? 2 : 0), *end = first + strlen(first);
    while (end > first && is_slash(end[-1]))
        end--;
    while (end > first && !is_slash(end[-1]))
        end--;
    if (end == first && !has_drive)
        return here;
    while (end > first + 1 && is_slash(end[-1]))
        end--;
    *end = '\0';
    return path;
}
