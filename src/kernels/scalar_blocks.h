/* SPDX-License-Identifier: Apache-2.0
 * The scalar products of scalar.c with weights in blocks of a file's types: 4-bit weights,
 * K-quants, weights that name levels, ternary weights. Panels have PANEL outputs. */
#ifndef WISP_KERNELS_SCALAR_BLOCKS_H
#define WISP_KERNELS_SCALAR_BLOCKS_H

#include "base/half.h"
#include "kernels/k_layout.h"
#include "kernels/kernels.h"
#include "kernels/level_layout.h"
#include "kernels/ternary_layout.h"
#include "kernels/weights.h"

enum { PANEL = SCALAR_PANEL };

/* Returns the nibble of weight c of row j of a part. */
static int q4_nibble(const unsigned char *nibbles, size_t c, size_t j) {
    const size_t at = c % (Q4_BLOCK / 2);
    const unsigned char two = nibbles[(at / 4 * PANEL + j) * 4 + at % 4];
    return c < Q4_BLOCK / 2 ? two & 15 : two >> 4;
}

/* Returns the integer dot product of a part's 32 activations and the weights of row j. */
static int32_t q4_part_dot(const uint8_t *q, const unsigned char *nibbles, size_t j) {
    int32_t sum = 0;
    for (size_t c = 0; c < Q4_BLOCK; c++) {
        const int nibble = q4_nibble(nibbles, c, j);
        sum += q[c] * (nibble < 8 ? nibble : nibble - 16);
    }
    return sum;
}

static float half_of(const unsigned char *halves, size_t j) {
    return float_of_half(load_u16(halves + j * 2));
}

/* The kinds of 4-bit weights, which differ in how scales and offsets are held. */
enum q4_form { Q4_FORM_0, Q4_FORM_1, Q4_FORM_K };

/* Returns what one block of activations adds to an output, with `block` and j as in block_product
 * of scalar.c. `part_sums` may be NULL for Q4_FORM_0. */
static float q4_block_product(const uint8_t *q, const float *part_sums, float scale, float zero,
                              const unsigned char *block, size_t j, size_t length,
                              enum q4_form form) {
    const unsigned char *halves = block + PANEL * sizeof(float);
    const unsigned char *part = form == Q4_FORM_K ? halves + PANEL * sizeof(float) : halves;
    const size_t part_bytes = form == Q4_FORM_1 ? Q4_1_BLOCK_BYTES : Q4_BLOCK_BYTES;
    float total = 0;
    for (size_t start = 0; start < length; start += Q4_BLOCK, part += PANEL * part_bytes) {
        const unsigned char *nibbles = part + PANEL * (part_bytes - Q4_BLOCK / 2);
        const float weight_scale =
            form == Q4_FORM_K ? half_of(halves, j) * (float)part[j] : half_of(part, j);
        total += (float)q4_part_dot(q + start, nibbles, j) * weight_scale;
        if (form == Q4_FORM_1)
            total += part_sums[start / Q4_BLOCK] * (8 * weight_scale + half_of(part, PANEL + j));
        else if (form == Q4_FORM_K)
            total += part_sums[start / Q4_BLOCK] *
                     (8 * weight_scale - half_of(halves, PANEL + j) * (float)part[PANEL + j]);
    }
    return (total - zero * packed_float(block + j * 4)) * scale;
}

static void q4_product(struct quantised_rows x, const unsigned char *w, const float *bias, float *y,
                       size_t ldy, size_t m, size_t n, size_t k, enum q4_form form) {
    size_t (*const bytes)(size_t, size_t, size_t) = form == Q4_FORM_0   ? packed_q4_bytes
                                                    : form == Q4_FORM_1 ? packed_q4_1_bytes
                                                                        : packed_q4_k_bytes;
    const size_t blocks = int8_blocks(k), parts = k / Q4_BLOCK;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const unsigned char *block = w + j / PANEL * bytes(PANEL, k, PANEL);
            float total = bias[j];
            for (size_t b = 0; b < blocks; b++) {
                const size_t start = b * INT8_BLOCK, left = k - start;
                const size_t length = left < INT8_BLOCK ? left : INT8_BLOCK;
                const float *sums =
                    form == Q4_FORM_0 ? NULL : x.part_sums + i * parts + start / Q4_BLOCK;
                total += q4_block_product(x.q + i * k + start, sums, x.scale[i * blocks + b],
                                          x.zero[i * blocks + b], block, j % PANEL, length, form);
                block += bytes(PANEL, length, PANEL);
            }
            y[i * ldy + j] = total;
        }
}

/* Defines gemm_NAME of kernels.h as a call of FUNCTION, whose last arguments say how the weights
 * are stored. */
#define PRODUCT(NAME, FUNCTION, ...)                                                               \
    static void gemm_##NAME(struct quantised_rows x, const void *w, const float *bias, float *y,   \
                            size_t ldy, size_t m, size_t n, size_t k) {                            \
        FUNCTION(x, w, bias, y, ldy, m, n, k, __VA_ARGS__);                                        \
    }

PRODUCT(q4, q4_product, Q4_FORM_0)

#if !defined(__wasm__)

PRODUCT(q4_1, q4_product, Q4_FORM_1)
PRODUCT(q4_k, q4_product, Q4_FORM_K)

/* Returns the code of weight c of row j of a part. */
static int k_code(const unsigned char *planes, size_t c, size_t j, int bits) {
    const size_t h = c / K_HALF, g = c % K_HALF / 4;
    const unsigned char *four = planes + j * 4 + c % 4;
    if (bits == 6) {
        const unsigned char *three = four + h * 12 * PANEL;
        return g < 3 ? three[g * 4 * PANEL] & 63
                     : three[0] >> 6 | three[4 * PANEL] >> 6 << 2 | three[8 * PANEL] >> 6 << 4;
    }
    if (bits == 5)
        return (four[g * 4 * PANEL] >> 4 * h & 15) | (four[16 * PANEL] >> (g + 4 * h) & 1) << 4;
    const int pair = four[h * 4 * PANEL] >> 2 * g & 3;
    return bits == 2 ? pair : pair | (four[8 * PANEL] >> (g + 4 * h) & 1) << 2;
}

/* Returns what half h of a part adds to an output before the activations' scale. `sum` is that of
 * the activations, which weights with minima need. */
static float k_half(const uint8_t *q, const float *sum, const unsigned char *halves,
                    const unsigned char *part, size_t h, size_t j, int bits, enum k_scales scales) {
    const unsigned char own = part[h * PANEL + j], first = part[j];
    const float d = half_of(scales == K_SCALES ? halves : part, j);
    int32_t dot = 0;
    for (size_t c = 0; c < K_HALF; c++)
        dot += q[c] * (k_code(part + k_scale_bytes(scales) * PANEL, h * K_HALF + c, j, bits) -
                       k_centre(bits));
    if (scales != K_SCALES) {
        const float min = scales == K_SCALES_D ? -16 * d : half_of(part, PANEL + j);
        return (float)dot * d + (h == 0 ? 0 : *sum * min);
    }
    if (bits == 2)
        return (float)dot * (d * (float)(own & 15)) -
               *sum * (half_of(halves, PANEL + j) * (float)(own >> 4));
    if (bits == 5 && h == 0)
        return (float)dot * (d * (float)first);
    if (bits == 5)
        return (float)dot * (d * (float)first) +
               *sum * (0 - half_of(halves, PANEL + j) * (float)own);
    return (float)dot * (d * (float)(own - 128));
}

static void k_product(struct quantised_rows x, const unsigned char *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k, int bits, enum k_scales scales) {
    const size_t blocks = int8_blocks(k), sum_length = bits == 2 ? K_HALF : K_PART;
    const size_t header_bytes = PANEL * k_header_bytes(bits, scales),
                 part_bytes = PANEL * k_part_bytes(bits, scales),
                 panel_bytes = blocks * header_bytes + k / K_PART * part_bytes;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const unsigned char *block = w + j / PANEL * panel_bytes;
            y[i * ldy + j] = bias[j];
            for (size_t b = 0; b < blocks; b++) {
                const size_t left = k - b * INT8_BLOCK,
                             length = left < INT8_BLOCK ? left : INT8_BLOCK;
                float total = -x.zero[i * blocks + b] * packed_float(block + j % PANEL * 4);
                for (size_t c = 0; c < length; c += K_HALF) {
                    const size_t at = b * INT8_BLOCK + c;
                    const float *sum = k_has_min(bits)
                                           ? x.part_sums + i * (k / sum_length) + at / sum_length
                                           : NULL;
                    total += k_half(x.q + i * k + at, sum, block + PANEL * sizeof(float),
                                    block + header_bytes + c / K_PART * part_bytes, c / K_HALF % 2,
                                    j % PANEL, bits, scales);
                }
                y[i * ldy + j] += total * x.scale[i * blocks + b];
                block += header_bytes + length / K_PART * part_bytes;
            }
        }
}

PRODUCT(q2_k, k_product, 2, K_SCALES)
PRODUCT(q3_k, k_product, 3, K_SCALES)
PRODUCT(q5_k, k_product, 5, K_SCALES)
PRODUCT(q6_k, k_product, 6, K_SCALES)
PRODUCT(q5_0, k_product, 5, K_SCALES_D)
PRODUCT(q5_1, k_product, 5, K_SCALES_D_AND_M)

/* Returns what one block of weights that name levels adds to an output, with `block` and j as in
 * block_product of scalar.c. */
static float level_block(const struct level_layout *layout, const uint8_t *q, float scale,
                         float zero, const unsigned char *block, size_t j, size_t length) {
    const unsigned char *halves = block + PANEL * sizeof(float);
    const unsigned char *part = block + PANEL * layout->header_bytes;
    float total = 0;
    for (size_t start = 0; start < length; start += Q4_BLOCK, part += PANEL * layout->part_bytes) {
        const unsigned char *codes = part + PANEL * (layout->part_bytes - Q4_BLOCK / 2);
        const float weight_scale = layout->scales == LEVEL_HALVES ? half_of(part, j)
                                   : layout->scales == LEVEL_BFLOATS
                                       ? float_of_bits((uint32_t)load_u16(part + j * 2) << 16)
                                       : half_of(halves, j) * (float)(part[j] - LEVEL_CENTRE);
        int32_t dot = 0;
        for (size_t c = 0; c < Q4_BLOCK; c++)
            dot += q[start + c] * layout->levels[q4_nibble(codes, c, j)];
        total += (float)dot * weight_scale;
    }
    return (total - zero * packed_float(block + j * 4)) * scale;
}

static void level_product(struct quantised_rows x, const unsigned char *w, const float *bias,
                          float *y, size_t ldy, size_t m, size_t n, size_t k,
                          const struct level_layout *layout) {
    const size_t blocks = int8_blocks(k);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const unsigned char *block =
                w + j / PANEL * packed_level_bytes(layout, PANEL, k, PANEL);
            float total = bias[j];
            for (size_t b = 0; b < blocks; b++) {
                const size_t start = b * INT8_BLOCK, left = k - start;
                const size_t length = left < INT8_BLOCK ? left : INT8_BLOCK;
                total += level_block(layout, x.q + i * k + start, x.scale[i * blocks + b],
                                     x.zero[i * blocks + b], block, j % PANEL, length);
                block += packed_level_bytes(layout, PANEL, length, PANEL);
            }
            y[i * ldy + j] = total;
        }
}

PRODUCT(iq4_nl, level_product, &layout_iq4_nl)
PRODUCT(iq4_xs, level_product, &layout_iq4_xs)
PRODUCT(mxfp4, level_product, &layout_mxfp4)

/* Returns the integer dot product of activations and the ternary weights of a part of row j. */
static int32_t ternary_dot(const uint8_t *q, const unsigned char *codes, size_t length, size_t j) {
    int32_t sum = 0;
    for (size_t c = 0; c < length; c++) {
        const int four = codes[(c / 16 * PANEL + j) * 4 + c % 4];
        sum += q[c] * ((four >> c % 16 / 4 * 2 & 3) - 1);
    }
    return sum;
}

/* Returns what `length` weights of row j, which share the scale at w, add to an output. q are their
 * activations, and scale and zero those of the activations' blocks. */
static float ternary_shared(const uint8_t *q, const float *scale, const float *zero,
                            const unsigned char *w, size_t length, size_t j, size_t scaled) {
    const float d = scaled ? half_of(w, j) : packed_float(w + j * 4);
    const unsigned char *part = w + PANEL * ternary_scale_bytes(scaled);
    float total = 0;
    for (size_t c = 0; c < length; c += ternary_part(scaled)) {
        const float dot = (float)ternary_dot(q + c, part + PANEL * 2, ternary_part(scaled), j);
        total += (dot - zero[c / INT8_BLOCK] * half_of(part, j)) * scale[c / INT8_BLOCK];
        part += PANEL * ternary_part_bytes(scaled);
    }
    return total * d;
}

static void ternary_product(struct quantised_rows x, const unsigned char *w, const float *bias,
                            float *y, size_t ldy, size_t m, size_t n, size_t k, size_t scaled) {
    const size_t blocks = int8_blocks(k), length = scaled ? scaled : k;
    const size_t bytes = PANEL * ternary_bytes(scaled, length);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const unsigned char *shared = w + j / PANEL * (k / length) * bytes;
            y[i * ldy + j] = bias[j];
            for (size_t c = 0; c < k; c += length, shared += bytes) {
                const size_t at = i * blocks + c / INT8_BLOCK;
                y[i * ldy + j] += ternary_shared(x.q + i * k + c, x.scale + at, x.zero + at, shared,
                                                 length, j % PANEL, scaled);
            }
        }
}

PRODUCT(ternary, ternary_product, K_BLOCK)
PRODUCT(pq2_0, ternary_product, INT8_BLOCK)
PRODUCT(q2_0, ternary_product, TERNARY_LEAST)
PRODUCT(i2_s, ternary_product, 0)

#endif

#endif
