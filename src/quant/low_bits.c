/* SPDX-License-Identifier: Apache-2.0
 * Weights of one and two bits of the Bonsai models: Q1_0, Q2_0 and PQ2_0, the form of Q2_0 with
 * blocks of 128. A block is an f16 d, then the codes in the order of the elements, the first in the
 * lowest bits of a byte.
 * Compiled for size in WebAssembly. */
#include "quant/codecs.h"

/* Q1_0: x = d if the bit of the element is set, else -d. */
void codes_of_q1_0(const unsigned char *block, unsigned char codes[128]) {
    for (int j = 0; j < 128; j++)
        codes[j] = (unsigned char)((block[2 + j / 8] >> j % 8 & 1) * 2);
}

void codes_of_q2_0(const unsigned char *block, unsigned char codes[64]) {
    for (int j = 0; j < 64; j++)
        codes[j] = block[2 + j / 4] >> j % 4 * 2 & 3;
}

/* The codes are those of two blocks of Q2_0. */
void codes_of_pq2_0(const unsigned char *block, unsigned char codes[128]) {
    codes_of_q2_0(block, codes);
    codes_of_q2_0(block + 16, codes + 64);
}

/* Expands n elements of blocks of `elements` elements in `bytes` bytes. x = d (code - 1) */
static void expand(const unsigned char *block, size_t elements, size_t bytes,
                   void (*codes_of)(const unsigned char *, unsigned char *), size_t n, float *out) {
    unsigned char codes[128];
    for (size_t i = 0; i < n; i += elements, block += bytes, out += elements) {
        const float d = half_at(block);
        codes_of(block, codes);
        for (size_t j = 0; j < elements; j++)
            out[j] = (float)(codes[j] - 1) * d;
    }
}

void dequantise_q1_0(const void *blocks, size_t n, float *out) {
    expand(blocks, 128, 18, codes_of_q1_0, n, out);
}

void dequantise_q2_0(const void *blocks, size_t n, float *out) {
    expand(blocks, 64, 18, codes_of_q2_0, n, out);
}

void dequantise_pq2_0(const void *blocks, size_t n, float *out) {
    expand(blocks, 128, 34, codes_of_pq2_0, n, out);
}
