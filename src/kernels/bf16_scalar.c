/* SPDX-License-Identifier: Apache-2.0
 * How weights are packed for products of bfloats, and the scalar reference for these products. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "kernels/bf16.h"

static bool runs(void) {
    return true;
}

/* Rounds as the instructions do, which take numbers below 2^-126 as zeros. */
static uint16_t rounded(float value) {
    return bfloat_of_float(fabsf(value) < 0x1p-126f ? copysignf(0, value) : value);
}

size_t packed_bf16_bytes(size_t n, size_t k) {
    return (n + BF16_PANEL - 1) / BF16_PANEL * BF16_PANEL * bf16_row(k) * sizeof(uint16_t);
}

/* Returns the place of w[j, c] among packed weights. */
static size_t place_of(size_t j, size_t c, size_t k) {
    const size_t pairs = bf16_row(k) / 2, panel = BF16_PANEL;
    return ((j / panel * pairs + c / 2) * panel + j % panel) * 2 + c % 2;
}

void pack_bf16(const float *w, size_t n, size_t k, uint16_t *packed) {
    memset(packed, 0, packed_bf16_bytes(n, k));
    for (size_t j = 0; j < n; j++)
        for (size_t c = 0; c < k; c++)
            packed[place_of(j, c, k)] = rounded(w[j * k + c]);
}

static void round_rows(const float *x, size_t m, size_t k, uint16_t *out) {
    for (size_t i = 0; i < m; i++, x += k, out += bf16_row(k))
        for (size_t c = 0; c < bf16_row(k); c++)
            out[c] = c < k ? rounded(x[c]) : 0;
}

static void gemm(const uint16_t *x, const uint16_t *w, const float *bias, float *y, size_t ldy,
                 size_t m, size_t n, size_t k) {
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = bias[j];
            for (size_t c = 0; c < k; c++)
                sum +=
                    float_of_bfloat(x[i * bf16_row(k) + c]) * float_of_bfloat(w[place_of(j, c, k)]);
            y[i * ldy + j] = sum;
        }
}

const struct bf16_kernels bf16_scalar = {.runs = runs, .round = round_rows, .gemm = gemm};
