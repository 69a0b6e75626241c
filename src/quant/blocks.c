/* SPDX-License-Identifier: Apache-2.0
 * Expands each block format to floats. Comments give the fields of a block in their order. */
#include "quant/blocks.h"

#include <string.h>
#include <strings.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/half.h"

static float half_at(const unsigned char *bytes) {
    return float_of_half(load_u16(bytes));
}

static void dequantise_f32(const void *blocks, size_t n, float *out) {
    memcpy(out, blocks, n * sizeof *out);
    swap_file_numbers(out, n, sizeof *out);
}

static void dequantise_f16(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i++)
        out[i] = half_at(b + 2 * i);
}

static void dequantise_bf16(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i++)
        out[i] = float_of_bfloat(load_u16(b + 2 * i));
}

/* Q4_0: f16 d, 16 bytes whose low nibbles are elements 0..15 and whose high ones 16..31.
 * x = d (q - 8) */
static void dequantise_q4_0(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 18, out += 32) {
        const float d = half_at(b);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)((b[2 + j] & 15) - 8);
            out[j + 16] = d * (float)((b[2 + j] >> 4) - 8);
        }
    }
}

/* Q4_1: f16 d, f16 m, 16 bytes of nibbles as in Q4_0. x = d q + m */
static void dequantise_q4_1(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 20, out += 32) {
        const float d = half_at(b), m = half_at(b + 2);
        for (int j = 0; j < 16; j++) {
            out[j] = d * (float)(b[4 + j] & 15) + m;
            out[j + 16] = d * (float)(b[4 + j] >> 4) + m;
        }
    }
}

/* Returns element i: the nibbles hold its low four bits as in Q4_0, bit i of `high` is its fifth.
 */
static int five_bits(const unsigned char *nibbles, uint32_t high, int i) {
    const int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    return low | (int)(high >> i & 1) << 4;
}

/* Q5_0: f16 d, u32 high bits, 16 bytes of nibbles. x = d (q - 16) */
static void dequantise_q5_0(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 22, out += 32) {
        const float d = half_at(b);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)(five_bits(b + 6, load_u32(b + 2), j) - 16);
    }
}

/* Q5_1: f16 d, f16 m, u32 high bits, 16 bytes of nibbles. x = d q + m */
static void dequantise_q5_1(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 24, out += 32) {
        const float d = half_at(b), m = half_at(b + 2);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)five_bits(b + 8, load_u32(b + 4), j) + m;
    }
}

/* Q8_0: f16 d, 32 signed bytes. x = d q */
static void dequantise_q8_0(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 34, out += 32) {
        const float d = half_at(b);
        for (int j = 0; j < 32; j++)
            out[j] = d * (float)(int8_t)b[2 + j];
    }
}

/* Unpacks the scale and the minimum of sub-block j of 8, which have six bits each. The low six bits
 * of bytes 0..3 are the scales of sub-blocks 0..3, those of bytes 4..7 the minima. Sub-blocks 4..7
 * have the low four bits of their scales in the low nibbles of bytes 8..11, and those of their
 * minima in the high nibbles. The high two bits of bytes 0..3 complete the scales, those of
 * bytes 4..7 the minima. */
static void scale_and_min(const unsigned char *packed, int j, float *scale, float *min) {
    if (j < 4) {
        *scale = (float)(packed[j] & 63);
        *min = (float)(packed[j + 4] & 63);
    } else {
        *scale = (float)((packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4);
        *min = (float)((packed[j + 4] >> 4) | (packed[j] >> 6) << 4);
    }
}

/* Q4_K: f16 d, f16 dmin, 12 bytes of scales and minima, 128 bytes of nibbles. The low nibbles of
 * each 32 bytes are one sub-block of 32 elements, the high ones the next. x = d scale q - dmin min
 */
static void dequantise_q4_k(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 144)
        for (int j = 0; j < 8; j++, out += 32) {
            float scale, min;
            scale_and_min(b + 4, j, &scale, &min);
            scale *= half_at(b);
            min *= half_at(b + 2);
            const unsigned char *q = b + 16 + j / 2 * 32;
            for (int k = 0; k < 32; k++)
                out[k] = scale * (float)(q[k] >> 4 * (j & 1) & 15) - min;
        }
}

/* Q5_K: as Q4_K, with 32 bytes before the nibbles. Bit j of byte k is the fifth bit of element k of
 * sub-block j. */
static void dequantise_q5_k(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 176)
        for (int j = 0; j < 8; j++, out += 32) {
            float scale, min;
            scale_and_min(b + 4, j, &scale, &min);
            scale *= half_at(b);
            min *= half_at(b + 2);
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
static void dequantise_q6_k(const void *blocks, size_t n, float *out) {
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

static const struct block_format formats[] = {
    {BLOCK_F32, "F32", 1, 4, dequantise_f32, quantise_f32},
    {BLOCK_F16, "F16", 1, 2, dequantise_f16, quantise_f16},
    {BLOCK_Q4_0, "Q4_0", 32, 18, dequantise_q4_0, quantise_q4_0},
    {BLOCK_Q4_1, "Q4_1", 32, 20, dequantise_q4_1, NULL},
    {BLOCK_Q5_0, "Q5_0", 32, 22, dequantise_q5_0, NULL},
    {BLOCK_Q5_1, "Q5_1", 32, 24, dequantise_q5_1, NULL},
    {BLOCK_Q8_0, "Q8_0", 32, 34, dequantise_q8_0, quantise_q8_0},
    {9, "Q8_1", 32, 40, NULL, NULL},
    {10, "Q2_K", 256, 84, NULL, NULL},
    {11, "Q3_K", 256, 110, NULL, NULL},
    {BLOCK_Q4_K, "Q4_K", 256, 144, dequantise_q4_k, NULL},
    {BLOCK_Q5_K, "Q5_K", 256, 176, dequantise_q5_k, NULL},
    {BLOCK_Q6_K, "Q6_K", 256, 210, dequantise_q6_k, NULL},
    {15, "Q8_K", 256, 292, NULL, NULL},
    {16, "IQ2_XXS", 256, 66, NULL, NULL},
    {17, "IQ2_XS", 256, 74, NULL, NULL},
    {18, "IQ3_XXS", 256, 98, NULL, NULL},
    {19, "IQ1_S", 256, 50, NULL, NULL},
    {20, "IQ4_NL", 32, 18, NULL, NULL},
    {21, "IQ3_S", 256, 110, NULL, NULL},
    {22, "IQ2_S", 256, 82, NULL, NULL},
    {23, "IQ4_XS", 256, 136, NULL, NULL},
    {BLOCK_I8, "I8", 1, 1, NULL, NULL},
    {25, "I16", 1, 2, NULL, NULL},
    {26, "I32", 1, 4, NULL, NULL},
    {27, "I64", 1, 8, NULL, NULL},
    {28, "F64", 1, 8, NULL, NULL},
    {29, "IQ1_M", 256, 56, NULL, NULL},
    {BLOCK_BF16, "BF16", 1, 2, dequantise_bf16, NULL},
    {34, "TQ1_0", 256, 54, NULL, NULL},
    {35, "TQ2_0", 256, 66, NULL, NULL},
    {39, "MXFP4", 32, 17, NULL, NULL},
    {40, "NVFP4", 64, 36, NULL, NULL},
    {41, "Q1_0", 128, 18, NULL, NULL},
};

enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

const struct block_format *block_format_by_id(uint32_t id) {
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (formats[i].id == id)
            return &formats[i];
    return NULL;
}

const struct block_format *block_format_fitting(uint32_t id, uint64_t n) {
    const struct block_format *format = block_format_by_id(id);
    return format && n % format->elements == 0 ? format : block_format_by_id(BLOCK_F32);
}

const struct block_format *block_format_by_name(const char *name) {
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (strcasecmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

bool block_row_bytes(const struct block_format *format, uint64_t n, uint64_t *bytes) {
    return n % format->elements == 0 &&
           checked_multiply(n / format->elements, format->bytes, bytes);
}
