/* SPDX-License-Identifier: Apache-2.0
 * Windows' own functions, for the files of this folder. */
#ifndef WISP_WINDOWS_SYSTEM_H
#define WISP_WINDOWS_SYSTEM_H

#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <winioctl.h>

#include <stdbool.h>

#include "windows/posix.h"

/* The longest path of Windows, in units of UTF-16, and its end. */
enum { WIDE_PATH = 32768 };

/* Others may do with a file that is open here what they may do on other systems. */
#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)

/* Sets errno from GetLastError(). Returns -1. */
int windows_fail(void);

/* Returns a path of UTF-8 as Windows takes it, for free(). NULL, and errno, if it is no UTF-8, too
 * long, or there is no memory. */
wchar_t *wide_path(const char *path);

/* Writes UTF-16 as UTF-8. Returns false, and errno ENAMETOOLONG, if that has no room. */
bool narrow_text(const wchar_t *wide, char *text, size_t capacity);

/* Opens what there is at a path, as CreateFileW does, with `flags` for its attributes. */
HANDLE windows_open_path(const char *path, DWORD rights, DWORD creation, DWORD flags,
                         SECURITY_ATTRIBUTES *security);

/* Returns the handle of a descriptor, or INVALID_HANDLE_VALUE and errno. */
HANDLE windows_handle(int file);

#endif
