/* SPDX-License-Identifier: Apache-2.0
 * Looks at what is at a path; makes, changes and removes names. */
#include <stdatomic.h>
#include <string.h>

#include "windows/owner.h"
#include "windows/system.h"

/* ---- descriptions --------------------------------------------------------------------------- */

/* Windows counts 100 nanoseconds from 1601 on. */
enum { UNITS = 10000000 };
static const int64_t seconds_to_1970 = 11644473600;

static struct timespec time_of(int64_t units) {
    return (struct timespec){.tv_sec = (time_t)(units / UNITS - seconds_to_1970),
                             .tv_nsec = (long)(units % UNITS * 100)};
}

static int describe(HANDLE handle, struct windows_stat *info) {
    BY_HANDLE_FILE_INFORMATION file;
    FILE_BASIC_INFO times;
    FILE_STANDARD_INFO size;
    FILE_ATTRIBUTE_TAG_INFO tag;
    if (!GetFileInformationByHandle(handle, &file) ||
        !GetFileInformationByHandleEx(handle, FileBasicInfo, &times, sizeof times) ||
        !GetFileInformationByHandleEx(handle, FileStandardInfo, &size, sizeof size))
        return windows_fail();
    const bool is_link =
        (file.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
        GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
        IsReparseTagNameSurrogate(tag.ReparseTag);
    const bool is_folder = file.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY;
    const bool is_read_only = file.dwFileAttributes & FILE_ATTRIBUTE_READONLY;
    *info =
        (struct windows_stat){.st_dev = file.dwVolumeSerialNumber,
                              .st_ino = (uint64_t)file.nFileIndexHigh << 32 | file.nFileIndexLow,
                              .st_mode = (unsigned)(is_link     ? S_IFLNK
                                                    : is_folder ? S_IFDIR | 0111
                                                                : S_IFREG) |
                                         (is_read_only && !is_folder ? 0444u : 0666u),
                              .st_nlink = (unsigned)(size.DeletePending ? 0 : size.NumberOfLinks),
                              .st_size = size.EndOfFile.QuadPart,
                              .st_blocks = (size.AllocationSize.QuadPart + 511) / 512,
                              .st_atim = time_of(times.LastAccessTime.QuadPart),
                              .st_mtim = time_of(times.LastWriteTime.QuadPart),
                              .st_ctim = time_of(times.ChangeTime.QuadPart)};
    return 0;
}

int windows_fstat(int file, struct windows_stat *info) {
    const HANDLE handle = windows_handle(file);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    if (GetFileType(handle) == FILE_TYPE_DISK)
        return describe(handle, info);
    *info = (struct windows_stat){.st_mode = S_IFCHR | 0666, .st_nlink = 1};
    return 0;
}

static int describe_path(const char *path, DWORD how, struct windows_stat *info) {
    const HANDLE handle = windows_open_path(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING,
                                            FILE_FLAG_BACKUP_SEMANTICS | how, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    const int failed = describe(handle, info);
    CloseHandle(handle);
    return failed;
}

int windows_stat(const char *path, struct windows_stat *info) {
    return describe_path(path, 0, info);
}

int windows_lstat(const char *path, struct windows_stat *info) {
    return describe_path(path, FILE_FLAG_OPEN_REPARSE_POINT, info);
}

int windows_access(const char *path, int mode) {
    struct windows_stat info;
    (void)mode;
    return windows_stat(path, &info);
}

int windows_faccessat(int folder, const char *path, int mode, int flags) {
    (void)folder, (void)mode, (void)flags;
    const HANDLE handle =
        windows_open_path(path, FILE_ADD_FILE, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    CloseHandle(handle);
    return 0;
}

static LARGE_INTEGER units_of(struct timespec time) {
    return (LARGE_INTEGER){.QuadPart =
                               (time.tv_sec + seconds_to_1970) * UNITS + time.tv_nsec / 100};
}

int windows_utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    (void)folder;
    const DWORD how = flags & AT_SYMLINK_NOFOLLOW ? FILE_FLAG_OPEN_REPARSE_POINT : 0;
    const HANDLE handle = windows_open_path(path, FILE_WRITE_ATTRIBUTES, OPEN_EXISTING,
                                            FILE_FLAG_BACKUP_SEMANTICS | how, NULL);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    FILE_BASIC_INFO info = {.LastAccessTime = units_of(times[0]),
                            .LastWriteTime = units_of(times[1])}; /* 0: stays as it is */
    const int failed =
        SetFileInformationByHandle(handle, FileBasicInfo, &info, sizeof info) ? 0 : windows_fail();
    CloseHandle(handle);
    return failed;
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Windows 10 renames and deletes as POSIX says: at once, though somebody has the file open. Others
 * refuse these kinds of information, and then Windows' older functions are called. */
static const FILE_INFO_BY_HANDLE_CLASS DISPOSITION = 21, RENAME = 22; /* File...InfoEx */
enum { DELETES = 1, REPLACES = 1, AS_POSIX = 2, ALSO_READ_ONLY = 16 };

static bool is_refused(void) {
    const DWORD code = GetLastError();
    return code == ERROR_INVALID_PARAMETER || code == ERROR_NOT_SUPPORTED ||
           code == ERROR_INVALID_FUNCTION || code == ERROR_CALL_NOT_IMPLEMENTED;
}

/* Renames an open file: RENAME as POSIX says, FileRenameInfo if no other has the name. */
static bool rename_open(HANDLE handle, const wchar_t *to, FILE_INFO_BY_HANDLE_CLASS class) {
    struct {
        DWORD flags;
        HANDLE folder;
        DWORD bytes;
        wchar_t name[1];
    } *info; /* a FILE_RENAME_INFO */
    const size_t bytes = wcslen(to) * sizeof *to;
    info = calloc(1, sizeof *info + bytes);
    if (!info) {
        SetLastError(ERROR_OUTOFMEMORY);
        return false;
    }
    info->flags = class == RENAME ? REPLACES | AS_POSIX : 0;
    info->bytes = (DWORD)bytes;
    memcpy(info->name, to, bytes);
    const bool good =
        SetFileInformationByHandle(handle, class, info, (DWORD)(sizeof *info + bytes));
    const DWORD code = GetLastError();
    free(info);
    SetLastError(code);
    return good;
}

static bool replace(HANDLE handle, const wchar_t *from, const wchar_t *to) {
    return rename_open(handle, to, RENAME) ||
           (is_refused() &&
            MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH));
}

int windows_rename(const char *from, const char *to) {
    wchar_t *wide_from = wide_path(from), *wide_to = wide_path(to);
    int failed = -1;
    const HANDLE handle =
        wide_from && wide_to
            ? windows_open_path(from, DELETE | SYNCHRONIZE, OPEN_EXISTING,
                                FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL)
            : INVALID_HANDLE_VALUE;
    if (handle != INVALID_HANDLE_VALUE) {
        failed = replace(handle, wide_from, wide_to) ? 0 : windows_fail();
        CloseHandle(handle);
    }
    free(wide_from);
    free(wide_to);
    return failed;
}

/* Renames an open file to a name beside it that nobody asks for, so that its own is free when the
 * older way deletes it, which waits until all have closed it. */
static void move_aside(HANDLE handle, const char *path) {
    static atomic_uint serial;
    char aside[PATH_MAX + 64];
    const int length = snprintf(aside, sizeof aside, "%s.%lx-%u.deleted", path,
                                GetCurrentProcessId(), atomic_fetch_add(&serial, 1));
    wchar_t *wide = length < (int)sizeof aside ? wide_path(aside) : NULL;
    if (wide)
        rename_open(handle, wide, FileRenameInfo);
    free(wide);
}

static bool delete_open(HANDLE handle, const char *path) {
    DWORD how = DELETES | AS_POSIX | ALSO_READ_ONLY;
    FILE_DISPOSITION_INFO older = {TRUE};
    if (SetFileInformationByHandle(handle, DISPOSITION, &how, sizeof how))
        return true;
    if (!is_refused())
        return false;
    move_aside(handle, path);
    return SetFileInformationByHandle(handle, FileDispositionInfo, &older, sizeof older);
}

int windows_unlink(const char *path) {
    const HANDLE handle =
        windows_open_path(path, DELETE | SYNCHRONIZE | FILE_READ_ATTRIBUTES, OPEN_EXISTING,
                          FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    struct windows_stat info;
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    int failed = describe(handle, &info);
    if (failed == 0 && S_ISDIR(info.st_mode)) {
        errno = EPERM;
        failed = -1;
    } else if (failed == 0 && !delete_open(handle, path)) {
        failed = windows_fail();
    }
    CloseHandle(handle);
    return failed;
}

int windows_mkdir(const char *path, unsigned mode) {
    SECURITY_ATTRIBUTES private, *security = NULL;
    if ((mode & 077) == 0 && !owner_only(security = &private))
        return -1;
    wchar_t *wide = wide_path(path);
    const int failed = wide ? CreateDirectoryW(wide, security) ? 0 : windows_fail() : -1;
    free(wide);
    if (security)
        owner_release(security);
    return failed;
}

int windows_rmdir(const char *path) {
    wchar_t *wide = wide_path(path);
    const int failed = wide ? RemoveDirectoryW(wide) ? 0 : windows_fail() : -1;
    free(wide);
    return failed;
}

/* ---- folders -------------------------------------------------------------------------------- */

struct windows_folder {
    HANDLE search;
    WIN32_FIND_DATAW found;
    bool is_read; /* the name in `found` was given out */
    struct windows_dirent entry;
};

struct windows_folder *windows_opendir(const char *path) {
    struct windows_folder *folder = calloc(1, sizeof *folder);
    char *pattern = malloc(strlen(path) + sizeof "/*");
    wchar_t *wide = NULL;
    if (!folder || !pattern)
        errno = ENOMEM;
    else {
        strcpy(pattern, path);
        strcat(pattern, "/*");
        wide = wide_path(pattern);
    }
    free(pattern);
    if (wide)
        folder->search = FindFirstFileW(wide, &folder->found);
    if (wide && folder->search == INVALID_HANDLE_VALUE)
        windows_fail();
    if (!wide || folder->search == INVALID_HANDLE_VALUE) {
        free(folder);
        folder = NULL;
    }
    free(wide);
    return folder;
}

struct windows_dirent *windows_readdir(struct windows_folder *folder) {
    if (folder->is_read && !FindNextFileW(folder->search, &folder->found)) {
        if (GetLastError() != ERROR_NO_MORE_FILES)
            windows_fail();
        return NULL;
    }
    folder->is_read = true;
    return narrow_text(folder->found.cFileName, folder->entry.d_name, sizeof folder->entry.d_name)
               ? &folder->entry
               : NULL;
}

int windows_closedir(struct windows_folder *folder) {
    FindClose(folder->search);
    free(folder);
    return 0;
}
