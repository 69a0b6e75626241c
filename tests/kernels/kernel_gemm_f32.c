/* SPDX-License-Identifier: Apache-2.0
 * Checks of gemm_f32 and of the packing that it needs. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"

/* ---- packing -------------------------------------------------------------------------------- */

static void check_pack_f32(size_t n, size_t k, size_t panel) {
    const size_t ld = k + rng_below(&kernel_rng, 4), ldt = n + rng_below(&kernel_rng, 4);
    const size_t floats = packed_f32_floats(n, k, panel);
    float *w = new_floats(n * k, FILL_UNIFORM), *wt = allocate(n * k * sizeof *wt);
    for (size_t j = 0; j < n; j++)
        for (size_t c = 0; c < k; c++)
            wt[c * n + j] = w[j * k + c];
    const struct where where = {GEMM_F32, kernels_at(0), panel, n, k, FILL_UNIFORM};
    const float *rows = place_rows(SLOT_X, w, n, k, ld);
    float *packed = place(SLOT_W, floats * sizeof *packed);
    pack_f32(rows, ld, n, k, panel, packed);
    for (size_t i = 0; i < floats; i++) {
        const size_t j = i / (panel * k) * panel + i % panel, c = i / panel % k;
        assert_true(packed[i] == (j < n ? w[j * k + c] : 0));
    }
    const float *columns = place_rows(SLOT_BIAS, wt, k, n, ldt);
    float *again = place(SLOT_Y, floats * sizeof *again);
    pack_f32_transposed(columns, ldt, n, k, panel, again);
    expect_same_bits(&where, "packed from the transpose otherwise", again, packed,
                     floats * sizeof *again);
    expect_intact(&where);
    free(w);
    free(wt);
}

/* Each set's own packing of rows and of columns gives the bytes that pack_f32 gives. */
static void check_set_packing(const struct kernels *set, size_t n, size_t k) {
    const size_t floats = packed_f32_floats(n, k, set->f32_panel);
    const size_t ld = k + rng_below(&kernel_rng, 4), ldt = n + rng_below(&kernel_rng, 4);
    float *w = new_floats(n * k, FILL_SPECIAL), *wt = new_floats(n * k, FILL_SPECIAL);
    float *want = allocate(floats * sizeof *want);
    const struct where where = {PACK, set, 0, n, k, FILL_SPECIAL};
    float *packed = place(SLOT_W, floats * sizeof *packed);
    pack_f32(w, k, n, k, set->f32_panel, want);
    set->pack_f32(place_rows(SLOT_X, w, n, k, ld), ld, n, k, packed);
    expect_same_bits(&where, "rows packed otherwise", packed, want, floats * sizeof *want);
    pack_f32_transposed(wt, n, n, k, set->f32_panel, want);
    set->pack_f32_transposed(place_rows(SLOT_BIAS, wt, k, n, ldt), ldt, n, k, packed);
    expect_same_bits(&where, "columns packed otherwise", packed, want, floats * sizeof *want);
    expect_intact(&where);
    free(w);
    free(wt);
    free(want);
}

void test_set_packing(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (size_t n = 1; n <= 70; n++) {
            check_set_packing(kernels_at(s), n, rng_range(&kernel_rng, 1, 40));
            check_set_packing(kernels_at(s), rng_range(&kernel_rng, 1, 150), n);
        }
}

void test_pack_f32(void **state) {
    (void)state;
    static const size_t panels[] = {1, 4, 8, 16, 32, 64};
    for (size_t p = 0; p < sizeof panels / sizeof *panels; p++)
        for (size_t n = 1; n <= 2 * panels[p] + 1; n++)
            check_pack_f32(n, rng_range(&kernel_rng, 1, 9), panels[p]);
}

/* ---- the product ---------------------------------------------------------------------------- */

/* Bounds the error of a sum in the order of c, in which each product and each partial sum is
 * rounded once. */
static void exact_element(const struct product *p, size_t i, size_t j, double *y,
                          double *tolerance) {
    double sum = p->bias ? (double)p->bias[j] : 0, magnitudes = 0;
    for (size_t c = 0; c < p->k; c++) {
        const double product = (double)p->x[i * p->k + c] * (double)p->w[j * p->k + c];
        sum += product;
        magnitudes += fabs(product) + fabs(sum);
    }
    /* The partial sums that were rounded differ from the exact ones by less than a share of this,
     * and what is below FLT_MIN is rounded to a fixed step. */
    const double growth = 1 + 2 * ROUNDING * (double)(p->k + 1);
    *y = sum;
    *tolerance = ROUNDING * magnitudes * growth + (double)(p->k + 1) * (double)FLT_TRUE_MIN;
}

static void check_f32(const struct product *p, enum fill kind) {
    const struct exact exact = new_exact(p->m, p->n);
    for (size_t i = 0; i < p->m; i++)
        for (size_t j = 0; j < p->n; j++)
            exact_element(p, i, j, &exact.y[i * p->n + j], &exact.tolerance[i * p->n + j]);
    check_product(p, &exact, kind);
    free_exact(exact);
}

/* Multiplies values of one kind by uniform ones, which are small if the others are so large that
 * the sum would overflow. With `swapped` the weights are of that kind. */
static void check_shape(size_t m, size_t n, size_t k, enum fill kind, bool swapped) {
    float *x = new_floats(m * k, swapped ? FILL_UNIFORM : kind);
    float *w = new_floats(n * k, swapped ? kind : FILL_UNIFORM);
    float *bias = rng_below(&kernel_rng, 4) ? new_floats(n, FILL_UNIFORM) : NULL;
    float *small = swapped ? x : w;
    for (size_t i = 0; kind == FILL_LARGEST && i < (swapped ? m : n) * k; i++)
        small[i] /= (float)k;
    const struct product product = {.m = m, .n = n, .k = k, .x = x, .w = w, .bias = bias};
    check_f32(&product, kind);
    free(x);
    free(w);
    free(bias);
}

/* Checks every n up to more than two panels of the widest set, with every remainder of a tile's
 * rows. */
void test_gemm_f32_small_shapes(void **state) {
    (void)state;
    for (size_t n = 1; n <= 70; n++)
        for (size_t m = 1; m <= 25; m++)
            check_shape(m, n, rng_range(&kernel_rng, 1, 9), FILL_UNIFORM, false);
}

void test_gemm_f32_every_k(void **state) {
    (void)state;
    for (size_t k = 1; k <= 260; k++)
        check_shape(rng_range(&kernel_rng, 1, 14), rng_range(&kernel_rng, 1, 70), k, FILL_UNIFORM,
                    false);
}

void test_gemm_f32_random_shapes(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++) {
        const size_t m = rng_range(&kernel_rng, 1, 60), n = rng_range(&kernel_rng, 1, 300);
        check_shape(m, n, rng_range(&kernel_rng, 1, 300), FILL_UNIFORM, false);
    }
    check_shape(300, 37, 65, FILL_UNIFORM, false);
}

void test_gemm_f32_extremes(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (int i = 0; i < 8; i++) {
            const size_t m = rng_range(&kernel_rng, 1, 14), n = rng_range(&kernel_rng, 1, 70);
            check_shape(m, n, rng_range(&kernel_rng, 1, 260), (enum fill)kind, i % 2);
        }
}

/* With NaN and infinities, no values are checked. They must stay in their rows, and rows without
 * them must keep their bits. */
static void check_special(const struct where *where, const struct product *p) {
    const struct gemm_call call = place_gemm(where->set, p);
    call_gemm(where->set, &call);
    expect_intact(where);
    expect_padding(where, call.y, p->m, p->n, call.ldy);
    const size_t i = rng_below(&kernel_rng, p->m);
    float *row = allocate(p->n * sizeof *row);
    memcpy(row, call.y + i * call.ldy, p->n * sizeof *row);
    struct product clean = *p;
    clean.m = 1;
    clean.x = p->x + i * p->k;
    const struct gemm_call alone = place_gemm(where->set, &clean);
    call_gemm(where->set, &alone);
    for (size_t j = 0; j < p->n; j++)
        if (isfinite(row[j]))
            expect_same_bits(where, "a NaN in one row changes another", &alone.y[j], &row[j],
                             sizeof *row);
    free(row);
}

void test_gemm_f32_special_values(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) {
        const size_t m = rng_range(&kernel_rng, 1, 14), n = rng_range(&kernel_rng, 1, 70);
        const size_t k = rng_range(&kernel_rng, 1, 20);
        float *x = new_floats(m * k, i % 3 == 1 ? FILL_UNIFORM : FILL_SPECIAL);
        float *w = new_floats(n * k, i % 3 == 0 ? FILL_UNIFORM : FILL_SPECIAL);
        float *bias = new_floats(n, FILL_SPECIAL);
        const struct product product = {.m = m, .n = n, .k = k, .x = x, .w = w, .bias = bias};
        for (size_t s = 0; kernels_at(s); s++) {
            const struct where where = {GEMM_F32, kernels_at(s), m, n, k, FILL_SPECIAL};
            check_special(&where, &product);
        }
        free(x);
        free(w);
        free(bias);
    }
}
