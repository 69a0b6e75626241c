/* SPDX-License-Identifier: Apache-2.0
 * Expands weights of one and two bits of the Bonsai models: Q1_0, Q2_0 and PQ2_0, the form of Q2_0
 * with blocks of 128. A block is an f16 d, then the codes in the order of the elements, the first
 * in the lowest bits of a byte.
 * Compiled for size in WebAssembly. */
#include "quant/codecs.h"

/* Q1_0: x = d where the bit of the element is set, else -d. */
void dequantise_q1_0(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 128, b += 18, out += 128) {
        const float d = half_at(b);
        for (int j = 0; j < 128; j++)
            out[j] = b[2 + j / 8] >> j % 8 & 1 ? d : -d;
    }
}

/* Expands blocks of `elements` elements. x = d (code - 1) */
static void expand_pairs(const unsigned char *b, size_t elements, size_t n, float *out) {
    for (size_t i = 0; i < n; i += elements, b += 2 + elements / 4, out += elements) {
        const float d = half_at(b);
        for (size_t j = 0; j < elements; j++)
            out[j] = (float)((b[2 + j / 4] >> j % 4 * 2 & 3) - 1) * d;
    }
}

void dequantise_q2_0(const void *blocks, size_t n, float *out) {
    expand_pairs(blocks, 64, n, out);
}

void dequantise_pq2_0(const void *blocks, size_t n, float *out) {
    expand_pairs(blocks, 128, n, out);
}
