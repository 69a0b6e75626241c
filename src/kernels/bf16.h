/* SPDX-License-Identifier: Apache-2.0
 * Products of 16-bit bfloats with sums in floats, for dense layers. Weights and activations are
 * rounded to bfloats, which have 8 significant bits and the range of floats; their products are
 * exact in floats, and only the sums are rounded.
 *
 * The instructions take numbers below 2^-126 as zeros, so rounding makes zeros of them, in every
 * set. They may also take sums below 2^-126 as zeros. Each set adds up in an order of its own,
 * which depends only on k. */
#ifndef WISP_KERNELS_BF16_H
#define WISP_KERNELS_BF16_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers of a tile's row. Rows are padded to whole ones by zeros, on both sides of a product.
 */
enum { BF16_STEP = 32, BF16_PANEL = 32 };

/* Returns the bfloats that a row of k numbers takes. */
static inline size_t bf16_row(size_t k) {
    return (k + BF16_STEP - 1) / BF16_STEP * BF16_STEP;
}

struct bf16_kernels {
    /* Returns whether this CPU has the instructions, which not every CPU has that runs the set. */
    bool (*runs)(void);

    bool fastest; /* products are several times as fast as those of floats */

    /* Rounds x [m, k] to out [m, bf16_row(k)], to the nearest bfloat, ties to even. NaN stays NaN.
     */
    void (*round)(const float *x, size_t m, size_t k, uint16_t *out);

    /* Computes y[i, j] = bias[j] + sum over c of x[i, c] w[j, c]. x [m, bf16_row(k)] from `round`;
     * w from pack_bf16; bias [n]; y [m, ldy], of which n columns are written. */
    void (*gemm)(const uint16_t *x, const uint16_t *w, const float *bias, float *y, size_t ldy,
                 size_t m, size_t n, size_t k);
};

/* Rounds w [n, k] and packs it into panels of BF16_PANEL rows: w[j, c] goes to packed[((j / panel *
 * pairs + c / 2) * panel + j % panel) * 2 + c % 2], if a row has bf16_row(k) / 2 pairs. What is
 * missing from the last panel is 0. */
void pack_bf16(const float *w, size_t n, size_t k, uint16_t *packed);

/* Returns the bytes that n rows of k weights take when pack_bf16 packs them. */
size_t packed_bf16_bytes(size_t n, size_t k);

extern const struct bf16_kernels bf16_scalar;
#ifdef __x86_64__
extern const struct bf16_kernels bf16_avx512;
#ifdef __linux__
extern const struct bf16_kernels bf16_amx;
#endif
#endif

#endif
