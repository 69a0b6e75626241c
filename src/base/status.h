/* SPDX-License-Identifier: Apache-2.0
 * How internal functions report failure: a wisp_status back, the details in the caller's error. */
#ifndef WISP_BASE_STATUS_H
#define WISP_BASE_STATUS_H

#include "wisp.h"

/* Fills `error` (may be NULL) and returns `status`. `file` and `field` may be NULL; where given,
 * they precede the formatted text in the message. */
wisp_status fail(wisp_error *error, wisp_status status, const char *file, const char *field,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

wisp_status fail_memory(wisp_error *error, uint64_t bytes);

/* Passes a failure on to the caller. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const wisp_status try_status = (call);                                                     \
        if (try_status != WISP_OK)                                                                 \
            return try_status;                                                                     \
    } while (0)

#endif
