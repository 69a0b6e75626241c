/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_HOST_FAIL_ERRNO_H
#define WISP_HOST_FAIL_ERRNO_H

#include <errno.h>
#include <string.h>

#include "base/status.h"

/* Fails because of errno, with WISP_ERROR_MEMORY for ENOMEM and else WISP_ERROR_IO. `action` says
 * what could not be done to the file at `path`, such as "open". Native only. It is inline because
 * the compiler then sees that it never returns WISP_OK. */
static inline wisp_status fail_errno(wisp_error *error, const char *path, const char *action) {
    const int code = errno;
    /* strerror is safe among threads here: in glibc and musl each thread has its own text. */
    return fail(error, code == ENOMEM ? WISP_ERROR_MEMORY : WISP_ERROR_IO, path, NULL,
                "cannot %s: %s", action, strerror(code));
}

#endif
