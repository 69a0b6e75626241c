/* SPDX-License-Identifier: Apache-2.0
 * Checks of gemm_q4_1, the products of K-quants, of five bits, of weights that name levels and of
 * ternary weights, of the packing that they need, and of sum_parts. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernel_case.h"
#include "kernels/weights.h"
#include "quant/blocks.h"
#include "quant/codecs.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

/* Weights by what the file says of them, in doubles: d q + offset for each. */
struct weights {
    double *scale, *offset; /* [n, k / Q4_BLOCK]: of d (q - 8) + offset */
    double *value;          /* [n, k] */
};

static const struct block_format *format_of(enum kernel kernel) {
    return block_format_by_id(kernel == GEMM_Q4_1     ? BLOCK_Q4_1
                              : kernel == GEMM_Q2_K   ? BLOCK_Q2_K
                              : kernel == GEMM_Q3_K   ? BLOCK_Q3_K
                              : kernel == GEMM_Q4_K   ? BLOCK_Q4_K
                              : kernel == GEMM_Q5_K   ? BLOCK_Q5_K
                              : kernel == GEMM_Q6_K   ? BLOCK_Q6_K
                              : kernel == GEMM_Q5_0   ? BLOCK_Q5_0
                              : kernel == GEMM_Q5_1   ? BLOCK_Q5_1
                              : kernel == GEMM_Q2_0   ? BLOCK_Q2_0
                              : kernel == GEMM_PQ2_0  ? BLOCK_PQ2_0
                              : kernel == GEMM_IQ4_NL ? BLOCK_IQ4_NL
                              : kernel == GEMM_IQ4_XS ? BLOCK_IQ4_XS
                              : kernel == GEMM_MXFP4  ? BLOCK_MXFP4
                              : kernel == GEMM_I2_S   ? BLOCK_F32
                                                      : BLOCK_TQ2_0);
}

/* Returns the number of weights of which k is a multiple. */
static size_t step_of(enum kernel kernel) {
    return kernel == GEMM_I2_S ? INT8_BLOCK : format_of(kernel)->elements;
}

/* Reads the scale and the offset of part p of a row, of which codes are -8..7; of types of five
 * bits, whose codes are -16..15, twice the scale; of Q6_K and Q3_K, whose codes are -32..31 and
 * -4..3, four times and half of the larger scale of the two halves; of Q2_K, whose codes are 0..3,
 * half of the scale and an eighth of the minimum together; of ternary weights, whose codes are
 * -1..2, a 64th of the scale, as only the sums of their exact parts are rounded; of I2_S a 64th of
 * the largest weight of the row's first block, which is its scale; of levels, of magnitudes of up
 * to 127 and 12, 16 and 2 scales. */
static void read_part(enum kernel kernel, const unsigned char *row, size_t p, double *scale,
                      double *offset) {
    if (kernel == GEMM_Q4_1) {
        const unsigned char *block = row + p * 20;
        *scale = (double)float_of_half(load_u16(block));
        *offset = 8 * *scale + (double)float_of_half(load_u16(block + 2));
        return;
    }
    if (kernel == GEMM_I2_S) {
        *scale = *offset = 0;
        for (size_t c = 0; c < INT8_BLOCK; c++)
            *scale = fmax(*scale, fabs((double)packed_float(row + c * sizeof(float))) / 64);
        return;
    }
    if (kernel == GEMM_TERNARY || kernel == GEMM_Q2_0 || kernel == GEMM_PQ2_0) {
        const size_t at = kernel == GEMM_TERNARY ? p / 8 * 66 + 64
                          : kernel == GEMM_Q2_0  ? p / 2 * 18
                                                 : p / 4 * 34;
        *scale = fabs((double)half_at(row + at)) / 64;
        *offset = 0;
        return;
    }
    if (kernel == GEMM_Q5_0 || kernel == GEMM_Q5_1) {
        const unsigned char *block = row + p * (kernel == GEMM_Q5_0 ? 22 : 24);
        *scale = 2 * (double)half_at(block);
        *offset = kernel == GEMM_Q5_0 ? 0 : 8 * *scale + (double)half_at(block + 2);
        return;
    }
    if (kernel == GEMM_IQ4_NL || kernel == GEMM_IQ4_XS || kernel == GEMM_MXFP4) {
        const unsigned char *block = row + p / 8 * 136;
        *scale = kernel == GEMM_IQ4_NL ? 16 * fabs((double)half_at(row + p * 18))
                 : kernel == GEMM_IQ4_XS
                     ? 16 * fabs((double)half_at(block)) * abs(iq4_xs_scale(block, (int)(p % 8)))
                     : 2 * (double)mxfp4_scale(row[p * 17]);
        *offset = 0;
        return;
    }
    if (kernel == GEMM_Q6_K || kernel == GEMM_Q3_K) {
        const unsigned char *block = row + p / 8 * (kernel == GEMM_Q6_K ? 210 : 110);
        double largest = 0;
        for (size_t h = p % 8 * 2; h < p % 8 * 2 + 2; h++)
            largest = fmax(largest, abs(kernel == GEMM_Q6_K ? (signed char)block[192 + h]
                                                            : q3_k_scale(block + 96, (int)h)));
        *scale = (double)half_at(block + (kernel == GEMM_Q6_K ? 208 : 108)) * largest *
                 (kernel == GEMM_Q6_K ? 4 : 0.5);
        *offset = 0;
        return;
    }
    if (kernel == GEMM_Q2_K) {
        const unsigned char *block = row + p / 8 * 84, *bytes = block + p % 8 * 2;
        const double d = fabs((double)half_at(block + 80)),
                     dmin = fabs((double)half_at(block + 82));
        *scale = fmax(d / 2 * (bytes[0] & 15) + dmin / 8 * (bytes[0] >> 4),
                      d / 2 * (bytes[1] & 15) + dmin / 8 * (bytes[1] >> 4));
        *offset = 0;
        return;
    }
    const size_t factor = kernel == GEMM_Q5_K ? 2 : 1;
    const unsigned char *block = row + p / 8 * (kernel == GEMM_Q5_K ? 176 : 144);
    const struct scale_and_min codes = scale_and_min_at(block + 4, (int)(p % 8));
    *scale = (double)factor * (double)half_at(block) * codes.scale;
    *offset = 8 * *scale - (double)half_at(block + 2) * codes.min;
}

static struct weights new_weights(enum kernel kernel, const unsigned char *stored, size_t n,
                                  size_t k) {
    const struct block_format *format = format_of(kernel);
    const size_t parts = k / Q4_BLOCK, row_bytes = k / format->elements * format->bytes;
    struct weights w = {.scale = allocate(n * parts * sizeof(double)),
                        .offset = allocate(n * parts * sizeof(double)),
                        .value = allocate(n * k * sizeof(double))};
    float *values = allocate(n * k * sizeof *values);
    format->dequantise(stored, n * k, values);
    for (size_t i = 0; i < n * parts; i++)
        read_part(kernel, stored + i / parts * row_bytes, i % parts, &w.scale[i], &w.offset[i]);
    for (size_t i = 0; i < n * k; i++)
        w.value[i] = (double)values[i];
    free(values);
    return w;
}

static void free_weights(struct weights w) {
    free(w.scale);
    free(w.offset);
    free(w.value);
}

/* The exact sum is that of x w over the values of the file. Every part adds the roundings of its
 * two products and two sums, and of the weights themselves, which may be a difference of two larger
 * numbers; each block those of zero times the sum of weights, of the product with the scale and of
 * the total. The values of the file are floats, so each adds its own rounding to the exact sum. */
static void exact_element(const struct product *p, const struct weights *w, size_t i, size_t j,
                          double *y, double *tolerance) {
    const size_t blocks = int8_blocks(p->k), parts = p->k / Q4_BLOCK;
    double sum = p->bias[j], magnitudes = fabs(sum), steps = 0;
    for (size_t b = 0; b < blocks; b++) {
        const double xs = (double)p->rows.scale[i * blocks + b];
        const double zero = (double)p->rows.zero[i * blocks + b];
        double block = 0, most = 0, rounded = 0;
        for (size_t c = b * INT8_BLOCK; c < p->k && c < (b + 1) * INT8_BLOCK; c += Q4_BLOCK) {
            const double scale = w->scale[j * parts + c / Q4_BLOCK];
            const double offset = w->offset[j * parts + c / Q4_BLOCK];
            double centred = 0, reach = 0;
            for (size_t d = c; d < c + Q4_BLOCK; d++) {
                const double x = (double)p->rows.q[i * p->k + d] - zero;
                block += x * w->value[j * p->k + d];
                rounded += fabs(x * w->value[j * p->k + d]);
                centred += x;
                reach += fabs(x) + fabs(zero) + 128;
            }
            most += 8 * fabs(scale) * reach + (fabs(offset) + 16 * fabs(scale)) * fabs(centred);
        }
        sum += xs * block;
        magnitudes += 8 * xs * most + xs * rounded / 2 + fabs(sum);
        steps += most + 2;
    }
    *y = sum;
    *tolerance = 2 * ROUNDING * magnitudes + 32 * steps * (double)FLT_TRUE_MIN;
}

static void check(struct product *product, enum fill kind, bool exactly) {
    const size_t m = product->m, n = product->n;
    const struct weights w = new_weights(product->blocks, product->stored, n, product->k);
    const struct exact exact = new_exact(m, n);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            exact_element(product, &w, i, j, &exact.y[i * n + j], &exact.tolerance[i * n + j]);
            if (exactly)
                exact.tolerance[i * n + j] = 0;
        }
    check_product(product, &exact, kind);
    free_exact(exact);
    free_weights(w);
}

/* Makes rows of 0, d and -d of n weights, if d is the size of a row's first weight, and the
 * first weight of the row that is stored. */
static void write_ternary_rows(const float *w, size_t n, size_t k, unsigned char *stored) {
    for (size_t i = 0; i < n; i++) {
        const float value = i % k == 0
                                ? fabsf(w[i])
                                : fabsf(w[i - i % k]) * (float)((int)rng_below(&kernel_rng, 3) - 1);
        memcpy(stored + i * sizeof value, &value, sizeof value);
    }
}

/* Returns the byte of a block where its scale is, and after it the minimum, if it has one. */
static size_t halves_of(const struct block_format *format) {
    const bool last =
        format->id == BLOCK_Q3_K || format->id == BLOCK_Q6_K || format->id == BLOCK_TQ2_0;
    return last ? format->bytes - 2 : format->id == BLOCK_Q2_K ? format->bytes - 4 : 0;
}

/* Returns whether a block has a minimum, which follows its scale. */
static bool has_minimum(const struct block_format *format) {
    return format->id == BLOCK_Q4_1 || format->id == BLOCK_Q5_1 || format->id == BLOCK_Q2_K ||
           format->id == BLOCK_Q4_K || format->id == BLOCK_Q5_K;
}

/* Quantises weights. WebAssembly has no quantisers, nor have types that are only read: there codes
 * are random, and scales and minima are the first two weights of each block. The scale of MXFP4 is
 * half of the power of two below. */
static void write_blocks(const struct block_format *format, const float *w, size_t n,
                         unsigned char *stored) {
    if (format->quantise) {
        format->quantise(w, n, stored);
        return;
    }
    for (size_t i = 0; i < n; i += format->elements, stored += format->bytes) {
        for (size_t j = 0; j < format->bytes; j++)
            stored[j] = (unsigned char)rng_below(&kernel_rng, 256);
        unsigned char *halves = stored + halves_of(format);
        if (format->id == BLOCK_MXFP4) {
            stored[0] = (unsigned char)(bits_of_float(w[i]) >> 23 & 255);
            continue;
        }
        store_half(w[i], halves);
        if (has_minimum(format))
            store_half(w[i + 1], halves + 2);
    }
}

static void check_shape(enum kernel kernel, size_t m, size_t n, size_t blocks, enum fill kind,
                        bool swapped) {
    const struct block_format *format = format_of(kernel);
    const size_t k = blocks * step_of(kernel);
    float *x = new_floats(m * k, swapped ? FILL_UNIFORM : kind);
    float *w = new_floats(n * k, swapped ? kind : FILL_UNIFORM),
          *bias = new_floats(n, FILL_UNIFORM);
    unsigned char *stored = allocate(n * k / format->elements * format->bytes);
    for (size_t i = 0; i < n * k; i++) /* scales are 16-bit floats */
        w[i] = fminf(fmaxf(w[i], -30000), 30000);
    /* Weights of random codes have magnitudes of up to 128 * 32, so that no sum overflows. */
    for (size_t i = 0; kind == FILL_LARGEST && !swapped && i < m * k; i++)
        x[i] /= 10000 * (float)k;
    if (kernel == GEMM_I2_S)
        write_ternary_rows(w, n * k, k, stored);
    else
        write_blocks(format, w, n * k, stored);
    struct product product = {
        .m = m, .n = n, .k = k, .bias = bias, .stored = stored, .blocks = kernel};
    product.rows = new_quantised(m, k, false);
    kernels_scalar.quantise(x, m, k, product.rows);
    check(&product, kind, false);
    free_quantised(product.rows);
    free(x);
    free(w);
    free(bias);
    free(stored);
}

static void skip_without(enum kernel kernel) {
    for (size_t s = 0; kernels_at(s); s++)
        if (has_gemm(kernels_at(s), kernel))
            return;
    puts("skipped: no kernel set that runs here has a product with these weights");
    skip();
}

static void check_kernel(enum kernel kernel) {
    skip_without(kernel);
    const bool is_short = step_of(kernel) < INT8_BLOCK; /* blocks of activations may be shorter */
    const size_t longest = is_short ? 12 : 3;
    for (size_t n = 1; n <= 70; n++)
        check_shape(kernel, rng_range(&kernel_rng, 1, 13), n,
                    rng_range(&kernel_rng, 1, is_short ? 5 : 1), FILL_UNIFORM, false);
    for (size_t blocks = 1; blocks <= longest; blocks++)
        check_shape(kernel, rng_range(&kernel_rng, 1, 40), rng_range(&kernel_rng, 1, 200), blocks,
                    FILL_UNIFORM, false);
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (int i = 0; i < 4; i++)
            check_shape(kernel, rng_range(&kernel_rng, 1, 13), rng_range(&kernel_rng, 1, 70),
                        rng_range(&kernel_rng, 1, 2), (enum fill)kind, i % 2);
}

void test_gemm_q4_1(void **state) {
    (void)state;
    check_kernel(GEMM_Q4_1);
}

void test_gemm_q4_k(void **state) {
    (void)state;
    check_kernel(GEMM_Q4_K);
}

void test_gemm_q2_k(void **state) {
    (void)state;
    check_kernel(GEMM_Q2_K);
}

void test_gemm_q3_k(void **state) {
    (void)state;
    check_kernel(GEMM_Q3_K);
}

void test_gemm_q5_k(void **state) {
    (void)state;
    check_kernel(GEMM_Q5_K);
}

void test_gemm_q6_k(void **state) {
    (void)state;
    check_kernel(GEMM_Q6_K);
}

void test_gemm_q5_0(void **state) {
    (void)state;
    check_kernel(GEMM_Q5_0);
}

void test_gemm_q5_1(void **state) {
    (void)state;
    check_kernel(GEMM_Q5_1);
}

void test_gemm_iq4_nl(void **state) {
    (void)state;
    check_kernel(GEMM_IQ4_NL);
}

void test_gemm_iq4_xs(void **state) {
    (void)state;
    check_kernel(GEMM_IQ4_XS);
}

void test_gemm_mxfp4(void **state) {
    (void)state;
    check_kernel(GEMM_MXFP4);
}

/* ---- packing of weights that name levels ----------------------------------------------------- */

/* Packs rows of random blocks, whose scales are finite, and compares what the panels say of each
 * weight with the values of the file. */
static void check_packed_levels(enum kernel kernel, size_t n, size_t k, size_t panel) {
    const struct where where = {kernel, kernels_at(0), panel, n, k, FILL_UNIFORM};
    const struct block_format *format = format_of(kernel);
    const bool is_xs = kernel == GEMM_IQ4_XS;
    const signed char *levels = kernel == GEMM_MXFP4 ? mxfp4_doubled : iq4_levels;
    const size_t header_bytes = is_xs ? 6 : 4, scale_bytes = is_xs ? 1 : 2;
    const size_t part_bytes = scale_bytes + 16, row_bytes = k / format->elements * format->bytes;
    const size_t bytes = (n + panel - 1) / panel * panel *
                         (int8_blocks(k) * header_bytes + k / Q4_BLOCK * part_bytes);
    unsigned char *rows = place_anywhere(SLOT_X, n * row_bytes);
    unsigned char *packed = place_anywhere(SLOT_W, bytes);
    float *values = allocate(n * k * sizeof *values);
    for (size_t i = 0; i < n * row_bytes; i++)
        rows[i] = (unsigned char)rng_below(&kernel_rng, 256);
    for (size_t i = 0; kernel != GEMM_MXFP4 && i < n * row_bytes; i += format->bytes)
        rows[i + 1] &= 0xbb; /* a half below 1 */
    for (size_t i = 0; kernel == GEMM_MXFP4 && i < n * row_bytes; i += format->bytes)
        rows[i] = (unsigned char)rng_below(&kernel_rng, 250);
    format->dequantise(rows, n * k, values);
    assert_int_equal(kernel == GEMM_MXFP4 ? packed_mxfp4_bytes(n, k, panel)
                     : is_xs              ? packed_iq4_xs_bytes(n, k, panel)
                                          : packed_iq4_nl_bytes(n, k, panel),
                     bytes);
    (kernel == GEMM_MXFP4 ? pack_mxfp4
     : is_xs              ? pack_iq4_xs
                          : pack_iq4_nl)(rows, n, k, panel, packed);
    expect_intact(&where);
    const unsigned char *block = packed;
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            const unsigned char *part = block + panel * header_bytes;
            float sums[32] = {0};
            for (size_t c = start; c < k && c < start + INT8_BLOCK; c += Q4_BLOCK) {
                for (size_t j = 0; j < panel && first + j < n; j++) {
                    const float *row = values + (first + j) * k + c;
                    const float scale =
                        kernel == GEMM_MXFP4 ? float_of_bits((uint32_t)load_u16(part + j * 2) << 16)
                        : is_xs ? half_at(block + panel * 4 + j * 2) * (float)(part[j] - 32)
                                : half_at(part + j * 2);
                    int sum = 0;
                    for (size_t d = 0; d < Q4_BLOCK; d++) {
                        const unsigned char two =
                            part[panel * scale_bytes + (d % 16 / 4 * panel + j) * 4 + d % 4];
                        const int level = levels[d < 16 ? two & 15 : two >> 4];
                        assert_true(scale * (float)level == row[d]);
                        sum += level;
                    }
                    sums[j] += scale * (float)sum;
                }
                part += panel * part_bytes;
            }
            for (size_t j = 0; j < panel; j++)
                assert_true(packed_float(block + j * 4) == sums[j]);
            block = part;
        }
    free(values);
}

void test_pack_levels(void **state) {
    (void)state;
    static const size_t panels[] = {1, 4, 8, 16, 32};
    for (size_t p = 0; p < sizeof panels / sizeof *panels; p++)
        for (int i = 0; i < 4; i++) {
            const size_t n = rng_range(&kernel_rng, 1, 2 * panels[p] + 1);
            check_packed_levels(GEMM_IQ4_NL, n, Q4_BLOCK * rng_range(&kernel_rng, 1, 10),
                                panels[p]);
            check_packed_levels(GEMM_MXFP4, n, Q4_BLOCK * rng_range(&kernel_rng, 1, 10), panels[p]);
            check_packed_levels(GEMM_IQ4_XS, n, K_BLOCK * rng_range(&kernel_rng, 1, 2), panels[p]);
        }
}

/* ---- packing of ternary weights -------------------------------------------------------------- */

/* Types of ternary weights: the function that packs them, and the bytes that it packs. */
static const struct ternary {
    enum block_type type;
    void (*pack)(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
    size_t (*bytes)(size_t n, size_t k, size_t panel);
} ternary_types[] = {{BLOCK_TQ1_0, pack_tq1_0, packed_ternary_bytes},
                     {BLOCK_TQ2_0, pack_tq2_0, packed_ternary_bytes},
                     {BLOCK_T158, pack_bitnet_t158, packed_ternary_bytes},
                     {BLOCK_Q1_0, pack_q1_0, packed_pq2_0_bytes},
                     {BLOCK_PQ2_0, pack_pq2_0, packed_pq2_0_bytes},
                     {BLOCK_Q2_0, pack_q2_0, packed_q2_0_bytes}};

enum { TERNARY_TYPES = sizeof ternary_types / sizeof *ternary_types };

/* Returns the code of element i of a block. */
static int stored_code(enum block_type type, const unsigned char *block, size_t i) {
    if (type == BLOCK_Q1_0)
        return block[2 + i / 8] >> i % 8 & 1 ? 2 : 0;
    if (type == BLOCK_PQ2_0 || type == BLOCK_Q2_0)
        return block[2 + i / 4] >> i % 4 * 2 & 3;
    if (type == BLOCK_T158)
        return block[i / 4] >> i % 4 * 2 & 3;
    if (type == BLOCK_TQ2_0)
        return block[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    /* The digits of 160 elements are in 32 bytes, of 80 in 16 and of 16 in 4. */
    const size_t bytes = i < 160   ? 32
                         : i < 240 ? 16
                                   : 4,
                 at = i - (i < 160   ? 0
                           : i < 240 ? 160
                                     : 240);
    int fraction = block[(i < 160 ? 0 : i < 240 ? 32 : 48) + at % bytes];
    for (size_t digit = 0; digit < at / bytes; digit++)
        fraction = fraction * 3 % 256;
    return fraction * 3 / 256;
}

/* Compares row j of a panel's block with the stored block. */
static void expect_packed(const struct block_format *format, const unsigned char *stored,
                          const unsigned char *block, size_t panel, size_t j) {
    const enum block_type type = (enum block_type)format->id;
    const size_t length = format->elements < 128 ? format->elements : 128;
    const bool scale_first = type == BLOCK_Q1_0 || type == BLOCK_PQ2_0 || type == BLOCK_Q2_0;
    assert_memory_equal(block + j * 2, stored + (scale_first ? 0 : format->bytes - 2), 2);
    for (size_t start = 0; start < format->elements; start += length) {
        const unsigned char *part = block + panel * (2 + start / length * (2 + length / 4));
        int sum = 0;
        for (size_t c = 0; c < length; c++) {
            const unsigned char four = part[panel * 2 + (c / 16 * panel + j) * 4 + c % 4];
            const int code = four >> c % 16 / 4 * 2 & 3;
            assert_int_equal(code, stored_code(type, stored, start + c));
            sum += code - 1;
        }
        assert_true(half_at(part + j * 2) == (float)sum);
    }
}

static void check_pack(const struct ternary *ternary, size_t n, size_t blocks, size_t panel) {
    const struct block_format *format = block_format_by_id(ternary->type);
    const size_t k = blocks * format->elements, row_bytes = blocks * format->bytes;
    const struct where where = {GEMM_TERNARY, kernels_at(0), panel, n, k, FILL_UNIFORM};
    const size_t bytes = ternary->bytes(n, k, panel);
    const size_t block_bytes = ternary->bytes(panel, format->elements, panel);
    unsigned char *rows = place_anywhere(SLOT_X, n * row_bytes);
    unsigned char *packed = place_anywhere(SLOT_W, bytes);
    for (size_t i = 0; i < n * row_bytes; i++)
        rows[i] = (unsigned char)rng_below(&kernel_rng, 256);
    ternary->pack(rows, n, k, panel, packed);
    expect_intact(&where);
    assert_int_equal(bytes, (n + panel - 1) / panel * blocks * block_bytes);
    for (size_t j = 0; j < n; j++)
        for (size_t b = 0; b < blocks; b++)
            expect_packed(format, rows + j * row_bytes + b * format->bytes,
                          packed + (j / panel * blocks + b) * block_bytes, panel, j % panel);
}

void test_pack_ternary(void **state) {
    (void)state;
    static const size_t panels[] = {1, 4, 8, 16, 32};
    for (size_t p = 0; p < sizeof panels / sizeof *panels; p++)
        for (size_t i = 0; i < 3 * TERNARY_TYPES; i++)
            check_pack(&ternary_types[i % TERNARY_TYPES],
                       rng_range(&kernel_rng, 1, 2 * panels[p] + 1), rng_range(&kernel_rng, 1, 4),
                       panels[p]);
}

void test_gemm_q2_0(void **state) {
    (void)state;
    check_kernel(GEMM_Q2_0);
}

void test_gemm_pq2_0(void **state) {
    (void)state;
    check_kernel(GEMM_PQ2_0);
}

void test_gemm_ternary(void **state) {
    (void)state;
    check_kernel(GEMM_TERNARY);
}

void test_gemm_i2_s(void **state) {
    (void)state;
    check_kernel(GEMM_I2_S);
}

/* ---- saturation ----------------------------------------------------------------------------- */

/* Multiplies the least and largest activations by the least and largest codes with scales of 1. All
 * numbers are whole, and if `exactly` is set below 2^24, so that the result must be exact. */
static void check_exact(enum kernel kernel, size_t m, size_t n, size_t blocks, int kind,
                        bool exactly) {
    static const float zeros[] = {0, 255, 128, 1};
    const struct block_format *format = format_of(kernel);
    const size_t k = blocks * step_of(kernel),
                 stored_bytes = n * k / format->elements * format->bytes;
    float *bias = new_floats(n, FILL_ZERO);
    unsigned char *stored = allocate(stored_bytes);
    struct product product = {
        .m = m, .n = n, .k = k, .bias = bias, .stored = stored, .blocks = kernel};
    const float zero = zeros[rng_below(&kernel_rng, 4)];
    product.rows = new_quantised(m, k, false);
    for (size_t i = 0; i < stored_bytes; i++)
        stored[i] = kind == 0   ? (kernel == GEMM_MXFP4 ? 0x77 : 0x00)
                    : kind == 1 ? 0xff
                                : (unsigned char)rng_below(&kernel_rng, 256);
    for (size_t i = 0; kernel == GEMM_I2_S && i < n * k; i++) {
        const float value = kind == 0 || i % k == 0 ? -1
                            : kind == 1             ? 1
                                                    : (float)((int)rng_below(&kernel_rng, 3) - 1);
        memcpy(stored + i * sizeof value, &value, sizeof value);
    }
    for (size_t i = 0; kernel != GEMM_I2_S && i < n * blocks; i++) {
        unsigned char *block = stored + i * format->bytes;
        static const unsigned char ones[] = {0x00, 0x3c, 0x00, 0x3c}; /* 1 and 1 */
        const size_t at = halves_of(format);
        if (kernel == GEMM_MXFP4)
            block[0] = 128;
        else
            memcpy(block + at, ones, has_minimum(format) ? 4 : 2);
        for (int j = 4; kernel == GEMM_Q4_K && j < 16; j++)
            block[j] = (unsigned char)(block[j] & 0x33); /* scales and minima of at most 51 */
    }
    for (size_t i = 0; i < m * int8_blocks(k); i++) {
        product.rows.scale[i] = 1;
        product.rows.zero[i] = zero;
    }
    for (size_t i = 0; i < m * k; i++)
        product.rows.q[i] = rng_below(&kernel_rng, 8) ? 255 : 0;
    check(&product, FILL_UNIFORM, exactly);
    free_quantised(product.rows);
    free(stored);
    free(bias);
}

void test_gemm_blocks_never_saturate(void **state) {
    (void)state;
    static const struct {
        enum kernel kernel;
        size_t blocks; /* at most */
        bool exactly;
    } kernels[] = {{GEMM_TERNARY, 3, true}, {GEMM_I2_S, 6, true},   {GEMM_Q2_0, 11, true},
                   {GEMM_PQ2_0, 6, true},   {GEMM_Q4_1, 9, true},   {GEMM_Q5_0, 9, true},
                   {GEMM_Q5_1, 9, true},    {GEMM_IQ4_NL, 9, true}, {GEMM_MXFP4, 9, true},
                   {GEMM_IQ4_XS, 2, false}, {GEMM_Q4_K, 2, false},  {GEMM_Q2_K, 2, false},
                   {GEMM_Q3_K, 2, false},   {GEMM_Q5_K, 2, false},  {GEMM_Q6_K, 2, false}};
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < 10; i++)
            for (size_t j = 0; j < sizeof kernels / sizeof *kernels; j++)
                check_exact(kernels[j].kernel, rng_range(&kernel_rng, 1, 13),
                            rng_range(&kernel_rng, 1, 70),
                            rng_range(&kernel_rng, 1, kernels[j].blocks), kind, kernels[j].exactly);
}
