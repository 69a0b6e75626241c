/* SPDX-License-Identifier: Apache-2.0
 * Products of 16-bit numbers for attention: two of them take the place of a float, and a set's
 * instruction multiplies both at once. Errors are those of 13 to 15 bits, where the int8 products
 * around them have 8.
 *
 * A pair is two numbers that are neighbours along the inner dimension k, the first in the low
 * half; where k is odd the last pair's high half is 0. */
#ifndef WISP_KERNELS_I16_H
#define WISP_KERNELS_I16_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t i16_pairs(size_t k) {
    return (k + 1) / 2;
}

struct i16_kernels {
    /* The largest |x| of m rows of k values; x [m, ldx]. */
    float (*largest)(const float *x, size_t ldx, size_t m, size_t k);

    /* round(by x), ties to even, which the caller's choice of `by` keeps within I16_MOST. x [m,
     * ldx] of which k columns are read; pairs [m, ldp], of which round_up(i16_pairs(k), 8) are
     * written. */
    void (*quantise)(const float *x, size_t ldx, size_t m, size_t k, float by, int32_t *pairs,
                     size_t ldp);

    /* The same, w [n, ldw] or its transpose [k, ldw], into panels of f32_panel outputs: outputs'
     * pairs c lie side by side. packed [round_up(n, f32_panel), i16_pairs(k)]. */
    void (*pack)(const float *w, size_t ldw, size_t n, size_t k, float by, int32_t *packed);
    void (*pack_transposed)(const float *wt, size_t ldw, size_t n, size_t k, float by,
                            int32_t *packed);

    /* y[i, j] = scale[i] * (sum over c of x[i, c] w[j, c]), the sum exact: the caller sees to it
     * that it stays below 2^31. x [m, ldx] pairs, w packed, k numbers long; scale [m]; y [m, ldy].
     */
    void (*gemm)(const int32_t *x, size_t ldx, const int32_t *w, const float *scale, float *y,
                 size_t ldy, size_t m, size_t n, size_t k);

    /* For each of m rows of x [m, ld], over its first n values: e^(scale (x - the largest)) times
     * `most`, rounded, as pairs in the place of the row's first floats; and their sum. ld is a
     * multiple of 16; most at most I16_MOST; sums [m]. */
    void (*softmax)(float *x, size_t ld, size_t m, size_t n, float scale, float most, float *sums);
};

enum { I16_MOST = 32767 };

/* The largest magnitude of numbers of which `n` products are summed: n squares stay below 2^31. */
static inline float i16_most(size_t n) {
    const float most = floorf(sqrtf(0x1.fffffep30f / (float)n));
    return most < (float)I16_MOST ? most : (float)I16_MOST;
}

extern const struct i16_kernels i16_scalar;

#endif
