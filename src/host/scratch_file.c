/* SPDX-License-Identifier: Apache-2.0 */
#include "host/scratch_file.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/fail_errno.h"
#include "host/file.h"

/* Makes a file and takes its name from it, for systems and file systems that cannot open one
 * without a name. */
static int open_and_unlink(const char *folder) {
    char path[PATH_MAX];
    if (file_join(folder, ".wisp-XXXXXX", path, sizeof path, NULL) != WISP_OK) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int file = mkstemp(path);
    if (file >= 0) {
        unlink(path);
        fcntl(file, F_SETFD, FD_CLOEXEC);
    }
    return file;
}

wisp_status scratch_file_open(const char *folder, int *file, wisp_error *error) {
    *file = -1;
#ifdef O_TMPFILE
    *file = open(folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
#endif
    if (*file < 0)
        *file = open_and_unlink(folder);
    return *file >= 0 ? WISP_OK : fail_errno(error, folder, "make a file in this folder");
}
