/* SPDX-License-Identifier: Apache-2.0
 * Checks of the products of bfloats (bf16.h), for the sets that have them. */
#include "kernel_case.h"

#ifndef __wasm__
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"

/* Returns the products of a set, or NULL if it has none here. */
static const struct bf16_kernels *products_of(const struct kernels *set) {
    return set->bf16 && set->bf16->runs() ? set->bf16 : NULL;
}

/* Returns the place of w[j, c] among packed weights, as pack_bf16 says. */
static size_t place_of(size_t j, size_t c, size_t k) {
    return ((j / BF16_PANEL * (bf16_row(k) / 2) + c / 2) * BF16_PANEL + j % BF16_PANEL) * 2 + c % 2;
}

/* Returns what rounding is to give: by doubles, which are exact, and by the definition. */
static uint16_t expected(float value) {
    if (isnan(value))
        return (uint16_t)(bits_of_float(value) >> 16 | 0x40);
    if (fabsf(value) < FLT_MIN)
        return signbit(value) ? 0x8000 : 0;
    int exponent;
    const double fraction = frexp((double)value, &exponent); /* 0.5 <= |fraction| < 1 */
    if (isinf(value))
        return signbit(value) ? 0xff80 : 0x7f80;
    const double rounded = ldexp(rint(fraction * 256), exponent - 8);
    return (uint16_t)(bits_of_float((float)rounded) >> 16);
}

static void check_rounding(const struct kernels *set, size_t m, size_t k, enum fill kind) {
    const struct where where = {BF16, set, m, 0, k, kind};
    const size_t row = bf16_row(k);
    float *x = new_floats(m * k, kind);
    uint16_t *want = allocate(m * row * sizeof *want);
    for (size_t i = 0; i < m * row; i++)
        want[i] = i % row < k ? expected(x[i / row * k + i % row]) : 0;
    uint16_t *out = place(SLOT_Q, m * row * sizeof *out);
    products_of(set)->round(place_rows(SLOT_X, x, m, k, k), m, k, out);
    expect_same_bits(&where, "rounded otherwise", out, want, m * row * sizeof *out);
    expect_intact(&where);
    free(x);
    free(want);
}

void test_bf16_rounding(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (size_t k = 1; products_of(kernels_at(s)) && k <= 100; k++)
            for (int kind = 0; kind <= FILL_SPECIAL; kind++)
                check_rounding(kernels_at(s), rng_range(&kernel_rng, 1, 4), k, (enum fill)kind);
}

void test_pack_bf16(void **state) {
    (void)state;
    for (size_t n = 1; n <= 70; n++) {
        const size_t k = rng_range(&kernel_rng, 1, 100), bytes = packed_bf16_bytes(n, k);
        const struct where where = {BF16, kernels_at(0), 0, n, k, FILL_SPECIAL};
        float *w = new_floats(n * k, FILL_SPECIAL);
        uint16_t *packed = place(SLOT_W, bytes), *want = allocate(bytes);
        memset(want, 0, bytes);
        for (size_t i = 0; i < n * k; i++)
            want[place_of(i / k, i % k, k)] = expected(w[i]);
        pack_bf16(place_rows(SLOT_X, w, n, k, k), n, k, packed);
        expect_same_bits(&where, "packed otherwise", packed, want, bytes);
        expect_intact(&where);
        free(w);
        free(want);
    }
}

/* ---- the product ---------------------------------------------------------------------------- */

/* Bounds the error of a sum in any order, in which what is below FLT_MIN may become 0. */
static void exact_element(const struct product *p, size_t i, size_t j, double *y,
                          double *tolerance) {
    double sum = (double)p->bias[j], magnitudes = fabs(sum);
    for (size_t c = 0; c < p->k; c++) {
        const double product = (double)float_of_bfloat(expected(p->x[i * p->k + c])) *
                               (double)float_of_bfloat(expected(p->w[j * p->k + c]));
        sum += product;
        magnitudes += fabs(product);
    }
    const double roundings = ROUNDING * (double)(p->k + 1);
    *y = sum;
    *tolerance =
        roundings * (1 + 2 * roundings) * magnitudes + 2 * (double)(p->k + 1) * (double)FLT_MIN;
}

/* Computes the rows of x that `rows` lists, [m]. The caller frees the result, [m, n]. */
static float *run(const struct where *where, const struct product *p, const size_t *rows,
                  size_t m) {
    const struct bf16_kernels *bf16 = products_of(where->set);
    const size_t n = p->n, k = p->k, ldy = n + rng_below(&kernel_rng, 4);
    float *x = allocate(m * k * sizeof *x), *dense = allocate(m * n * sizeof *dense);
    for (size_t i = 0; i < m; i++)
        memcpy(x + i * k, p->x + rows[i] * k, k * sizeof *x);
    uint16_t *rounded = place(SLOT_Q, m * bf16_row(k) * sizeof *rounded);
    uint16_t *packed = place(SLOT_W, packed_bf16_bytes(n, k));
    bf16->round(x, m, k, rounded);
    pack_bf16(p->w, n, k, packed);
    const float *bias = place_rows(SLOT_BIAS, p->bias, 1, n, n);
    float *y = place(SLOT_Y, ((m - 1) * ldy + n) * sizeof *y);
    bf16->gemm(rounded, packed, bias, y, ldy, m, n, k);
    expect_intact(where);
    expect_padding(where, y, m, n, ldy);
    for (size_t i = 0; i < m; i++)
        memcpy(dense + i * n, y + i * ldy, n * sizeof *y);
    free(x);
    return dense;
}

/* The results are near enough, and have the same bits in any other batch. */
static void check_set(const struct where *where, const struct product *p,
                      const struct exact *exact) {
    size_t rows[80];
    for (size_t i = 0; i < p->m; i++)
        rows[i] = i;
    float *y = run(where, p, rows, p->m);
    for (size_t i = 0; i < p->m * p->n; i++)
        expect_near(where, i / p->n, i % p->n, y[i], exact->y[i], exact->tolerance[i]);
    const size_t some = rng_range(&kernel_rng, 1, 70);
    for (size_t i = 0; i < some; i++)
        rows[i] = rng_below(&kernel_rng, p->m);
    float *other = run(where, p, rows, some);
    for (size_t i = 0; i < some; i++)
        expect_same_bits(where, "another batch gives a row other bits", other + i * p->n,
                         y + rows[i] * p->n, p->n * sizeof *y);
    free(y);
    free(other);
}

static void check_product_of(size_t m, size_t n, size_t k, enum fill kind) {
    float *x = new_floats(m * k, kind), *w = new_floats(n * k, FILL_UNIFORM);
    float *bias = new_floats(n, FILL_UNIFORM);
    const struct exact exact = new_exact(m, n);
    for (size_t i = 0; kind == FILL_LARGEST && i < n * k; i++)
        w[i] /= (float)k;
    const struct product p = {.m = m, .n = n, .k = k, .x = x, .w = w, .bias = bias};
    for (size_t i = 0; i < m * n; i++)
        exact_element(&p, i / n, i % n, &exact.y[i], &exact.tolerance[i]);
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {BF16, kernels_at(s), m, n, k, kind};
        if (products_of(where.set))
            check_set(&where, &p, &exact);
    }
    free_exact(exact);
    free(x);
    free(w);
    free(bias);
}

void test_bf16_gemm(void **state) {
    (void)state;
    for (size_t n = 1; n <= 70; n++)
        check_product_of(rng_range(&kernel_rng, 1, 75), n, rng_range(&kernel_rng, 1, 40),
                         FILL_UNIFORM);
    for (size_t m = 1; m <= 75; m++)
        check_product_of(m, rng_range(&kernel_rng, 1, 70), rng_range(&kernel_rng, 1, 40),
                         FILL_UNIFORM);
    for (size_t k = 1; k <= 200; k++)
        check_product_of(rng_range(&kernel_rng, 1, 40), rng_range(&kernel_rng, 1, 40), k,
                         (enum fill)(k % FILL_FINITE));
    check_product_of(3, 40, 3000, FILL_UNIFORM);
}

/* No results are checked here, only that nothing is written elsewhere. */
void test_bf16_special_values(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (int i = 0; products_of(kernels_at(s)) && i < 20; i++) {
            const size_t n = rng_range(&kernel_rng, 1, 70), k = rng_range(&kernel_rng, 1, 70);
            const struct where where = {BF16, kernels_at(s), n, n, k, FILL_SPECIAL};
            size_t rows[70];
            float *x = new_floats(n * k, FILL_SPECIAL), *bias = new_floats(n, FILL_SPECIAL);
            const struct product p = {.m = n, .n = n, .k = k, .x = x, .w = x, .bias = bias};
            for (size_t r = 0; r < n; r++)
                rows[r] = r;
            free(run(&where, &p, rows, n));
            free(x);
            free(bias);
        }
}

#endif
