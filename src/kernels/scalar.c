/* SPDX-License-Identifier: Apache-2.0
 * The scalar reference: the plainest loop for each kernel, not optimised. Tests check the other
 * sets against it. */
#include <math.h>

#include "base/half.h"
#include "kernels/kernels.h"
#include "kernels/sparse.h"
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

/* Returns what one block of activations adds to an output, with `block` and j as in block_product.
 */
static float q4_block_product(const uint8_t *q, float scale, float zero, const unsigned char *block,
                              size_t j, size_t length) {
    const unsigned char *part = block + PANEL * sizeof(float);
    float total = 0;
    for (size_t start = 0; start < length; start += Q4_BLOCK, part += PANEL * Q4_BLOCK_BYTES) {
        int32_t sum = 0;
        for (size_t c = 0; c < Q4_BLOCK; c++) {
            const size_t at = c % (Q4_BLOCK / 2);
            const unsigned char two = part[PANEL * 2 + (at / 4 * PANEL + j) * 4 + at % 4];
            const int nibble = c < Q4_BLOCK / 2 ? two & 15 : two >> 4;
            sum += q[start + c] * (nibble < 8 ? nibble : nibble - 16);
        }
        total += (float)sum * float_of_half(load_u16(part + j * 2));
    }
    return (total - zero * packed_float(block + j * 4)) * scale;
}

static void gemm_q4(struct quantised_rows x, const void *w, const float *bias, float *y, size_t ldy,
                    size_t m, size_t n, size_t k) {
    const size_t blocks = int8_blocks(k), panel_bytes = packed_q4_bytes(PANEL, k, PANEL);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const unsigned char *block = (const unsigned char *)w + j / PANEL * panel_bytes;
            float total = bias[j];
            for (size_t b = 0; b < blocks; b++) {
                const size_t start = b * INT8_BLOCK, left = k - start;
                const size_t length = left < INT8_BLOCK ? left : INT8_BLOCK;
                total += q4_block_product(x.q + i * k + start, x.scale[i * blocks + b],
                                          x.zero[i * blocks + b], block, j % PANEL, length);
                block += packed_q4_bytes(PANEL, length, PANEL);
            }
            y[i * ldy + j] = total;
        }
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
    .layer_norm = layer_norm,
    .rms_norm = rms_norm,
    .gelu = gelu,
    .relu = relu,
    .silu_mul = silu_mul,
    .softmax = softmax,
    .add = add,
    .dot = dot,
    .i16 = &i16_scalar,
    .sparse = &sparse_scalar,
    .lowrank_most_share = 0.5f,
    .lowrank_most_share_relu = 0.5f,
    .exact_wins = true,
};
