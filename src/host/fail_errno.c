/* SPDX-License-Identifier: Apache-2.0 */
#include "host/fail_errno.h"

#include <errno.h>
#include <string.h>

wisp_status fail_errno(wisp_error *error, const char *path, const char *action) {
    const int code = errno;
    /* strerror is safe among threads here: in glibc and musl each thread has its own text. */
    return fail(error, code == ENOMEM ? WISP_ERROR_MEMORY : WISP_ERROR_IO, path, NULL,
                "cannot %s: %s", action, strerror(code));
}
