/* SPDX-License-Identifier: Apache-2.0
 * Expands blocks of 256 elements with scales of scales. Comments give the fields of a block in
 * their order.
 * Compiled for size in WebAssembly. */
#include "quant/codecs.h"

/* Returns the pair of bits of element i of a Q2_K or Q3_K block. Each half of a block has 128
 * elements in 32 bytes: the lowest pairs of these are elements 0..31, the next ones 32..63. */
static int pair_at(const unsigned char *pairs, int i) {
    return pairs[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

/* Q2_K: 16 bytes, of which each has the scale of 16 elements in its low nibble and their minimum in
 * its high one; 64 bytes of pairs of bits; f16 d, f16 dmin. x = d scale q - dmin min */
void dequantise_q2_k(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 84, out += 256)
        for (int j = 0; j < 256; j++) {
            const float scale = half_at(b + 80) * (float)(b[j / 16] & 15);
            const float min = half_at(b + 82) * (float)(b[j / 16] >> 4);
            out[j] = scale * (float)pair_at(b + 16, j) - min;
        }
}

/* Q3_K: 32 bytes, of which bit j of byte k is the third bit of element 32 j + k; 64 bytes of pairs
 * of bits; 12 bytes of scales; f16 d. The scale of each 16 elements has six bits: the low four of
 * scales 0..7 are the low nibbles of bytes 0..7, those of scales 8..15 the high nibbles, and the
 * high two of scale s are bits 2 (s / 4) and up of byte 8 + s % 4. x = d (scale - 32) (q - 4) */
void dequantise_q3_k(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 110, out += 256)
        for (int j = 0; j < 256; j++) {
            const float d = half_at(b + 108) * (float)q3_k_scale(b + 96, j / 16);
            const int high = b[j % 32] >> j / 32 & 1;
            out[j] = d * (float)(pair_at(b + 32, j) + 4 * high - 4);
        }
}

int q3_k_scale(const unsigned char *packed, int j) {
    const int low = packed[j % 8] >> j / 8 * 4 & 15, high = packed[8 + j % 4] >> j / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

/* Unpacks the scale and the minimum of sub-block j of 8, which have six bits each. The low six bits
 * of bytes 0..3 are the scales of sub-blocks 0..3, those of bytes 4..7 the minima. Sub-blocks 4..7
 * have the low four bits of their scales in the low nibbles of bytes 8..11, and those of their
 * minima in the high nibbles. The high two bits of bytes 0..3 complete the scales, those of
 * bytes 4..7 the minima. */
struct scale_and_min scale_and_min_at(const unsigned char *packed, int j) {
    if (j < 4)
        return (struct scale_and_min){packed[j] & 63, packed[j + 4] & 63};
    return (struct scale_and_min){(packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4,
                                  (packed[j + 4] >> 4) | (packed[j] >> 6) << 4};
}

/* Q4_K: f16 d, f16 dmin, 12 bytes of scales and minima, 128 bytes of nibbles. The low nibbles of
 * each 32 bytes are one sub-block of 32 elements, the high ones the next. x = d scale q - dmin min
 */
void dequantise_q4_k(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 144)
        for (int j = 0; j < 8; j++, out += 32) {
            const struct scale_and_min codes = scale_and_min_at(b + 4, j);
            const float scale = half_at(b) * (float)codes.scale;
            const float min = half_at(b + 2) * (float)codes.min;
            const unsigned char *q = b + 16 + j / 2 * 32;
            for (int k = 0; k < 32; k++)
                out[k] = scale * (float)(q[k] >> 4 * (j & 1) & 15) - min;
        }
}

/* Q5_K: as Q4_K, with 32 bytes before the nibbles. Bit j of byte k is the fifth bit of element k of
 * sub-block j. */
void dequantise_q5_k(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 176)
        for (int j = 0; j < 8; j++, out += 32) {
            const struct scale_and_min codes = scale_and_min_at(b + 4, j);
            const float scale = half_at(b) * (float)codes.scale;
            const float min = half_at(b + 2) * (float)codes.min;
            const unsigned char *high = b + 16, *q = b + 48 + j / 2 * 32;
            for (int k = 0; k < 32; k++)
                out[k] =
                    scale * (float)((q[k] >> 4 * (j & 1) & 15) | (high[k] >> j & 1) << 4) - min;
        }
}

/* Q6_K: 128 bytes of nibbles, the low four bits; 64 bytes of pairs of bits, the high two; 16 signed
 * scales, one for each 16 elements; f16 d. Each half of a block has 128 elements in 4 sub-blocks of
 * 32. Sub-block j takes the low (j < 2) or high nibbles of the half's bytes 32 (j & 1) and up, and
 * bits 2 j and 2 j + 1 of the half's 32 bytes of pairs. x = d scale (q - 32) */
void dequantise_q6_k(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 210)
        for (int j = 0; j < 8; j++, out += 32) {
            const int half = j / 4, quarter = j % 4;
            const unsigned char *low = b + 64 * half + 32 * (quarter & 1);
            const unsigned char *high = b + 128 + 32 * half;
            const unsigned char *scales = b + 192 + 2 * j;
            for (int k = 0; k < 32; k++) {
                const int q = (low[k] >> 4 * (quarter / 2) & 15) | (high[k] >> 2 * quarter & 3)
                                                                       << 4;
                out[k] = half_at(b + 208) * (float)(int8_t)scales[k / 16] * (float)(q - 32);
            }
        }
}
