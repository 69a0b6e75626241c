/* SPDX-License-Identifier: Apache-2.0
 * Checks of the 16-bit kernels of attention (i16.h), for the sets that have them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "kernel_case.h"

/* Returns number c of a row of pairs. */
static int number_at(const int32_t *pairs, size_t c) {
    int16_t number;
    memcpy(&number, (const unsigned char *)pairs + c * sizeof number, sizeof number);
    return number;
}

/* Returns number c of row j of weights that were packed for a set. */
static int packed_at(const struct kernels *set, const int32_t *packed, size_t k, size_t j,
                     size_t c) {
    const size_t panel = set->f32_panel;
    return number_at(packed + (j / panel * i16_pairs(k) + c / 2) * panel + j % panel, c % 2);
}

static size_t packed_bytes(const struct kernels *set, size_t n, size_t k) {
    return round_up(n, set->f32_panel) * i16_pairs(k) * sizeof(int32_t);
}

/* ---- from floats ---------------------------------------------------------------------------- */

static float largest_of(const float *x, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

/* Packed numbers equal those of w [n, k], whether w was given by rows or by columns. */
static void expect_packed(const struct where *where, const int32_t *packed, const float *w,
                          float by) {
    const size_t n = where->n, k = where->k;
    for (size_t j = 0; j < round_up(n, where->set->f32_panel); j++)
        for (size_t c = 0; c < 2 * i16_pairs(k); c++)
            expect_near(where, j, c, (float)packed_at(where->set, packed, k, j, c),
                        j < n && c < k ? (double)rintf(w[j * k + c] * by) : 0, 0);
    expect_intact(where);
}

static void check_packing(const struct where *where, const float *w, float by) {
    const size_t n = where->n, k = where->k;
    const size_t ld = k + rng_below(&kernel_rng, 4), ldt = n + rng_below(&kernel_rng, 4);
    const struct i16_kernels *i16 = where->set->i16;
    float *wt = allocate(n * k * sizeof *wt);
    for (size_t j = 0; j < n; j++)
        for (size_t c = 0; c < k; c++)
            wt[c * n + j] = w[j * k + c];
    int32_t *packed = place(SLOT_W, packed_bytes(where->set, n, k));
    i16->pack(place_rows(SLOT_X, w, n, k, ld), ld, n, k, by, packed);
    expect_packed(where, packed, w, by);
    packed = place(SLOT_W, packed_bytes(where->set, n, k));
    i16->pack_transposed(place_rows(SLOT_X, wt, k, n, ldt), ldt, n, k, by, packed);
    expect_packed(where, packed, w, by);
    free(wt);
}

static void check_quantising(const struct where *where, const float *x, float by) {
    const size_t m = where->n, k = where->k, ldx = k + rng_below(&kernel_rng, 4);
    const size_t written = round_up(i16_pairs(k), 8), ldp = written + rng_below(&kernel_rng, 4);
    const float *rows = place_rows(SLOT_X, x, m, k, ldx);
    int32_t *pairs = place(SLOT_Q, ((m - 1) * ldp + written) * sizeof *pairs);
    where->set->i16->quantise(rows, ldx, m, k, by, pairs, ldp);
    expect_intact(where);
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < 2 * i16_pairs(k); c++)
            expect_near(where, i, c, (float)number_at(pairs + i * ldp, c),
                        c < k ? (double)rintf(x[i * k + c] * by) : 0, 0);
}

static void check_numbers(const struct kernels *set, size_t n, size_t k, enum fill kind) {
    const struct where where = {I16, set, 0, n, k, kind};
    const size_t ld = k + rng_below(&kernel_rng, 4);
    float *x = new_floats(n * k, kind);
    const float largest = largest_of(x, n * k);
    const float by = largest >= 0x1p-112f ? i16_most(rng_range(&kernel_rng, 1, 300)) / largest : 0;
    const float found = set->i16->largest(place_rows(SLOT_X, x, n, k, ld), ld, n, k);
    expect_same_bits(&where, "not the largest", &found, &largest, sizeof found);
    check_packing(&where, x, by);
    check_quantising(&where, x, by);
    free(x);
}

void test_i16_numbers(void **state) {
    (void)state;
    for (size_t s = 0; checked_at(s); s++)
        for (size_t n = 1; checked_at(s)->i16 && n <= 70; n++) {
            const enum fill kind = (enum fill)(n % FILL_FINITE);
            check_numbers(checked_at(s), n, rng_range(&kernel_rng, 1, 40), kind);
            check_numbers(checked_at(s), rng_range(&kernel_rng, 1, 40), n, kind);
        }
}

/* ---- the product ---------------------------------------------------------------------------- */

/* Fills numbers up to the largest that k products allow; with `extreme` all have that magnitude,
 * and one sign or either. They are floats, which the kernels convert with a factor of 1. */
static float *new_numbers(size_t n, size_t k, int extreme) {
    const float most = i16_most(k);
    float *x = new_floats(n * k, FILL_UNIFORM);
    for (size_t i = 0; i < n * k; i++)
        x[i] = extreme == 0 ? rintf(most * x[i]) : extreme == 1 || x[i] > 0 ? most : -most;
    return x;
}

static int32_t exact_sum(const float *x, const float *w, size_t k) {
    int64_t sum = 0;
    for (size_t c = 0; c < k; c++)
        sum += (int64_t)x[c] * (int64_t)w[c];
    assert_true(sum >= INT32_MIN && sum <= INT32_MAX);
    return (int32_t)sum;
}

static void check_product_of(const struct where *where, const float *x, const float *w) {
    const size_t m = where->m, n = where->n, k = where->k;
    const size_t ldx = round_up(i16_pairs(k), 8) + rng_below(&kernel_rng, 4);
    const size_t ldy = n + rng_below(&kernel_rng, 4);
    const struct i16_kernels *i16 = where->set->i16;
    int32_t *pairs = place(SLOT_Q, m * ldx * sizeof *pairs);
    int32_t *packed = place(SLOT_W, packed_bytes(where->set, n, k));
    float *scales = new_floats(m, FILL_WIDE);
    i16->quantise(x, k, m, k, 1, pairs, ldx);
    i16->pack(w, k, n, k, 1, packed);
    float *y = place(SLOT_Y, ((m - 1) * ldy + n) * sizeof *y);
    i16->gemm(pairs, ldx, packed, place_rows(SLOT_SCALE, scales, 1, m, m), y, ldy, m, n, k);
    expect_intact(where);
    expect_padding(where, y, m, n, ldy);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            const float want = (float)exact_sum(x + i * k, w + j * k, k) * scales[i];
            expect_same_bits(where, "not the exact sum", &y[i * ldy + j], &want, sizeof want);
        }
    free(scales);
}

static void check_gemm(size_t m, size_t n, size_t k, int extreme) {
    float *x = new_numbers(m, k, extreme), *w = new_numbers(n, k, extreme);
    for (size_t s = 0; checked_at(s); s++) {
        const struct where where = {I16, checked_at(s), m, n, k, FILL_UNIFORM};
        if (where.set->i16)
            check_product_of(&where, x, w);
    }
    free(x);
    free(w);
}

void test_i16_gemm(void **state) {
    (void)state;
    for (size_t n = 1; n <= 40; n++)
        for (size_t m = 1; m <= 10; m++)
            check_gemm(m, n, rng_range(&kernel_rng, 1, 40), 0);
    for (size_t k = 1; k <= 130; k++)
        for (int extreme = 0; extreme < 3; extreme++)
            check_gemm(rng_range(&kernel_rng, 1, 10), rng_range(&kernel_rng, 1, 40), k, extreme);
    for (int extreme = 0; extreme < 3; extreme++)
        check_gemm(2, 9, 70000, extreme);
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* The relative error of e^x if x was rounded when it became a power of 2 with log2 of `most`
 * added, together with the error of e^x itself: as for softmax in kernel_rows.c. */
static double power_error(double exponent) {
    return 4 * ROUNDING * (fabs(exponent) + 16) + 2e-7;
}

static void check_softmax_row(const struct where *where, size_t i, const float *x, float scale,
                              float most, const int32_t *pairs, float sum) {
    double largest = -INFINITY, total = 0;
    for (size_t j = 0; j < where->n; j++)
        largest = fmax(largest, (double)x[j]);
    for (size_t j = 0; j < 2 * i16_pairs(where->n); j++) {
        const int got = number_at(pairs, j);
        const double exponent = j < where->n ? ((double)x[j] - largest) * (double)scale : 0;
        const double want = j < where->n ? (double)most * exp(exponent) : 0;
        const double tolerance = j < where->n ? 0.5 + want * power_error(exponent) + 1e-30 : 0;
        expect_near(where, i, j, (float)got, want, tolerance);
        total += got;
    }
    expect_near(where, i, where->n, sum, total, 8 * ROUNDING * total);
}

static void check_softmax(const struct kernels *set, size_t m, size_t n, enum fill kind,
                          float factor) {
    const struct where where = {I16, set, m, n, 0, kind};
    const float scale = rng_between(&kernel_rng, 0.05f, 1), most = i16_most(n);
    const size_t ld = round_up(n, 16) + 16 * rng_below(&kernel_rng, 2);
    float *x = new_floats(m * n, kind), *rows = place(SLOT_X, m * ld * sizeof *rows);
    float *sums = place(SLOT_SCALE, m * sizeof *sums);
    for (size_t i = 0; i < m * n; i++)
        x[i] *= factor;
    for (size_t i = 0; i < m; i++)
        memcpy(rows + i * ld, x + i * n, n * sizeof *x);
    set->i16->softmax(rows, ld, m, n, scale, most, sums);
    expect_intact(&where);
    for (size_t i = 0; i < m; i++)
        check_softmax_row(&where, i, x + i * n, scale, most,
                          (const int32_t *)(const void *)(rows + i * ld), sums[i]);
    free(x);
}

void test_i16_softmax(void **state) {
    (void)state;
    static const float factors[] = {1, 30, 1e-6f, 500};
    for (size_t s = 0; checked_at(s); s++)
        for (size_t n = 1; checked_at(s)->i16 && n <= 300; n++)
            for (int kind = 0; kind < FILL_FINITE; kind++)
                check_softmax(checked_at(s), rng_range(&kernel_rng, 1, 5), n, (enum fill)kind,
                              kind == FILL_UNIFORM ? factors[n % 4] : 1);
}

/* ---- values that are none ------------------------------------------------------------------- */

/* No results are checked here, only that nothing is written elsewhere. */
void test_i16_special_values(void **state) {
    (void)state;
    for (size_t s = 0; checked_at(s); s++)
        for (int i = 0; checked_at(s)->i16 && i < 30; i++) {
            const size_t n = rng_range(&kernel_rng, 1, 40), k = rng_range(&kernel_rng, 1, 40);
            const struct where where = {I16, checked_at(s), n, n, k, FILL_SPECIAL};
            const struct i16_kernels *i16 = where.set->i16;
            const size_t ld = round_up(k, 16);
            float *x = new_floats(n * ld, FILL_SPECIAL);
            float *rows = place_rows(SLOT_X, x, n, ld, ld);
            i16->pack(rows, ld, n, k, 1000, place(SLOT_W, packed_bytes(where.set, n, k)));
            i16->quantise(rows, ld, n, k, 1000, place(SLOT_Q, n * ld * sizeof(int32_t)), ld);
            i16->softmax(rows, ld, n, k, 1, i16_most(k), place(SLOT_SCALE, n * sizeof(float)));
            expect_intact(&where);
            free(x);
        }
}
