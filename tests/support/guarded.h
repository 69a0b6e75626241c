/* SPDX-License-Identifier: Apache-2.0
 * Buffers that end, or start, exactly at a page that must not be accessed, so that reading or
 * writing one byte too many is a fault. On the other side, and in WebAssembly, which has no pages
 * to protect, on both sides, lie canaries: bytes that read as NaN and whose change is detected. */
#ifndef WISP_TESTS_GUARDED_H
#define WISP_TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

enum guarded_side {
    GUARDED_END,   /* data ends at the guard page */
    GUARDED_START, /* data starts at the guard page */
    GUARDED_LOOSE, /* data ends near the guard page, at an odd address */
    GUARDED_SIDES
};

struct guarded {
    unsigned char *low, *high; /* the accessible bytes, canaries included */
    unsigned char *data;       /* the buffer that was placed last */
    size_t bytes;
    size_t margin; /* room for canaries outside of data, if no page guards */
};

/* Makes room for buffers of up to `capacity` bytes, one at a time. Ends the program if there is
 * no memory. */
void guarded_open(struct guarded *g, size_t capacity);

/* Makes the buffer `bytes` long, with canaries inside and outside. With GUARDED_END its alignment
 * is the largest that divides `bytes`. */
void *guarded_place(struct guarded *g, size_t bytes, enum guarded_side side);

/* Returns whether the canaries around the buffer are unchanged. */
bool guarded_intact(const struct guarded *g);

/* Returns whether these bytes inside the buffer have not been written since it was placed. */
bool guarded_untouched(const void *bytes, size_t n);

void guarded_close(struct guarded *g);

#endif
