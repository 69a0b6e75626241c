/* SPDX-License-Identifier: Apache-2.0
 * How weights of Q2_K, Q3_K, Q5_K, Q6_K, Q5_0 and Q5_1 are laid out in a panel. All have the same
 * layout but for the number of bits of a weight, 2, 3, 5 or 6, and for their scales. kernels.h
 * describes it.
 */
#ifndef WISP_KERNELS_K_LAYOUT_H
#define WISP_KERNELS_K_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

enum { K_PART = 32, K_HALF = 16 }; /* weights of a part and of a half, which has a scale */

enum k_scales {
    K_SCALES,        /* bytes for each half or part, and 16-bit floats for an INT8_BLOCK */
    K_SCALES_D,      /* Q5_0: a 16-bit float d for each part, of which the minimum is -16 times */
    K_SCALES_D_AND_M /* Q5_1: d and a minimum m */
};

/* Whether weights have a minimum: those of 2 bits for each half, those of 5 bits for each part. */
static inline bool k_has_min(const int bits) {
    return bits == 2 || bits == 5;
}

/* Returns what is subtracted from codes. Weights have a minimum or a centre. */
static inline int k_centre(const int bits) {
    return k_has_min(bits) ? 0 : 1 << (bits - 1);
}

/* Return the bytes for each row of a panel: of a block without its parts, of the scales of a part,
 * and of a part. */
static inline size_t k_header_bytes(const int bits, enum k_scales scales) {
    return scales != K_SCALES ? 4 : k_has_min(bits) ? 8 : 6;
}

static inline size_t k_scale_bytes(enum k_scales scales) {
    return scales == K_SCALES_D_AND_M ? 4 : 2;
}

static inline size_t k_part_bytes(const int bits, enum k_scales scales) {
    return k_scale_bytes(scales) + (size_t)bits * K_PART / 8;
}

#endif
