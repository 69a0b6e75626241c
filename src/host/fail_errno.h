/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_HOST_FAIL_ERRNO_H
#define WISP_HOST_FAIL_ERRNO_H

#include "base/status.h"

/* Fails because of errno, with WISP_ERROR_MEMORY for ENOMEM and else WISP_ERROR_IO. `action` says
 * what could not be done to the file at `path`, such as "open". Native only. */
wisp_status fail_errno(wisp_error *error, const char *path, const char *action);

#endif
