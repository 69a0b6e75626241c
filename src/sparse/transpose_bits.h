/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_SPARSE_TRANSPOSE_BITS_H
#define WISP_SPARSE_TRANSPOSE_BITS_H

#include <stdint.h>

/* Bit j of word i becomes bit i of word j: squares of 32 bits a side, then of 16 and so on, have
 * their upper right and lower left quarters exchanged. */
static inline void transpose_bits(uint64_t words[64]) {
    uint64_t low = UINT64_C(0xffffffff);
    for (unsigned side = 32; side != 0; side /= 2, low ^= low << side)
        for (unsigned i = 0; i < 64; i = (i + side + 1) & ~side) {
            const uint64_t exchanged = (words[i] >> side ^ words[i + side]) & low;
            words[i] ^= exchanged << side;
            words[i + side] ^= exchanged;
        }
}

#endif
