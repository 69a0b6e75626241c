/* SPDX-License-Identifier: Apache-2.0
 * The scalar reference for the kernels of i16.h.
 * Compiled for size in WebAssembly. */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/polynomials.h"

enum { PANEL = SCALAR_PANEL };

static float largest(const float *x, size_t ldx, size_t m, size_t k) {
    float most = 0;
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < k; c++)
            most = fmaxf(most, fabsf(x[i * ldx + c]));
    return most;
}

/* Stores a number as the c-th of a row of pairs. NaN, which C cannot convert, becomes 0. */
static void put(int32_t *pairs, size_t c, float value) {
    const int16_t number = fabsf(value) <= 32767 ? (int16_t)value : 0;
    memcpy((unsigned char *)pairs + c * sizeof number, &number, sizeof number);
}

static int32_t get(const int32_t *pairs, size_t c) {
    int16_t number;
    memcpy(&number, (const unsigned char *)pairs + c * sizeof number, sizeof number);
    return number;
}

static void quantise(const float *x, size_t ldx, size_t m, size_t k, float factor, int32_t *pairs,
                     size_t ldp) {
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < 2 * i16_pairs(k); c++)
            put(pairs + i * ldp, c, c < k ? rintf(x[i * ldx + c] * factor) : 0);
}

/* Packs a matrix whose element [j, c] is w[j * row + c * column]. */
static void pack_from(const float *w, size_t row, size_t column, size_t n, size_t k, float factor,
                      int32_t *packed) {
    const size_t panels = (n + PANEL - 1) / PANEL, pairs = i16_pairs(k);
    for (size_t j = 0; j < panels * PANEL; j++)
        for (size_t c = 0; c < 2 * pairs; c++)
            put(packed + (j / PANEL * pairs + c / 2) * PANEL + j % PANEL, c % 2,
                j < n && c < k ? rintf(w[j * row + c * column] * factor) : 0);
}

static void pack(const float *w, size_t ldw, size_t n, size_t k, float factor, int32_t *packed) {
    pack_from(w, ldw, 1, n, k, factor, packed);
}

static void pack_transposed(const float *wt, size_t ldw, size_t n, size_t k, float factor,
                            int32_t *packed) {
    pack_from(wt, 1, ldw, n, k, factor, packed);
}

static void gemm(const int32_t *x, size_t ldx, const int32_t *w, const float *scale, float *y,
                 size_t ldy, size_t m, size_t n, size_t k) {
    const size_t pairs = i16_pairs(k);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            int32_t sum = 0;
            for (size_t c = 0; c < 2 * pairs; c++)
                sum += get(x + i * ldx, c) *
                       get(w + (j / PANEL * pairs + c / 2) * PANEL + j % PANEL, c % 2);
            y[i * ldy + j] = (float)sum * scale[i];
        }
}

/* Returns the largest of n values. */
static float top_of(const float *x, size_t n) {
    float top = x[0];
    for (size_t j = 1; j < n; j++)
        top = fmaxf(top, x[j]);
    return top;
}

static void softmax(float *x, size_t ld, size_t m, size_t n, float scale, float most, float *sums) {
    for (size_t i = 0; i < m; i++, x += ld) {
        const float top = top_of(x, n);
        sums[i] = 0;
        for (size_t j = 0; j < 2 * i16_pairs(n); j++) {
            const float value = j < n ? rintf(expf((x[j] - top) * scale) * most) : 0;
            put((int32_t *)(void *)x, j, value);
            sums[i] += value;
        }
    }
}

static void softmax_portable(float *x, size_t ld, size_t m, size_t n, float scale, float most,
                             float *sums) {
    const float factor = scale * LOG2_E;
    for (size_t i = 0; i < m; i++, x += ld) {
        const float top = top_of(x, n);
        sums[i] = 0;
        for (size_t j = 0; j < 2 * i16_pairs(n); j++) {
            const float value = j < n ? rintf(exp2_portable((x[j] - top) * factor) * most) : 0;
            put((int32_t *)(void *)x, j, value);
            sums[i] += value;
        }
    }
}

const struct i16_kernels i16_scalar = {.largest = largest,
                                       .quantise = quantise,
                                       .pack = pack,
                                       .pack_transposed = pack_transposed,
                                       .gemm = gemm,
                                       .softmax = softmax};

const struct i16_kernels i16_scalar_portable = {.largest = largest,
                                                .quantise = quantise,
                                                .pack = pack,
                                                .pack_transposed = pack_transposed,
                                                .gemm = gemm,
                                                .softmax = softmax_portable};
