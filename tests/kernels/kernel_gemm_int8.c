/* SPDX-License-Identifier: Apache-2.0
 * Checks of gemm_int8 and of the packing that it needs. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"
#include "kernels/weights.h"

/* ---- packing -------------------------------------------------------------------------------- */

/* The start and length of block b of row j in weights that were packed in panels of one row. */
struct weight_block {
    float scale, sum;
    const int8_t *values;
    size_t length; /* a multiple of 4 */
};

static struct weight_block weight_block(const unsigned char *packed, size_t k, size_t j, size_t b,
                                        bool narrow) {
    const size_t row = narrow ? packed_narrow_bytes(1, k, 1) : packed_int8_bytes(1, k, 1);
    const size_t most = block_values(narrow), left = int8_row_bytes(k) - b * most;
    const unsigned char *block = packed + j * row + b * (2 * sizeof(float) + most);
    return (struct weight_block){.scale = packed_float(block),
                                 .sum = packed_float(block + 4),
                                 .values = (const int8_t *)block + 2 * sizeof(float),
                                 .length = left < most ? left : most};
}

/* Returns the largest sum of the numbers of one sign in a group of four (kernels.h, pack_narrow).
 */
static double largest_group(const double *w, size_t length) {
    double largest = 0;
    for (size_t eight = 0; eight < length; eight += 8) {
        double sums[2][2] = {{0}}; /* of numbers below and above 0, in either group */
        for (size_t c = eight; c < eight + 8 && c < length; c++)
            sums[c % 4 / 2][w[c] > 0] += fabs(w[c]);
        for (int i = 0; i < 4; i++)
            largest = fmax(largest, sums[i / 2][i % 2]);
    }
    return largest;
}

/* The scale is the one of kernels.h, every value is the nearest step, and sums are correct. */
static void check_block_rule(const struct weight_block *block, const float *w, size_t count,
                             bool narrow) {
    double weights[INT8_BLOCK], values[INT8_BLOCK];
    float largest = 0;
    int32_t sum = 0;
    for (size_t c = 0; c < count; c++) {
        largest = fmaxf(largest, fabsf(w[c]));
        weights[c] = (double)w[c];
    }
    double step = (double)largest / 127;
    if (narrow) {
        /* Each of four weights may be rounded up by 1/2. */
        step = fmax(step, largest_group(weights, count) / (NARROW_WEIGHTS - 2));
        assert_true(fabs((double)block->scale - step) <=
                    8 * ROUNDING * step + 8 * (double)FLT_TRUE_MIN);
    } else {
        assert_true(block->scale == largest / 127);
    }
    /* Numbers of up to 127 steps are rounded on the way, up to six times. Below 127 / FLT_MAX, or
     * with quarters four times that, no inverse exists. */
    const double slack = 0.5 + 127 * 6 * ROUNDING;
    const bool vanishes = largest < 4 * 127 / FLT_MAX;
    for (size_t c = 0; c < block->length; c++) {
        const int q = block->values[c];
        assert_true(q >= -127 && q <= 127 && (c < count || q == 0));
        if (c < count && !vanishes && block->scale > 0)
            assert_true(fabs((double)w[c] / step - q) <= slack);
        sum += q;
        values[c] = q;
    }
    assert_true(block->sum == (float)sum);
    assert_true(!narrow || largest_group(values, block->length) <= (double)NARROW_WEIGHTS);
}

/* A panel of many rows contains panels of one row, interleaved by fours, and zeros for missing
 * rows. */
static void check_panel(const unsigned char *packed, const unsigned char *single, size_t n,
                        size_t k, size_t panel, bool narrow) {
    const size_t panels = (n + panel - 1) / panel;
    const size_t bytes =
        narrow ? packed_narrow_bytes(panel, k, panel) : packed_int8_bytes(panel, k, panel);
    for (size_t j = 0; j < panels * panel; j++) {
        const unsigned char *block = packed + j / panel * bytes;
        for (size_t b = 0; b < blocks_of(k, narrow); b++) {
            const struct weight_block one = weight_block(single, k, j < n ? j : 0, b, narrow);
            const size_t in = j % panel;
            const float scale = packed_float(block + in * 4);
            const float sum = packed_float(block + (panel + in) * 4);
            assert_true(scale == (j < n ? one.scale : 0) && sum == (j < n ? one.sum : 0));
            const unsigned char *values = block + panel * 2 * sizeof(float);
            for (size_t c = 0; c < one.length; c++) {
                const int8_t q = (int8_t)values[(c / 4 * panel + in) * 4 + c % 4];
                assert_true(q == (j < n ? one.values[c] : 0));
            }
            block = values + panel * one.length;
        }
    }
}

static void check_pack_int8(size_t n, size_t k, size_t panel, enum fill kind, bool narrow) {
    const struct where where = {GEMM_INT8, kernels_at(0), panel, n, k, kind};
    const size_t ld = k + rng_below(&kernel_rng, 3), most = block_values(narrow);
    size_t (*const bytes)(size_t, size_t, size_t) =
        narrow ? packed_narrow_bytes : packed_int8_bytes;
    void (*const pack)(const float *, size_t, size_t, size_t, size_t, void *) =
        narrow ? pack_narrow : pack_int8;
    float *w = new_floats(n * k, kind);
    const float *rows = place_rows(SLOT_X, w, n, k, ld);
    unsigned char *single = place_anywhere(SLOT_W, bytes(n, k, 1));
    pack(rows, ld, n, k, 1, single);
    unsigned char *packed = place_anywhere(SLOT_Y, bytes(n, k, panel));
    pack(rows, ld, n, k, panel, packed);
    expect_intact(&where);
    for (size_t j = 0; kind < FILL_FINITE && j < n; j++)
        for (size_t b = 0; b < blocks_of(k, narrow); b++) {
            const struct weight_block block = weight_block(single, k, j, b, narrow);
            const size_t start = b * most, left = k - start;
            check_block_rule(&block, w + j * k + start, left < most ? left : most, narrow);
        }
    if (kind < FILL_FINITE)
        check_panel(packed, single, n, k, panel, narrow);
    free(w);
}

void test_pack_int8(void **state) {
    (void)state;
    static const size_t panels[] = {1, 4, 8, 16, 64};
    for (size_t p = 0; p < sizeof panels / sizeof *panels; p++)
        for (int kind = 0; kind <= FILL_SPECIAL; kind++)
            for (int i = 0; i < 8; i++)
                check_pack_int8(rng_range(&kernel_rng, 1, 2 * panels[p] + 1),
                                rng_range(&kernel_rng, 1, 270), panels[p], (enum fill)kind, i % 2);
}

/* ---- the product ---------------------------------------------------------------------------- */

/* Returns the sum of (q - zero) w over one block, which is a whole number. */
static double block_dot(const struct product *p, size_t i, size_t b, const struct weight_block *w) {
    const uint8_t *q = p->rows.q + i * int8_row_bytes(p->k) + b * block_values(p->narrow);
    const float zero = p->rows.zero[i * blocks_of(p->k, p->narrow) + b];
    int64_t sum = 0, weights = 0;
    for (size_t c = 0; c < w->length; c++) {
        sum += q[c] * w->values[c];
        weights += w->values[c];
    }
    return (double)sum - (double)zero * (double)weights;
}

/* Each block adds three roundings: of the product of the scales, of the block's term, and of the
 * sum. The error of a scale below FLT_MIN is a fixed step times the dot product. */
static void exact_element(const struct product *p, const unsigned char *single, size_t i, size_t j,
                          double *y, double *tolerance) {
    const size_t blocks = blocks_of(p->k, p->narrow);
    double sum = p->bias[j], magnitudes = 0, steps = 0;
    for (size_t b = 0; b < blocks; b++) {
        const struct weight_block w = weight_block(single, p->k, j, b, p->narrow);
        const double dot = block_dot(p, i, b, &w);
        const double term = dot * (double)p->rows.scale[i * blocks + b] * (double)w.scale;
        sum += term;
        magnitudes += 2 * fabs(term) + fabs(sum);
        steps += fabs(dot) + 2;
    }
    const double growth = 1 + 4 * ROUNDING * (double)(blocks + 1);
    *y = sum;
    *tolerance = ROUNDING * magnitudes * growth + steps * (double)FLT_TRUE_MIN;
}

static struct exact exact_product(const struct product *p) {
    const struct exact exact = new_exact(p->m, p->n);
    unsigned char *single =
        allocate(p->narrow ? packed_narrow_bytes(p->n, p->k, 1) : packed_int8_bytes(p->n, p->k, 1));
    (p->narrow ? pack_narrow : pack_int8)(p->w, p->k, p->n, p->k, 1, single);
    for (size_t i = 0; i < p->m; i++)
        for (size_t j = 0; j < p->n; j++)
            exact_element(p, single, i, j, &exact.y[i * p->n + j], &exact.tolerance[i * p->n + j]);
    free(single);
    return exact;
}

static void check_shape(size_t m, size_t n, size_t k, enum fill kind, bool swapped) {
    float *x = new_floats(m * k, swapped ? FILL_UNIFORM : kind);
    float *w = new_floats(n * k, swapped ? kind : FILL_UNIFORM);
    float *bias = new_floats(n, FILL_UNIFORM);
    float *small = swapped ? x : w;
    for (size_t i = 0; kind == FILL_LARGEST && i < (swapped ? m : n) * k; i++)
        small[i] /= (float)k;
    struct product product = {.m = m, .n = n, .k = k, .x = x, .w = w, .bias = bias};
    for (int narrow = 0; narrow < 2; narrow++) {
        product.narrow = narrow;
        product.rows = new_quantised(m, k, narrow);
        (narrow ? kernels_scalar.quantise_narrow : kernels_scalar.quantise)(x, m, k, product.rows);
        const struct exact exact = exact_product(&product);
        check_product(&product, &exact, kind);
        free_exact(exact);
        free_quantised(product.rows);
    }
    free(x);
    free(w);
    free(bias);
}

void test_gemm_int8_small_shapes(void **state) {
    (void)state;
    for (size_t n = 1; n <= 134; n++)
        for (size_t m = 1; m <= 13; m++)
            check_shape(m, n, rng_range(&kernel_rng, 1, 9), FILL_UNIFORM, false);
}

void test_gemm_int8_every_k(void **state) {
    (void)state;
    for (size_t k = 1; k <= 270; k++)
        check_shape(rng_range(&kernel_rng, 1, 13), rng_range(&kernel_rng, 1, 70), k, FILL_UNIFORM,
                    false);
}

void test_gemm_int8_random_shapes(void **state) {
    (void)state;
    for (int i = 0; i < 40; i++) {
        const size_t m = rng_range(&kernel_rng, 1, 60), n = rng_range(&kernel_rng, 1, 300);
        check_shape(m, n, rng_range(&kernel_rng, 1, 400), FILL_UNIFORM, false);
    }
    check_shape(300, 37, 65, FILL_UNIFORM, false);
}

/* Rows of more blocks than gemm_wide_template.h widens at a time. */
void test_gemm_int8_long_rows(void **state) {
    (void)state;
    for (size_t m = 1; m <= 5; m++)
        check_shape(m, rng_range(&kernel_rng, 1, 20), rng_range(&kernel_rng, 8200, 16500) / m,
                    FILL_UNIFORM, false);
}

void test_gemm_int8_extremes(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (int i = 0; i < 8; i++) {
            const size_t m = rng_range(&kernel_rng, 1, 13), n = rng_range(&kernel_rng, 1, 70);
            check_shape(m, n, rng_range(&kernel_rng, 1, 270), (enum fill)kind, i % 2);
        }
}

/* ---- saturation ----------------------------------------------------------------------------- */

/* Returns values up to `largest`. */
static uint8_t extreme_q(int kind, size_t i, uint8_t largest) {
    const uint8_t ends[2] = {0, largest};
    switch (kind) {
    case 0:
        return 0;
    case 1:
        return largest;
    case 2:
        return 128;
    case 3:
        return ends[i % 2];
    case 4:
        return ends[i / 4 % 2];
    default:
        return (uint8_t)rng_below(&kernel_rng, largest + UINT64_C(1));
    }
}

static float extreme_weight(int kind, size_t i) {
    switch (kind) {
    case 0:
        return 127;
    case 1:
        return -127;
    case 2:
        return i % 2 ? 127 : -127;
    default:
        return rng_coin(&kernel_rng) ? 127 : -127;
    }
}

/* Returns weight i of a row in whose groups of four (kernels.h, pack_narrow) weights of one sign
 * add up to as much as a scale of 1 allows. */
static float extreme_narrow_weight(int kind, size_t i) {
    const float rest = NARROW_WEIGHTS - 2 - 127;
    const size_t place = i % 2 + i % 8 / 4 * 2; /* in the group */
    const float alternating = i % 2 ? 1 : -1;
    if (kind == 3)
        return alternating * (place < 2 ? 127 : rest);
    const float sign = kind == 0 || (kind == 2 && i / 8 % 2) ? 1 : -1;
    return sign * (place == 0 ? 127 : place == 3 ? rest : 0);
}

/* With whole weights of up to 127, scales of 1 and few blocks, all numbers are whole and
 * below 2^24, so that the result must be exact. */
static void check_exact(size_t m, size_t n, size_t k, int q_kind, int w_kind, bool narrow) {
    static const float zeros[] = {0, 255, 128, 1};
    float *w = allocate(n * k * sizeof *w), *bias = new_floats(n, FILL_ZERO);
    struct product product = {.m = m, .n = n, .k = k, .w = w, .bias = bias, .narrow = narrow};
    product.rows = new_quantised(m, k, narrow);
    const float zero = zeros[rng_below(&kernel_rng, 4)];
    for (size_t i = 0; i < n * k; i++)
        w[i] = narrow ? extreme_narrow_weight(w_kind, i % k) : extreme_weight(w_kind, i);
    for (size_t i = 0; i < m * blocks_of(k, narrow); i++) {
        product.rows.scale[i] = 1;
        product.rows.zero[i] = zero;
    }
    for (size_t i = 0; i < m * int8_row_bytes(k); i++)
        product.rows.q[i] =
            extreme_q(q_kind, i % int8_row_bytes(k), narrow ? NARROW_STEPS + 1 : 255);
    const struct exact exact = exact_product(&product);
    for (size_t i = 0; i < m * n; i++)
        exact.tolerance[i] = 0;
    check_product(&product, &exact, FILL_FINITE);
    free_exact(exact);
    free_quantised(product.rows);
    free(w);
    free(bias);
}

void test_gemm_int8_never_saturates(void **state) {
    (void)state;
    for (int q = 0; q <= 5; q++)
        for (int w = 0; w <= 3; w++)
            for (int i = 0; i < 6; i++)
                check_exact(rng_range(&kernel_rng, 1, 13), rng_range(&kernel_rng, 1, 70),
                            i < 2 ? 512 : rng_range(&kernel_rng, 1, 512), q, w, i % 2);
}

/* ---- NaN and infinities --------------------------------------------------------------------- */

void test_gemm_int8_special_values(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        const size_t m = rng_range(&kernel_rng, 1, 13), n = rng_range(&kernel_rng, 1, 70);
        const size_t k = rng_range(&kernel_rng, 1, 150);
        float *w = new_floats(n * k, FILL_SPECIAL), *bias = new_floats(n, FILL_SPECIAL);
        struct product product = {.m = m, .n = n, .k = k, .w = w, .bias = bias};
        product.narrow = i % 2;
        product.rows = new_quantised(m, k, product.narrow);
        fill_floats(product.rows.scale, m * blocks_of(k, product.narrow), FILL_SPECIAL);
        fill_floats(product.rows.zero, m * blocks_of(k, product.narrow), FILL_SPECIAL);
        for (size_t c = 0; c < m * int8_row_bytes(k); c++)
            product.rows.q[c] = (uint8_t)rng_below(&kernel_rng, 256);
        for (size_t s = 0; kernels_at(s); s++) {
            const struct where where = {
                product_kernel(&product), kernels_at(s), m, n, k, FILL_SPECIAL};
            if (!has_gemm(where.set, where.kernel))
                continue;
            const struct gemm_call call = place_gemm(where.set, &product);
            call_gemm(where.set, &call);
            expect_intact(&where);
            expect_padding(&where, call.y, m, n, call.ldy);
        }
        free_quantised(product.rows);
        free(w);
        free(bias);
    }
}
