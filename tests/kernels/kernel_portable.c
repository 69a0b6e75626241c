/* SPDX-License-Identifier: Apache-2.0
 * Checks that all portable sets that run here have the bits of kernels_scalar_portable. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "kernel_case.h"

/* Returns the portable set of set `index`, or NULL. Ends where kernels_at ends. */
static const struct kernels *portable_at(size_t index) {
    return kernels_find_portable(kernels_at(index)->name);
}

/* NaNs may have any bits. */
static void expect_portable(const struct where *where, const char *what, const float *got,
                            const float *want, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!isnan(got[i]) || !isnan(want[i]))
            expect_same_bits(where, what, &got[i], &want[i], sizeof *got);
}

/* ---- element by element --------------------------------------------------------------------- */

static void check_elementwise(const float *x, size_t n, enum fill kind) {
    static const enum kernel kernels[] = {GELU, RELU, SILU_MUL, ADD};
    float *other = new_floats(n, FILL_UNIFORM);
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        struct where where = {kernels[i], &kernels_scalar_portable, 1, n, 0, kind};
        float *want = run_elementwise(&where, x, other);
        for (size_t s = 0; kernels_at(s); s++) {
            where.set = portable_at(s);
            if (!where.set)
                continue;
            float *got = run_elementwise(&where, x, other);
            expect_portable(&where, "not portable", got, want, n);
            free(got);
        }
        free(want);
    }
    free(other);
}

void test_portable_elementwise(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++) {
            float *x = new_floats(n, (enum fill)kind);
            check_elementwise(x, n, (enum fill)kind);
            free(x);
        }
    sweep_elementwise(check_elementwise, 0x1p-20f, 100, 65521);
}

/* ---- layer_norm ----------------------------------------------------------------------------- */

/* Returns the rows [m, n] after layer_norm. The caller frees them. */
static float *normed(const struct kernels *set, const float *x, const float *residual,
                     const float *weight, const float *bias, size_t m, size_t n) {
    const struct where where = {LAYER_NORM, set, m, n, 0, FILL_FINITE};
    float *rows = place_rows(SLOT_X, x, m, n, n);
    set->layer_norm(rows, place_rows(SLOT_Y, residual, m, n, n),
                    place_rows(SLOT_W, weight, 1, n, n), place_rows(SLOT_BIAS, bias, 1, n, n),
                    1e-12f, m, n);
    expect_intact(&where);
    float *y = allocate(m * n * sizeof *y);
    memcpy(y, rows, m * n * sizeof *y);
    return y;
}

static void check_layer_norm(size_t m, size_t n, enum fill kind) {
    float *x = new_floats(m * n, kind), *residual = new_floats(m * n, kind);
    float *weight = new_floats(n, FILL_WIDE), *bias = new_floats(n, FILL_UNIFORM);
    float *want = normed(&kernels_scalar_portable, x, residual, weight, bias, m, n);
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {LAYER_NORM, portable_at(s), m, n, 0, kind};
        if (!where.set)
            continue;
        float *got = normed(where.set, x, residual, weight, bias, m, n);
        expect_portable(&where, "not portable", got, want, m * n);
        free(got);
    }
    free(x);
    free(residual);
    free(weight);
    free(bias);
    free(want);
}

void test_portable_layer_norm(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++)
            check_layer_norm(rng_range(&kernel_rng, 1, 5), n, (enum fill)kind);
    for (int i = 0; i < 30; i++)
        check_layer_norm(3, rng_range(&kernel_rng, 71, 1100), FILL_UNIFORM);
}

/* ---- products of layers --------------------------------------------------------------------- */

/* Quantises x in guarded buffers. Scales and q, less the offset of signed sets, have the bits of
 * the scalar set; a zero of -0 counts as 0. */
static void check_quantised(const struct where *where, const float *x, struct quantised_rows want) {
    const struct kernels *set = where->set;
    const size_t m = where->m, k = where->k, blocks = m * narrow_blocks(k);
    const struct quantised_rows got = place_quantised(m, k, true);
    set->quantise_narrow(place_rows(SLOT_X, x, m, k, k), m, k, got);
    expect_intact(where);
    for (size_t i = 0; set->signed_activations && i < m * int8_row_bytes(k); i++)
        got.q[i] ^= 0x80;
    expect_same_bits(where, "other q", got.q, want.q, m * int8_row_bytes(k));
    expect_same_bits(where, "other scales", got.scale, want.scale, blocks * sizeof(float));
    for (size_t i = 0; i < blocks; i++)
        assert_true(got.zero[i] + (set->signed_activations ? 128.0f : 0.0f) == want.zero[i]);
}

/* The output of the product in guarded buffers, [m, n]. The caller frees it. */
static float *multiplied(const struct where *where, const struct product *product) {
    const struct gemm_call call = place_gemm(where->set, product);
    float *y = allocate(call.m * call.n * sizeof *y);
    call_gemm(where->set, &call);
    expect_intact(where);
    expect_padding(where, call.y, call.m, call.n, call.ldy);
    for (size_t i = 0; i < call.m; i++)
        memcpy(y + i * call.n, call.y + i * call.ldy, call.n * sizeof *y);
    return y;
}

static void check_gemm(size_t m, size_t n, size_t k, enum fill kind) {
    float *x = new_floats(m * k, kind), *w = new_floats(n * k, FILL_UNIFORM);
    float *bias = new_floats(n, FILL_UNIFORM);
    struct product product = {.m = m, .n = n, .k = k, .x = x, .w = w, .bias = bias, .narrow = true};
    struct where where = {GEMM_NARROW, &kernels_scalar_portable, m, n, k, kind};
    product.rows = new_quantised(m, k, true);
    kernels_scalar_portable.quantise_narrow(x, m, k, product.rows);
    float *want = multiplied(&where, &product);
    for (size_t s = 0; kernels_at(s); s++) {
        where.set = portable_at(s);
        if (!where.set)
            continue;
        check_quantised(&where, x, product.rows);
        float *got = multiplied(&where, &product);
        expect_portable(&where, "not portable", got, want, m * n);
        free(got);
    }
    free(x);
    free(w);
    free(bias);
    free(want);
    free_quantised(product.rows);
}

void test_portable_gemm(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t k = 1; k <= 270; k += kind == FILL_UNIFORM ? 1 : 9)
            check_gemm(rng_range(&kernel_rng, 1, 13), rng_range(&kernel_rng, 1, 70), k,
                       (enum fill)kind);
    for (size_t m = 1; m <= 5; m++)
        check_gemm(m, rng_range(&kernel_rng, 1, 150), rng_range(&kernel_rng, 2100, 6200) / m,
                   FILL_UNIFORM);
}

/* ---- attention ------------------------------------------------------------------------------ */

/* Results of the 16-bit kernels of a set. */
struct i16_results {
    float largest, sums[5];
    float *y;         /* [m, n]: products */
    int16_t *softmax; /* [m, n] */
};

static struct i16_results run_i16(const struct where *where, const float *x, const float *w,
                                  float factor) {
    const struct i16_kernels *i16 = where->set->i16;
    const size_t m = where->m, n = where->n, k = where->k;
    const size_t ldx = round_up(i16_pairs(k), 8), ldy = round_up(n, 16);
    struct i16_results r = {.y = allocate(m * n * sizeof *r.y),
                            .softmax = allocate(m * n * sizeof *r.softmax)};
    float scales[5] = {0.5f, 0.7f, 1e-5f, 0.3f, 1e-4f};
    int32_t *pairs = place(SLOT_Q, m * ldx * sizeof *pairs);
    int32_t *packed =
        place(SLOT_W, round_up(n, where->set->f32_panel) * i16_pairs(k) * sizeof *packed);
    r.largest = i16->largest(place_rows(SLOT_X, x, m, k, k), k, m, k);
    const float to_i16 = r.largest > 0x1p-100f ? i16_most(k) / r.largest : 0;
    i16->quantise(place_rows(SLOT_X, x, m, k, k), k, m, k, to_i16, pairs, ldx);
    i16->pack(place_rows(SLOT_X, w, n, k, k), k, n, k, i16_most(k), packed);
    float *y = place(SLOT_Y, m * ldy * sizeof *y);
    i16->gemm(pairs, ldx, packed, place_rows(SLOT_SCALE, scales, 1, m, m), y, ldy, m, n, k);
    for (size_t i = 0; i < m; i++) {
        memcpy(r.y + i * n, y + i * ldy, n * sizeof *y);
        for (size_t j = 0; j < n; j++) /* to scores of ordinary size */
            y[i * ldy + j] *= factor / (i16_most(k) * i16_most(k) * scales[i]);
    }
    i16->softmax(y, ldy, m, n, 0.177f, i16_most(n), r.sums);
    expect_intact(where);
    for (size_t i = 0; i < m; i++)
        memcpy(r.softmax + i * n, y + i * ldy, n * sizeof *r.softmax);
    return r;
}

static void free_results(struct i16_results r) {
    free(r.y);
    free(r.softmax);
}

static void check_i16(size_t m, size_t n, size_t k, enum fill kind, float factor) {
    float *x = new_floats(m * k, kind), *w = new_floats(n * k, FILL_UNIFORM);
    struct where where = {I16, &kernels_scalar_portable, m, n, k, kind};
    const struct i16_results want = run_i16(&where, x, w, factor);
    for (size_t s = 0; kernels_at(s); s++) {
        where.set = portable_at(s);
        if (!where.set)
            continue;
        const struct i16_results got = run_i16(&where, x, w, factor);
        expect_same_bits(&where, "largest", &got.largest, &want.largest, sizeof got.largest);
        expect_same_bits(&where, "products", got.y, want.y, m * n * sizeof *got.y);
        expect_same_bits(&where, "softmax", got.softmax, want.softmax, m * n * sizeof *got.softmax);
        expect_same_bits(&where, "sums", got.sums, want.sums, m * sizeof *got.sums);
        free_results(got);
    }
    free_results(want);
    free(x);
    free(w);
}

void test_portable_i16(void **state) {
    (void)state;
    static const float factors[] = {1, 10, 300};
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 130; n += kind == FILL_UNIFORM ? 1 : 13)
            check_i16(rng_range(&kernel_rng, 1, 5), n, rng_range(&kernel_rng, 1, 70),
                      (enum fill)kind, factors[n % 3]);
    for (int i = 0; i < 20; i++)
        check_i16(5, rng_range(&kernel_rng, 131, 2100), 64, FILL_UNIFORM, factors[i % 3]);
}
