/* SPDX-License-Identifier: Apache-2.0
 * How weights of Q2_K, Q3_K, Q5_K and Q6_K lie in a panel. All have the same layout but for the
 * number of bits of a weight, which names the type: 2, 3, 5 or 6. kernels.h describes it. */
#ifndef WISP_KERNELS_K_LAYOUT_H
#define WISP_KERNELS_K_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

enum { K_PART = 32, K_HALF = 16 }; /* weights of a part and of a half, which has a scale */

/* Whether weights have a minimum: those of Q2_K for each half, those of Q5_K for each part. */
static inline bool k_has_min(const int bits) {
    return bits == 2 || bits == 5;
}

/* Returns what is subtracted from codes. Weights have a minimum or a centre. */
static inline int k_centre(const int bits) {
    return k_has_min(bits) ? 0 : 1 << (bits - 1);
}

/* Return the bytes for each row of a panel: of a block without its parts, and of a part. */
static inline size_t k_header_bytes(const int bits) {
    return k_has_min(bits) ? 8 : 6;
}

static inline size_t k_part_bytes(const int bits) {
    return 2 + (size_t)bits * K_PART / 8;
}

#endif
