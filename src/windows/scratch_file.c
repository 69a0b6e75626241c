/* SPDX-License-Identifier: Apache-2.0 */
#include "host/scratch_file.h"

#include <stdatomic.h>

#include "host/fail_errno.h"
#include "host/file.h"
#include "windows/owner.h"

/* Windows has no files without names. This one cannot be opened by others, and the system deletes
 * it when its handle is closed, as it does if the process dies. */
static int create(const char *path) {
    SECURITY_ATTRIBUTES private;
    wchar_t *wide = wide_path(path);
    if (!wide)
        return -1;
    if (!owner_only(&private)) {
        free(wide);
        return -1;
    }
    const HANDLE handle =
        CreateFileW(wide, GENERIC_READ | GENERIC_WRITE | DELETE, 0, &private, CREATE_NEW,
                    FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    owner_release(&private);
    free(wide);
    if (handle == INVALID_HANDLE_VALUE)
        return windows_fail();
    const int file = _open_osfhandle((intptr_t)handle, _O_BINARY | O_CLOEXEC);
    if (file < 0)
        CloseHandle(handle);
    return file;
}

wisp_status scratch_file_open(const char *folder, int *file, wisp_error *error) {
    static atomic_uint serial;
    *file = -1;
    do {
        char name[64], path[PATH_MAX];
        snprintf(name, sizeof name, ".wisp-%lx-%u", GetCurrentProcessId(),
                 atomic_fetch_add(&serial, 1));
        TRY(file_join(folder, name, path, sizeof path, error));
        *file = create(path);
    } while (*file < 0 && errno == EEXIST);
    return *file >= 0 ? WISP_OK : fail_errno(error, folder, "make a file in this folder");
}
