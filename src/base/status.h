/* SPDX-License-Identifier: Apache-2.0
 * Reports of failure: a function that can fail returns a wisp_status, and puts the details into the
 * caller's wisp_error. */
#ifndef WISP_BASE_STATUS_H
#define WISP_BASE_STATUS_H

#include "wisp.h"

/* Fills `error` (may be NULL). `file` and `field` may be NULL; if given, they precede the
 * formatted text in the message. */
void set_error(wisp_error *error, wisp_status status, const char *file, const char *field,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* set_error as an expression whose value is `status`, which lets the compiler see that a failing
 * function does not go on to return WISP_OK. */
#define fail(error, status, ...) (set_error(error, status, __VA_ARGS__), (wisp_status)(status))

/* Check arguments of the API. `require` fails with WISP_ERROR_ARGUMENT if `argument` is NULL.
 * `require_texts` does if texts [n] is NULL and n > 0, or if a text has a length but no
 * bytes. */
wisp_status require(const void *argument, const char *name, wisp_error *error);
wisp_status require_texts(const wisp_text *texts, size_t n, wisp_error *error);

#define fail_memory(error, bytes)                                                                  \
    fail(error, WISP_ERROR_MEMORY, NULL, NULL, "out of memory: %llu bytes were needed",            \
         (unsigned long long)(bytes))

/* Returns from the calling function with the status of `call` if it failed. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const wisp_status try_status = (call);                                                     \
        if (try_status != WISP_OK)                                                                 \
            return try_status;                                                                     \
    } while (0)

#endif
