/* SPDX-License-Identifier: Apache-2.0
 * Products of 16-bit numbers, for attention. Two of them take the place of a float, and one
 * instruction multiplies both. They have 13 to 15 significant bits, if the int8 products of the
 * layers have 8.
 *
 * A pair is a 32-bit integer that holds two neighbours along the inner dimension k, the first in
 * its low half. If k is odd the high half of the last pair is 0. */
#ifndef WISP_KERNELS_I16_H
#define WISP_KERNELS_I16_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the number of pairs that k numbers take. */
static inline size_t i16_pairs(size_t k) {
    return (k + 1) / 2;
}

struct i16_kernels {
    /* Returns the largest |x| of the first k columns of x [m, ldx]. */
    float (*largest)(const float *x, size_t ldx, size_t m, size_t k);

    /* Quantises x: a number becomes round(factor x), ties to even. The caller chooses a factor that
     * keeps magnitudes within I16_MOST. x [m, ldx], of which k columns are read; pairs [m, ldp], of
     * which round_up(i16_pairs(k), 8) columns are written. */
    void (*quantise)(const float *x, size_t ldx, size_t m, size_t k, float factor, int32_t *pairs,
                     size_t ldp);

    /* Quantise w [n, ldw], or its transpose wt [k, ldw], in the same way, and pack it into panels
     * of f32_panel outputs, whose pairs c are side by side. packed [round_up(n, f32_panel),
     * i16_pairs(k)]. */
    void (*pack)(const float *w, size_t ldw, size_t n, size_t k, float factor, int32_t *packed);
    void (*pack_transposed)(const float *wt, size_t ldw, size_t n, size_t k, float factor,
                            int32_t *packed);

    /* Computes y[i, j] = scale[i] * (sum over c of x[i, c] w[j, c]) over c < k. The sum is exact:
     * the caller makes sure that it stays below 2^31. x [m, ldx] in pairs; w packed; scale [m]; y
     * [m, ldy]. */
    void (*gemm)(const int32_t *x, size_t ldx, const int32_t *w, const float *scale, float *y,
                 size_t ldy, size_t m, size_t n, size_t k);

    /* Replaces the first n floats of each row of x [m, ld] by round(most e^(scale (x - largest))),
     * if `largest` is the row's largest value. The numbers are pairs at the start of the row;
     * sums [m] are the sums of each row's numbers. ld is a multiple of 16, `most` at most I16_MOST.
     */
    void (*softmax)(float *x, size_t ld, size_t m, size_t n, float scale, float most, float *sums);
};

enum { I16_MOST = 32767 };

/* Returns the largest magnitude of numbers with which a sum of n products stays below 2^31. */
static inline float i16_most(size_t n) {
    const float most = floorf(sqrtf(0x1.fffffep30f / (float)n));
    return most < (float)I16_MOST ? most : (float)I16_MOST;
}

/* The factors that turn floats into whole numbers, and back. */
struct i16_scale {
    float to_i16, to_float;
};

/* Returns the scale by which the number of largest magnitude of the first k columns of x [m, ldx]
 * becomes most or -most. Numbers that are all below 2^-112 count as 0, because most divided by them
 * would be infinite. */
static inline struct i16_scale i16_scale_of(const struct i16_kernels *kernels, const float *x,
                                            size_t ldx, size_t m, size_t k, float most) {
    const float largest = kernels->largest(x, ldx, m, k);
    if (!(largest >= 0x1p-112f))
        return (struct i16_scale){0, 0};
    return (struct i16_scale){.to_i16 = most / largest, .to_float = largest / most};
}

extern const struct i16_kernels i16_scalar, i16_scalar_portable;

#endif
