/* SPDX-License-Identifier: Apache-2.0
 * The functions that the table of block formats (blocks.c) lists, and what they share. All take
 * whole blocks. Those that quantise compute the bits of ggml's reference quantiser, except for
 * quantise_q4_0_fitted; their arithmetic, down to the order of sums, is part of the formats. */
#ifndef WISP_QUANT_CODECS_H
#define WISP_QUANT_CODECS_H

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/byte_order.h"
#include "base/half.h"

void dequantise_f32(const void *blocks, size_t n, float *out);
void dequantise_f16(const void *blocks, size_t n, float *out);
void dequantise_bf16(const void *blocks, size_t n, float *out);
void dequantise_q4_0(const void *blocks, size_t n, float *out);
void dequantise_q4_1(const void *blocks, size_t n, float *out);
void dequantise_q5_0(const void *blocks, size_t n, float *out);
void dequantise_q5_1(const void *blocks, size_t n, float *out);
void dequantise_q8_0(const void *blocks, size_t n, float *out);
void dequantise_q2_k(const void *blocks, size_t n, float *out);
void dequantise_q3_k(const void *blocks, size_t n, float *out);
void dequantise_q4_k(const void *blocks, size_t n, float *out);
void dequantise_q5_k(const void *blocks, size_t n, float *out);
void dequantise_q6_k(const void *blocks, size_t n, float *out);
void dequantise_iq4_nl(const void *blocks, size_t n, float *out);
void dequantise_iq4_xs(const void *blocks, size_t n, float *out);
void dequantise_tq1_0(const void *blocks, size_t n, float *out);
void dequantise_tq2_0(const void *blocks, size_t n, float *out);
void dequantise_mxfp4(const void *blocks, size_t n, float *out);
void dequantise_q1_0(const void *blocks, size_t n, float *out);
void dequantise_q2_0(const void *blocks, size_t n, float *out);
void dequantise_pq2_0(const void *blocks, size_t n, float *out);
void dequantise_bitnet_t158(const void *blocks, size_t n, float *out);

void quantise_f32(const float *values, size_t n, void *out);
void quantise_f16(const float *values, size_t n, void *out);
void quantise_bf16(const float *values, size_t n, void *out);
void quantise_q4_0(const float *values, size_t n, void *out);
void quantise_q4_1(const float *values, size_t n, void *out);
void quantise_q5_0(const float *values, size_t n, void *out);
void quantise_q5_1(const float *values, size_t n, void *out);
void quantise_q8_0(const float *values, size_t n, void *out);
void quantise_q2_k(const float *values, size_t n, void *out);
void quantise_q3_k(const float *values, size_t n, void *out);
void quantise_q4_k(const float *values, size_t n, void *out);
void quantise_q5_k(const float *values, size_t n, void *out);
void quantise_q6_k(const float *values, size_t n, void *out);
void quantise_iq4_nl(const float *values, size_t n, void *out);
void quantise_iq4_xs(const float *values, size_t n, void *out);
void quantise_tq1_0(const float *values, size_t n, void *out);
void quantise_tq2_0(const float *values, size_t n, void *out);
void quantise_mxfp4(const float *values, size_t n, void *out);

/* Quantises to BITNET_T158, which ggml does not have, with t158_defaults. */
void quantise_bitnet_t158(const float *values, size_t n, void *out);

/* Quantises to Q4_0 with the scale of least squared error rather than the reference's. */
void quantise_q4_0_fitted(const float *values, size_t n, void *out);

/* Stores 32 codes of four bits, or the low four bits of longer ones, and their fifth bits. */
void store_low_bits(const int codes[32], unsigned char *nibbles);
void store_fifth_bits(const int codes[32], unsigned char *bytes);

/* Returns the code of five bits of element i of 32: `nibbles` has its low four bits, bit i of
 * `high` is its fifth. */
static inline int five_bits(const unsigned char *nibbles, uint32_t high, int i) {
    const int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    return low | (int)(high >> i & 1) << 4;
}

/* Write the codes of the 256 weights of a block, which are d (code - 1). */
void codes_of_tq1_0(const unsigned char *block, unsigned char codes[256]);
void codes_of_tq2_0(const unsigned char *block, unsigned char codes[256]);
void codes_of_bitnet_t158(const unsigned char *block, unsigned char codes[256]);

/* Write the codes of a block of 128 or 64 weights. Those of Q1_0 are 0 and 2. */
void codes_of_q1_0(const unsigned char *block, unsigned char codes[128]);
void codes_of_pq2_0(const unsigned char *block, unsigned char codes[128]);
void codes_of_q2_0(const unsigned char *block, unsigned char codes[64]);

/* The levels of IQ4_NL and IQ4_XS, and twice those of MXFP4, in the order of their codes. */
extern const signed char iq4_levels[16], mxfp4_doubled[16];

/* Expands 32 codes to d times their levels. The first 16 codes are the low nibbles of 16 bytes, the
 * others the high nibbles.
 * */
void expand_levels(const unsigned char *nibbles, const signed char *levels, float d, float *out);

/* Returns half of 2^(exponent - 127), the factor of mxfp4_doubled, or NaN for the exponent 255,
 * which stands for it in OCP's specification. (ggml computes with 2^128 there, and its check of
 * tensors refuses the exponent.) */
static inline float mxfp4_scale(unsigned exponent) {
    if (exponent == 255)
        return NAN;
    return exponent < 2 ? float_of_bits(0x00200000u << exponent)
                        : float_of_bits((exponent - 1) << 23);
}

static inline float half_at(const unsigned char *bytes) {
    return float_of_half(load_u16(bytes));
}

static inline void store_half(float value, unsigned char *out) {
    store_u16(out, half_of_float(value));
}

/* Returns the scale and the minimum of sub-block j of a Q4_K or Q5_K block, 0..63, from the 12
 * bytes that hold all eight. */
struct scale_and_min {
    int scale, min;
};
struct scale_and_min scale_and_min_at(const unsigned char *packed, int j);

/* Returns the scale of 16 elements of a Q3_K block, -32..31, from the 12 bytes that hold all 16. */
int q3_k_scale(const unsigned char *packed, int j);

/* Returns the number, -32..31, by which d of an IQ4_XS block is multiplied for sub-block j. */
int iq4_xs_scale(const unsigned char *block, int j);

/* Rounds to the nearest whole number, ties to even, as adding 1.5 * 2^23 does. Beyond 2^22 the
 * result is a number without meaning. */
static inline int nearest_whole(float value) {
    return (int)(bits_of_float(value + 12582912.0f) & 0x7fffff) - 0x400000;
}

/* Returns the whole part of a value. NaN and what 32 bits cannot hold become INT_MIN, as x86 does.
 */
static inline int whole_part(float value) {
    return fabsf(value) < 0x1p31f ? (int)value : INT_MIN;
}

static inline int clamped(int value, int low, int high) {
    return value < low ? low : value > high ? high : value;
}

/* Returns the index of the first of n values that has the largest magnitude above 0, or n if all
 * are 0. */
static inline int largest_at(const float *values, int n) {
    float most = 0;
    int at = n;
    for (int i = 0; i < n; i++)
        if (fabsf(values[i]) > most) {
            most = fabsf(values[i]);
            at = i;
        }
    return at;
}

#endif
