/* SPDX-License-Identifier: Apache-2.0
 * Tests that open GGUF files with one fault each, numbered as in opening.h. */
#ifndef WISP_TESTS_MALFORMED_GGUF_H
#define WISP_TESTS_MALFORMED_GGUF_H

#include "support/opening.h"

#define MINUS_1 UINT64_MAX
#define TWO_TO_THE(n) (UINT64_C(1) << (n))

#define FORMAT WISP_ERROR_FORMAT
#define UNSUPPORTED WISP_ERROR_UNSUPPORTED
#define NOT_FOUND WISP_ERROR_NOT_FOUND

struct malformed {
    const char *name;
    void (*alter)(struct gguf *file, uint64_t value);
    uint64_t value;
    wisp_status status;
    const char *field; /* NULL: any */
    const char *says;  /* NULL: anything */
};

/* Runs a test for each case: alters the file of a tiny model and opens it. Returns how many failed.
 */
int run_malformed(const char *group, const struct malformed *cases, size_t n);

#endif
