/* SPDX-License-Identifier: Apache-2.0
 * The scalar reference: the plainest loop for each kernel, not optimised. Tests check the other
 * sets against it.
 * Compiled for size in WebAssembly. */
#include <math.h>

#include "kernels/dots_int8.h"
#include "kernels/gather.h"
#include "kernels/kernels.h"
#include "kernels/polynomials.h"
#include "kernels/scalar_blocks.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"

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
/* (1 + tanh(u)) / 2 is 1 / (1 + e^-2u), which keeps its digits if it is small. */
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

/* Returns the sum of x [n] if `mean` is NULL, else that of the squares of x - mean, in this
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
    .gather = &gather_scalar,
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
    .kv = &kv_scalar,
#endif
    .softmax = softmax,
    .add = add,
    .dot = dot,
#ifndef __wasm__
    .dots_int8 = dots_int8,
#endif
    .i16 = &i16_scalar,
#ifndef __wasm__
    .bf16 = &bf16_scalar,
#endif
    .sparse = &sparse_scalar,
    .lowrank_most_share = 0.5f,
    .gate_most_share = 0,
    .predicted_most_share = 0,
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
