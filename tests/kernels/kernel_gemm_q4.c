/* SPDX-License-Identifier: Apache-2.0
 * Checks of gemm_q4 and of the packing that it needs. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "base/half.h"
#include "kernel_case.h"
#include "kernels/weights.h"
#include "quant/codecs.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { STORED_BYTES = 18 }; /* of a Q4_0 block */

/* Return weight c of a row of blocks as a whole number, and the scale of its block. */
static int stored_weight(const unsigned char *row, size_t c) {
    const unsigned char *nibbles = row + c / Q4_BLOCK * STORED_BYTES + 2;
    const size_t in = c % Q4_BLOCK;
    return (in < 16 ? nibbles[in] & 15 : nibbles[in - 16] >> 4) - 8;
}

static float stored_scale(const unsigned char *row, size_t part) {
    return float_of_half(load_u16(row + part * STORED_BYTES));
}

/* Returns n rows of k weights of a kind, as Q4_0 blocks. The caller frees them. */
static unsigned char *new_blocks(size_t n, size_t k, enum fill kind) {
    float *w = new_floats(n * k, kind);
    unsigned char *blocks = allocate(n * k / Q4_BLOCK * STORED_BYTES);
    for (size_t i = 0; i < n * k; i++) /* what 16 bits hold */
        w[i] = fminf(fmaxf(w[i], -30000), 30000);
    quantise_q4_0_fitted(w, n * k, blocks);
    free(w);
    return blocks;
}

/* ---- packing -------------------------------------------------------------------------------- */

static void check_pack(size_t n, size_t k, size_t panel) {
    const struct where where = {GEMM_Q4, kernels_at(0), panel, n, k, FILL_UNIFORM};
    unsigned char *rows = new_blocks(n, k, FILL_UNIFORM);
    const size_t row_bytes = k / Q4_BLOCK * STORED_BYTES;
    const size_t panels = (n + panel - 1) / panel;
    unsigned char *stored = place_anywhere(SLOT_X, n * row_bytes);
    unsigned char *packed = place_anywhere(SLOT_W, packed_q4_bytes(n, k, panel));
    memcpy(stored, rows, n * row_bytes);
    pack_q4(stored, n, k, panel, packed);
    expect_intact(&where);
    for (size_t j = 0; j < panels * panel; j++) {
        const unsigned char *row = rows + (j < n ? j : 0) * row_bytes;
        const unsigned char *block = packed + j / panel * packed_q4_bytes(panel, k, panel);
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            const size_t length = k - start < INT8_BLOCK ? k - start : INT8_BLOCK;
            const float held = packed_float(block + j % panel * 4);
            const unsigned char *part = block + panel * 4;
            float sum = 0;
            for (size_t p = start / Q4_BLOCK; p < (start + length) / Q4_BLOCK; p++) {
                int weights = 0;
                for (size_t c = 0; c < Q4_BLOCK; c++) {
                    const size_t at = c % 16;
                    const unsigned char two =
                        part[panel * 2 + (at / 4 * panel + j % panel) * 4 + at % 4];
                    const int nibble = c < 16 ? two & 15 : two >> 4;
                    const int want = j < n ? stored_weight(row, p * Q4_BLOCK + c) : 0;
                    assert_int_equal(nibble < 8 ? nibble : nibble - 16, want);
                    weights += want;
                }
                const float scale = j < n ? stored_scale(row, p) : 0;
                assert_true(float_of_half(load_u16(part + j % panel * 2)) == scale);
                sum += scale * (float)weights;
                part += panel * Q4_BLOCK_BYTES;
            }
            assert_true(held == sum);
            block = part;
        }
    }
    free(rows);
}

void test_pack_q4(void **state) {
    (void)state;
    static const size_t panels[] = {1, 4, 8, 16, 32};
    for (size_t p = 0; p < sizeof panels / sizeof *panels; p++)
        for (int i = 0; i < 8; i++)
            check_pack(rng_range(&kernel_rng, 1, 2 * panels[p] + 1),
                       Q4_BLOCK * rng_range(&kernel_rng, 1, 10), panels[p]);
}

/* ---- the product ---------------------------------------------------------------------------- */

/* Each part of a block adds the rounding of its product and of the sum. Each block adds those of
 * zero times the sum of weights (itself rounded four times), of the difference, of the product with
 * the scale and of the total. A scale below FLT_MIN is off by a fixed step. */
static void exact_element(const struct product *p, size_t i, size_t j, double *y,
                          double *tolerance) {
    const size_t blocks = int8_blocks(p->k), row_bytes = p->k / Q4_BLOCK * STORED_BYTES;
    const unsigned char *row = (const unsigned char *)p->stored + j * row_bytes;
    double sum = p->bias[j], magnitudes = fabs(sum), steps = 0;
    for (size_t b = 0; b < blocks; b++) {
        const double xs = (double)p->rows.scale[i * blocks + b];
        const double zero = (double)p->rows.zero[i * blocks + b];
        double block = 0, most = 0;
        for (size_t c = b * INT8_BLOCK; c < p->k && c < (b + 1) * INT8_BLOCK; c += Q4_BLOCK) {
            const double scale = (double)stored_scale(row, c / Q4_BLOCK);
            int64_t dot = 0, weights = 0;
            for (size_t d = c; d < c + Q4_BLOCK; d++) {
                dot += p->rows.q[i * p->k + d] * stored_weight(row, d);
                weights += stored_weight(row, d);
            }
            /* Sets with signed activations add 128 to both or to neither. */
            block += scale * ((double)dot - zero * (double)weights);
            most +=
                fabs(scale) * (fabs((double)dot) + (fabs(zero) + 128) * (fabs((double)weights)));
        }
        sum += xs * block;
        magnitudes += 8 * xs * most + fabs(sum);
        steps += most + 2;
    }
    *y = sum;
    *tolerance = 2 * ROUNDING * magnitudes + 32 * steps * (double)FLT_TRUE_MIN;
}

static void check_blocks(struct product *product, enum fill kind) {
    const size_t m = product->m, n = product->n;
    const struct exact exact = new_exact(m, n);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            exact_element(product, i, j, &exact.y[i * n + j], &exact.tolerance[i * n + j]);
    check_product(product, &exact, kind);
    free_exact(exact);
}

static void check_shape(size_t m, size_t n, size_t parts, enum fill kind, bool swapped) {
    const size_t k = parts * Q4_BLOCK;
    float *x = new_floats(m * k, swapped ? FILL_UNIFORM : kind);
    unsigned char *stored = new_blocks(n, k, swapped ? kind : FILL_UNIFORM);
    float *bias = new_floats(n, FILL_UNIFORM);
    for (size_t i = 0; kind == FILL_LARGEST && !swapped && i < m * k; i++)
        x[i] /= 100 * (float)k;
    struct product product = {.m = m, .n = n, .k = k, .bias = bias, .stored = stored};
    product.rows = new_quantised(m, k, false);
    kernels_scalar.quantise(x, m, k, product.rows);
    check_blocks(&product, kind);
    free_quantised(product.rows);
    free(x);
    free(stored);
    free(bias);
}

void test_gemm_q4_small_shapes(void **state) {
    (void)state;
    for (size_t n = 1; n <= 70; n++)
        for (size_t m = 1; m <= 13; m++)
            check_shape(m, n, rng_range(&kernel_rng, 1, 3), FILL_UNIFORM, false);
}

void test_gemm_q4_random_shapes(void **state) {
    (void)state;
    for (size_t parts = 1; parts <= 20; parts++)
        check_shape(rng_range(&kernel_rng, 1, 60), rng_range(&kernel_rng, 1, 300), parts,
                    FILL_UNIFORM, false);
}

void test_gemm_q4_extremes(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (int i = 0; i < 8; i++)
            check_shape(rng_range(&kernel_rng, 1, 13), rng_range(&kernel_rng, 1, 70),
                        rng_range(&kernel_rng, 1, 9), (enum fill)kind, i % 2);
}

/* ---- saturation ----------------------------------------------------------------------------- */

/* Multiplies the least and largest activations by weights of -8 and 7 with scales of 1. All numbers
 * are whole and below 2^24, so that the result must be exact. */
static void check_exact(size_t m, size_t n, size_t k, int kind) {
    static const float zeros[] = {0, 255, 128, 1};
    float *bias = new_floats(n, FILL_ZERO);
    unsigned char *stored = allocate(n * k / Q4_BLOCK * STORED_BYTES);
    struct product product = {.m = m, .n = n, .k = k, .bias = bias, .stored = stored};
    const float zero = zeros[rng_below(&kernel_rng, 4)];
    product.rows = new_quantised(m, k, false);
    for (size_t i = 0; i < n * k / Q4_BLOCK * STORED_BYTES; i++)
        stored[i] = kind == 0   ? 0x00
                    : kind == 1 ? 0xff
                                : (unsigned char)rng_below(&kernel_rng, 256);
    for (size_t i = 0; i < n * k / Q4_BLOCK; i++)
        memcpy(stored + i * STORED_BYTES, (const unsigned char[]){0x00, 0x3c}, 2); /* 1 */
    for (size_t i = 0; i < m * int8_blocks(k); i++) {
        product.rows.scale[i] = 1;
        product.rows.zero[i] = zero;
    }
    for (size_t i = 0; i < m * k; i++)
        product.rows.q[i] = rng_below(&kernel_rng, 8) ? 255 : 0;
    const struct exact exact = new_exact(m, n);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            exact_element(&product, i, j, &exact.y[i * n + j], &exact.tolerance[i * n + j]);
            exact.tolerance[i * n + j] = 0;
        }
    check_product(&product, &exact, FILL_UNIFORM);
    free_exact(exact);
    free_quantised(product.rows);
    free(stored);
    free(bias);
}

void test_gemm_q4_never_saturates(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < 10; i++)
            check_exact(rng_range(&kernel_rng, 1, 13), rng_range(&kernel_rng, 1, 70),
                        Q4_BLOCK * rng_range(&kernel_rng, 1, 9), kind);
}
