/* SPDX-License-Identifier: Apache-2.0
 * Expands blocks of 32 elements. Comments give the fields of a block in their order.
 * Compiled for size in WebAssembly. */
#include "quant/codecs.h"

/* Q4_1: f16 d, f16 m, 16 bytes whose low nibbles are elements 0..15 and whose high ones 16..31.
 * x = d q + m */
void dequantise_q4_1(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 20, out += 32) {
        const float d = half_at(b), m = half_at(b + 2);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)(b[4 + j] & 15) + m;
            out[j + 16] = d * (float)(b[4 + j] >> 4) + m;
        }
    }
}

/* Q5_0: f16 d, u32 high bits, 16 bytes of nibbles. x = d (q - 16) */
void dequantise_q5_0(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 22, out += 32) {
        const float d = half_at(b);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)(five_bits(b + 6, load_u32(b + 2), j) - 16);
    }
}

/* Q5_1: f16 d, f16 m, u32 high bits, 16 bytes of nibbles. x = d q + m */
void dequantise_q5_1(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 24, out += 32) {
        const float d = half_at(b), m = half_at(b + 2);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)five_bits(b + 8, load_u32(b + 4), j) + m;
    }
}

/* Q8_0: f16 d, 32 signed bytes. x = d q */
void dequantise_q8_0(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 34, out += 32) {
        const float d = half_at(b);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)(int8_t)b[2 + j];
    }
}
