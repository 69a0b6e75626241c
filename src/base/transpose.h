/* SPDX-License-Identifier: Apache-2.0
 * Transposes square matrices of bytes. The upper right and the lower left quarter of the matrix are
 * exchanged, then those of each of its quarters, and so on. Source: H. S. Warren, "Hacker's
 * Delight", section 7-3. */
#ifndef WISP_BASE_TRANSPOSE_H
#define WISP_BASE_TRANSPOSE_H

#include <stdint.h>

/* Transposes 8 x 8 bytes: byte j of word i, counted from the low end, becomes byte i of word j. */
static inline void transpose_bytes(uint64_t words[8]) {
    uint64_t low = UINT64_C(0xffffffff);
    for (unsigned side = 4; side != 0; side /= 2, low ^= low << 8 * side)
        for (unsigned i = 0; i < 8; i = (i + side + 1) & ~side) {
            const uint64_t exchanged = (words[i] >> 8 * side ^ words[i + side]) & low;
            words[i] ^= exchanged << 8 * side;
            words[i + side] ^= exchanged;
        }
}

#endif
