/* SPDX-License-Identifier: Apache-2.0
 * The scalar reference: the plainest loop for each kernel, not optimised. Tests check the other
 * sets against it.
 * Compiled for size in WebAssembly. */
#include <math.h>

#include "base/half.h"
#include "kernels/dots_int8.h"
#include "kernels/k_layout.h"
#include "kernels/kernels.h"
#include "kernels/level_layout.h"
#include "kernels/polynomials.h"
#include "kernels/sparse.h"
#include "kernels/ternary_layout.h"
#include "kernels/weights.h"

enum { PANEL = SCALAR_PANEL };

static void gemm_f32(const float *x, size_t ldx, const float *w, const float *bias, float *y,
                     size_t ldy, size_t m, size_t n, size_t k) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = bias ? bias[j] : 0;
            for (size_t c = 0; c < k; c++)
                sum += x[i * ldx + c] * w[(j / PANEL * k + c) * PANEL + j % PANEL];
            y[i * ldy + j] = sum;
        }
}

static void quantise_block(const float *x, size_t length, float steps, uint8_t *q, float *scale,
                           float *zero) {
    float low = 0, high = 0;
    for (size_t c = 0; c < length; c++) {
        low = fminf(low, x[c]);
        high = fmaxf(high, x[c]);
    }
    const float range = quantised_range(low, high);
    const float inverse = range > 0 ? steps / range : 0;
    *scale = range / steps;
    *zero = rintf(-low * inverse);
    for (size_t c = 0; c < int8_row_bytes(length); c++) {
        const float value = rintf((c < length ? x[c] : 0) * inverse) + *zero;
        q[c] = (uint8_t)fminf(fmaxf(value, 0), 255);
    }
}

/* Quantises in blocks of `most` values and `steps` steps. */
static void quantise_rows(const float *x, size_t m, size_t k, size_t most, float steps,
                          struct quantised_rows out) {
    const size_t blocks = (k + most - 1) / most;
    for (size_t i = 0; i < m; i++)
        for (size_t b = 0; b < blocks; b++) {
            const size_t start = b * most, length = k - start < most ? k - start : most;
            quantise_block(x + i * k + start, length, steps, out.q + i * int8_row_bytes(k) + start,
                           &out.scale[i * blocks + b], &out.zero[i * blocks + b]);
        }
}

static void quantise(const float *x, size_t m, size_t k, struct quantised_rows out) {
    quantise_rows(x, m, k, INT8_BLOCK, 255, out);
}

static void quantise_narrow(const float *x, size_t m, size_t k, struct quantised_rows out) {
    quantise_rows(x, m, k, NARROW_BLOCK, NARROW_STEPS, out);
}

/* Returns what one block adds to an output. `block` is the start of the panel's block, j the
 * output's row within the panel. */
static float block_product(const uint8_t *q, float scale, float zero, const unsigned char *block,
                           size_t j, size_t length) {
    const int8_t *values = (const int8_t *)block + PANEL * 2 * sizeof(float);
    int32_t sum = 0;
    for (size_t c = 0; c < length; c++)
        sum += q[c] * values[(c / 4 * PANEL + j) * 4 + c % 4];
    const float weight_scale = packed_float(block + j * 4);
    const float weight_sum = packed_float(block + (PANEL + j) * 4);
    return ((float)sum - zero * weight_sum) * (scale * weight_scale);
}

/* Multiplies in blocks of `most` values; a panel has panel_bytes. */
static void multiply_blocks(struct quantised_rows x, const void *w, const float *bias, float *y,
                            size_t ldy, size_t m, size_t n, size_t k, size_t most,
                            size_t panel_bytes) {
    const size_t blocks = (k + most - 1) / most, row_bytes = int8_row_bytes(k);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const unsigned char *block = (const unsigned char *)w + j / PANEL * panel_bytes;
            float total = bias[j];
            for (size_t b = 0; b < blocks; b++) {
                const size_t start = b * most, left = row_bytes - start;
                const size_t length = left < most ? left : most;
                total += block_product(x.q + i * row_bytes + start, x.scale[i * blocks + b],
                                       x.zero[i * blocks + b], block, j % PANEL, length);
                block += PANEL * (2 * sizeof(float) + length);
            }
            y[i * ldy + j] = total;
        }
}

static void gemm_int8(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    multiply_blocks(x, w, bias, y, ldy, m, n, k, INT8_BLOCK, packed_int8_bytes(PANEL, k, PANEL));
}

static void gemm_narrow(struct quantised_rows x, const void *w, const float *bias, float *y,
                        size_t ldy, size_t m, size_t n, size_t k) {
    multiply_blocks(x, w, bias, y, ldy, m, n, k, NARROW_BLOCK,
                    packed_narrow_bytes(PANEL, k, PANEL));
}

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

/* Returns what one block of activations adds to an output, with `block` and j as in block_product.
 * `part_sums` may be NULL for Q4_FORM_0. */
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

static void gemm_q4(struct quantised_rows x, const void *w, const float *bias, float *y, size_t ldy,
                    size_t m, size_t n, size_t k) {
    q4_product(x, w, bias, y, ldy, m, n, k, Q4_FORM_0);
}

#if !defined(__wasm__)

static void gemm_q4_1(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    q4_product(x, w, bias, y, ldy, m, n, k, Q4_FORM_1);
}

static void gemm_q4_k(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    q4_product(x, w, bias, y, ldy, m, n, k, Q4_FORM_K);
}

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

static void gemm_q2_k(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    k_product(x, w, bias, y, ldy, m, n, k, 2, K_SCALES);
}

static void gemm_q3_k(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    k_product(x, w, bias, y, ldy, m, n, k, 3, K_SCALES);
}

static void gemm_q5_k(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    k_product(x, w, bias, y, ldy, m, n, k, 5, K_SCALES);
}

static void gemm_q6_k(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    k_product(x, w, bias, y, ldy, m, n, k, 6, K_SCALES);
}

static void gemm_q5_0(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    k_product(x, w, bias, y, ldy, m, n, k, 5, K_SCALES_D);
}

static void gemm_q5_1(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    k_product(x, w, bias, y, ldy, m, n, k, 5, K_SCALES_D_AND_M);
}

/* Returns what one block of weights that name levels adds to an output, with `block` and j as in
 * block_product. */
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

static void gemm_iq4_nl(struct quantised_rows x, const void *w, const float *bias, float *y,
                        size_t ldy, size_t m, size_t n, size_t k) {
    level_product(x, w, bias, y, ldy, m, n, k, &layout_iq4_nl);
}

static void gemm_iq4_xs(struct quantised_rows x, const void *w, const float *bias, float *y,
                        size_t ldy, size_t m, size_t n, size_t k) {
    level_product(x, w, bias, y, ldy, m, n, k, &layout_iq4_xs);
}

static void gemm_mxfp4(struct quantised_rows x, const void *w, const float *bias, float *y,
                       size_t ldy, size_t m, size_t n, size_t k) {
    level_product(x, w, bias, y, ldy, m, n, k, &layout_mxfp4);
}

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

static void gemm_ternary(struct quantised_rows x, const void *w, const float *bias, float *y,
                         size_t ldy, size_t m, size_t n, size_t k) {
    ternary_product(x, w, bias, y, ldy, m, n, k, K_BLOCK);
}

static void gemm_pq2_0(struct quantised_rows x, const void *w, const float *bias, float *y,
                       size_t ldy, size_t m, size_t n, size_t k) {
    ternary_product(x, w, bias, y, ldy, m, n, k, INT8_BLOCK);
}

static void gemm_q2_0(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    ternary_product(x, w, bias, y, ldy, m, n, k, TERNARY_LEAST);
}

static void gemm_i2_s(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    ternary_product(x, w, bias, y, ldy, m, n, k, 0);
}

#endif

static void layer_norm(float *x, const float *residual, const float *weight, const float *bias,
                       float epsilon, size_t m, size_t n) {
    for (size_t i = 0; i < m; i++, x += n, residual += n) {
        float sum = 0, squares = 0;
        for (size_t j = 0; j < n; j++) {
            x[j] += residual[j];
            sum += x[j];
        }
        const float mean = sum / (float)n;
        for (size_t j = 0; j < n; j++)
            squares += (x[j] - mean) * (x[j] - mean);
        const float inverse = 1 / sqrtf(squares / (float)n + epsilon);
        for (size_t j = 0; j < n; j++)
            x[j] = (x[j] - mean) * inverse * weight[j] + bias[j];
    }
}

static void rms_norm(const float *x, const float *weight, float epsilon, size_t m, size_t n,
                     float *y) {
    for (size_t i = 0; i < m; i++, x += n, y += n) {
        float squares = 0;
        for (size_t j = 0; j < n; j++)
            squares += x[j] * x[j];
        const float scale = 1 / sqrtf(squares / (float)n + epsilon);
        for (size_t j = 0; j < n; j++)
            y[j] = x[j] * scale * weight[j];
    }
}

static void gelu(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

static void relu(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}

static void silu_mul(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++)
        gate[i] = gate[i] / (1 + expf(-gate[i])) * up[i];
}

#ifdef DECODER_KERNELS
/* (1 + tanh(u)) / 2 is 1 / (1 + e^-2u), which keeps its digits where it is small. */
static void gelu_tanh(float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        x[i] /= 1 + expf(-1.59576912f * (x[i] + 0.044715f * x[i] * x[i] * x[i]));
}

static void multiply(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

static void soft_cap(float *x, size_t n, float scale, float cap) {
    for (size_t i = 0; i < n; i++)
        x[i] = cap * tanhf(x[i] * scale / cap);
}

static void expand_by_column(const int8_t *q, const float *scale, size_t rows, float *y) {
    for (size_t i = 0; i < rows * PANEL; i++)
        y[i] = (float)q[i] * scale[i % PANEL];
}

static void expand_by_row(const int8_t *q, const float *scale, size_t rows, float *y) {
    for (size_t i = 0; i < rows * PANEL; i++)
        y[i] = (float)q[i] * scale[i / PANEL];
}
#endif

static void softmax(float *x, size_t ld, size_t m, size_t n, float scale) {
    for (size_t i = 0; i < m; i++, x += ld) {
        float largest = x[0], sum = 0;
        for (size_t j = 1; j < n; j++)
            largest = fmaxf(largest, x[j]);
        for (size_t j = 0; j < n; j++) {
            x[j] = expf((x[j] - largest) * scale);
            sum += x[j];
        }
        for (size_t j = 0; j < n; j++)
            x[j] /= sum;
    }
}

static void add(float *y, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        y[i] += x[i];
}

static float dot(const float *a, const float *b, size_t n) {
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- portable results ----------------------------------------------------------------------- */

/* Returns the sum of x [n] where `mean` is NULL, else that of the squares of x - mean, in this
 * order: value j is added to lane j % 16, then the upper half of the lanes to the lower half until
 * one is left. */
static float sum_in_lanes(const float *x, size_t n, const float *mean) {
    float lanes[16] = {0};
    for (size_t j = 0; j < n; j++) {
        const float apart = mean ? x[j] - *mean : 0;
        lanes[j % 16] += mean ? apart * apart : x[j];
    }
    for (size_t half = 8; half > 0; half /= 2)
        for (size_t j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

static void layer_norm_portable(float *x, const float *residual, const float *weight,
                                const float *bias, float epsilon, size_t m, size_t n) {
    for (size_t i = 0; i < m; i++, x += n, residual += n) {
        for (size_t j = 0; j < n; j++)
            x[j] += residual[j];
        const float mean = sum_in_lanes(x, n, NULL) / (float)n;
        const float inverse = 1 / sqrtf(sum_in_lanes(x, n, &mean) / (float)n + epsilon);
        const float shift = -mean * inverse;
        for (size_t j = 0; j < n; j++)
            x[j] = (x[j] * inverse + shift) * weight[j] + bias[j];
    }
}

static void gelu_portable(float *x, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float u = fabsf(x[i]), limit = gelu_terms[GELU_LIMIT];
        const float t = (u < limit ? u : limit) * gelu_terms[GELU_SCALE] + -1;
        float h = gelu_terms[GELU_DEGREE];
        for (int term = GELU_DEGREE - 1; term >= 0; term--)
            h = h * t + gelu_terms[term];
        x[i] = (x[i] > 0 ? x[i] : 0) - h;
    }
}

static void silu_mul_portable(float *gate, const float *up, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const float x = gate[i], power = exp2_portable(fabsf(x) * -LOG2_E);
        gate[i] = ((x < 0 ? x : 0) * power + (x > 0 ? x : 0)) / (1 + power) * up[i];
    }
}

static void pack(const float *w, size_t ldw, size_t n, size_t k, float *packed) {
    pack_f32(w, ldw, n, k, PANEL, packed);
}

static void pack_transposed(const float *wt, size_t ldw, size_t n, size_t k, float *packed) {
    pack_f32_transposed(wt, ldw, n, k, PANEL, packed);
}

const struct kernels kernels_scalar = {
    .name = "scalar",
    .f32_panel = PANEL,
    .int8_panel = PANEL,
    .narrow_panel = PANEL,
    .q4_panel = PANEL,
    .pack_f32 = pack,
    .pack_f32_transposed = pack_transposed,
    .gemm_f32 = gemm_f32,
    .quantise = quantise,
    .gemm_int8 = gemm_int8,
    .quantise_narrow = quantise_narrow,
    .gemm_narrow = gemm_narrow,
    .gemm_q4 = gemm_q4,
#if !defined(__wasm__)
    .gemm_q4_1 = gemm_q4_1,
    .gemm_q4_k = gemm_q4_k,
    .gemm_q2_k = gemm_q2_k,
    .gemm_q3_k = gemm_q3_k,
    .gemm_q5_k = gemm_q5_k,
    .gemm_q6_k = gemm_q6_k,
    .gemm_q5_0 = gemm_q5_0,
    .gemm_q5_1 = gemm_q5_1,
    .gemm_iq4_nl = gemm_iq4_nl,
    .gemm_iq4_xs = gemm_iq4_xs,
    .gemm_mxfp4 = gemm_mxfp4,
    .gemm_ternary = gemm_ternary,
    .gemm_q2_0 = gemm_q2_0,
    .gemm_pq2_0 = gemm_pq2_0,
    .gemm_i2_s = gemm_i2_s,
#endif
    .layer_norm = layer_norm,
    .rms_norm = rms_norm,
    .gelu = gelu,
    .relu = relu,
    .silu_mul = silu_mul,
#ifdef DECODER_KERNELS
    .gelu_tanh = gelu_tanh,
    .multiply = multiply,
    .soft_cap = soft_cap,
    .expand_by_column = expand_by_column,
    .expand_by_row = expand_by_row,
#endif
    .softmax = softmax,
    .add = add,
    .dot = dot,
#ifndef __wasm__
    .dots_int8 = dots_int8,
#endif
    .i16 = &i16_scalar,
    .sparse = &sparse_scalar,
    .lowrank_most_share = 0.5f,
    .lowrank_most_share_relu = 0.5f,
    .exact_wins = true,
};

/* Functions that models which embed do not use in int8 are NULL. */
const struct kernels kernels_scalar_portable = {
    .name = "scalar-portable",
    .f32_panel = PANEL,
    .narrow_panel = PANEL,
    .quantise_narrow = quantise_narrow,
    .gemm_narrow = gemm_narrow,
    .layer_norm = layer_norm_portable,
    .gelu = gelu_portable,
    .relu = relu,
    .silu_mul = silu_mul_portable,
    .add = add,
    .i16 = &i16_scalar_portable,
};
