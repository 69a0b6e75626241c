/* SPDX-License-Identifier: Apache-2.0
 * Buffers that end, or start, exactly at a page that may not be touched, so that reading or
 * writing one byte too many is a fault. On the side that is open, and on both sides in
 * WebAssembly, which has no pages to protect, lie canaries: bytes that read as NaN and whose
 * change is noticed. */
#ifndef WISP_TESTS_GUARDED_H
#define WISP_TESTS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

enum guarded_side {
    GUARDED_END,   /* the last byte is the last that may be touched */
    GUARDED_START, /* the first byte is the first one */
    GUARDED_LOOSE, /* near the end, at an odd address */
    GUARDED_SIDES
};

struct guarded {
    unsigned char *low, *high; /* what may be touched, canaries included */
    unsigned char *data;       /* what was placed last */
    size_t bytes;
    size_t margin; /* room for canaries outside of data, where no page guards */
};

/* Room for buffers of up to `capacity` bytes, one at a time. Ends the program where there is none.
 */
void guarded_open(struct guarded *g, size_t capacity);

/* Makes the buffer `bytes` long, full of canaries inside and outside. For GUARDED_END it is as
 * aligned as `bytes` is. */
void *guarded_place(struct guarded *g, size_t bytes, enum guarded_side side);

/* Whether the canaries around the buffer are still there. */
bool guarded_intact(const struct guarded *g);

/* Whether these bytes inside the buffer have not been written since it was placed. */
bool guarded_untouched(const void *bytes, size_t n);

void guarded_close(struct guarded *g);

#endif
