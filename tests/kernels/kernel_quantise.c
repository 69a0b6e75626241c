/* SPDX-License-Identifier: Apache-2.0
 * Checks of the kernels that quantise rows of activations. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel_case.h"

/* The rule of kernels.h for one block: `length` values, their q, and the bytes after them. */
static void check_quantised_block(const struct where *where, size_t i, const float *x,
                                  size_t length, const uint8_t *q, float scale, float zero) {
    double low = 0, high = 0;
    for (size_t c = 0; c < length; c++) {
        low = fmin(low, (double)x[c]);
        high = fmax(high, (double)x[c]);
    }
    const float span = (float)high - (float)low; /* rounded as in kernels.h */
    const double range = span < 0x1p-120f ? 0 : (double)span;
    const int steps = where->kernel == QUANTISE_NARROW ? NARROW_STEPS : 255;
    const double step = range / steps;
    expect_near(where, i, 0, scale, step, 2 * ROUNDING * step + (double)FLT_TRUE_MIN);
    assert_true(zero >= 0 && zero <= (float)steps && rintf(zero) == zero);
    for (size_t c = length; c < int8_row_bytes(length); c++)
        assert_true(q[c] == (uint8_t)zero);
    for (size_t c = 0; range == 0 && c < length; c++)
        assert_true(q[c] == 0);
    if (range == 0)
        return;
    /* Half a step for each of the two rounded numbers, and four roundings of up to `steps`. */
    const double slack = steps * 4 * ROUNDING;
    assert_true(fabs(-low / step - (double)zero) <= 0.5 + slack);
    for (size_t c = 0; c < length; c++) {
        const double want = (double)x[c] / step + (double)zero;
        const double allowed = q[c] == 255 ? 1 + slack : 0.5 + slack;
        expect_near(where, i, c, q[c], want, allowed);
        assert_true(q[c] <= steps + 1);
    }
}

static void check_quantised(const struct where *where, const float *x, struct quantised_rows rows) {
    const bool narrow = where->kernel == QUANTISE_NARROW;
    const size_t k = where->k, blocks = blocks_of(k, narrow), most = block_values(narrow);
    for (size_t i = 0; i < where->m; i++)
        for (size_t b = 0; b < blocks; b++) {
            const size_t start = b * most, left = k - start;
            check_quantised_block(where, i, x + i * k + start, left < most ? left : most,
                                  rows.q + i * int8_row_bytes(k) + start,
                                  rows.scale[i * blocks + b], rows.zero[i * blocks + b]);
        }
}

/* Returns the rows from `first` on, in any buffers, without the offset of signed values. */
static struct quantised_rows run_quantise(const struct where *where, const float *x, size_t first) {
    const bool narrow = where->kernel == QUANTISE_NARROW;
    const size_t m = where->m - first, k = where->k;
    const float *here = place_rows(SLOT_X, x + first * k, m, k, k);
    const struct quantised_rows rows = place_quantised(m, k, narrow);
    const int offset = where->set->signed_activations;
    (narrow ? where->set->quantise_narrow : where->set->quantise)(here, m, k, rows);
    expect_intact(where);
    for (size_t i = 0; offset && i < m * int8_row_bytes(k); i++)
        rows.q[i] ^= 0x80;
    for (size_t i = 0; offset && i < m * blocks_of(k, narrow); i++)
        rows.zero[i] += 128;
    return rows;
}

/* Results equal the scalar set's, in any batch. A zero of -0 counts as 0. */
static void expect_same_rows(const struct where *where, struct quantised_rows got,
                             struct quantised_rows want, size_t first) {
    const size_t m = where->m - first, bytes = int8_row_bytes(where->k);
    const size_t blocks = blocks_of(where->k, where->kernel == QUANTISE_NARROW);
    expect_same_bits(where, "other q than scalar", got.q, want.q + first * bytes, m * bytes);
    expect_same_bits(where, "other scales than scalar", got.scale, want.scale + first * blocks,
                     m * blocks * sizeof(float));
    for (size_t i = 0; i < m * blocks; i++)
        expect_near(where, i, 0, got.zero[i], (double)want.zero[first * blocks + i], 0);
}

static void check_quantise(size_t m, size_t k, enum fill kind, float factor) {
    float *x = new_floats(m * k, kind);
    for (size_t i = 0; i < m * k; i++)
        x[i] *= factor;
    for (int narrow = 0; narrow < 2; narrow++) {
        const struct quantised_rows want = new_quantised(m, k, narrow);
        struct where where = {narrow ? QUANTISE_NARROW : QUANTISE, &kernels_scalar, m, 0, k, kind};
        (narrow ? kernels_scalar.quantise_narrow : kernels_scalar.quantise)(x, m, k, want);
        check_quantised(&where, x, want);
        for (size_t s = 0; kernels_at(s); s++) {
            where.set = kernels_at(s);
            if (!(narrow ? where.set->quantise_narrow : where.set->quantise))
                continue;
            expect_same_rows(&where, run_quantise(&where, x, 0), want, 0);
            const size_t first = rng_below(&kernel_rng, m);
            expect_same_rows(&where, run_quantise(&where, x, first), want, first);
        }
        free_quantised(want);
    }
    free(x);
}

void test_quantise(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t k = 1; k <= 270; k++)
            check_quantise(rng_range(&kernel_rng, 1, 3), k, (enum fill)kind, 1);
    /* Values of one sign, and spans near the least that has an inverse. */
    for (int i = 0; i < 200; i++)
        check_quantise(rng_range(&kernel_rng, 1, 9), rng_range(&kernel_rng, 1, 500), FILL_EQUAL,
                       i % 2 ? 1 : exp2f(rng_between(&kernel_rng, -126, -110)));
}

/* NaN and infinities are quantised to numbers without meaning, in their place. */
void test_quantise_special_values(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (int i = 0; i < 100; i++) {
            const size_t m = rng_range(&kernel_rng, 1, 5), k = rng_range(&kernel_rng, 1, 200);
            float *x = new_floats(m * k, FILL_SPECIAL);
            struct where where = {QUANTISE, kernels_at(s), m, 0, k, FILL_SPECIAL};
            if (where.set->quantise)
                run_quantise(&where, x, 0);
            where.kernel = QUANTISE_NARROW;
            if (where.set->quantise_narrow)
                run_quantise(&where, x, 0);
            free(x);
        }
}
