/* SPDX-License-Identifier: Apache-2.0
 * Compares the kernels of gather.h of every set with the scalar ones, over random shapes, lists and
 * codes, with guard pages around what they read and write. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "kernels/gather.h"
#include "kernels/kernels.h"
#include "quant/blocks.h"
#include "support/guarded.h"
#include "support/rng.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { CASES = 60, MOST_NEURONS = 160, MOST_SIZE = 700, MOST_BYTES = 1 << 20 };

static struct rng rng;
static struct guarded weights, outputs, inputs[4];

static const enum block_type types[GATHER_CODES] = {
    [GATHER_Q4_0] = BLOCK_Q4_0, [GATHER_Q4_1] = BLOCK_Q4_1, [GATHER_Q8_0] = BLOCK_Q8_0};

/* Fills values of -1 to 1, at times with some that are 0, tiny or huge. */
static void fill(float *x, size_t n) {
    const uint64_t kind = rng_below(&rng, 5);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)rng_below(&rng, 20001) / 10000 - 1;
        if (kind == 0 && rng_below(&rng, 8) == 0)
            x[i] = 0;
        if (kind == 1 && rng_below(&rng, 40) == 0)
            x[i] *= 1e4f;
        if (kind == 2)
            x[i] *= 1e-30f;
    }
}

static enum guarded_side any_side(void) {
    return (enum guarded_side)rng_below(&rng, GUARDED_SIDES);
}

/* Stores a row of random blocks of a code; the codes and signs of scales are extreme at times. */
static void make_blocks(enum gather_code code, size_t n, unsigned char *blocks) {
    const struct block_format *format = block_format_by_id(types[code]);
    const uint64_t extreme = rng_below(&rng, 4);
    for (size_t b = 0; b < n / GATHER_BLOCK; b++, blocks += format->bytes) {
        for (size_t i = 0; i < format->bytes; i++)
            blocks[i] = (unsigned char)(extreme == 0   ? 0xff
                                        : extreme == 1 ? 0x80
                                                       : rng_below(&rng, 256));
        for (size_t i = 0; i < (gather_has_offsets(code) ? 2u : 1u); i++) {
            const uint16_t half = half_of_float((float)rng_below(&rng, 2001) / 50000 - 0.02f);
            blocks[2 * i] = (unsigned char)half;
            blocks[2 * i + 1] = (unsigned char)(half >> 8);
        }
    }
}

static size_t make_list(uint16_t *list, size_t neurons) {
    const uint64_t percent = rng_below(&rng, 101);
    size_t n = 0;
    for (size_t i = 0; i < neurons; i++)
        if (rng_below(&rng, 100) < percent)
            list[n++] = (uint16_t)i;
    return n;
}

static void expect_near(const char *set, float got, float want, double size) {
    if (!(fabs((double)got - (double)want) <= 4e-6 * size + 1e-37))
        fail_msg("%s: %.9g in place of %.9g, with terms of %g", set, (double)got, (double)want,
                 size);
}

static void expect_intact(const char *set) {
    for (size_t i = 0; i < 4; i++)
        if (!guarded_intact(&inputs[i]))
            fail_msg("%s: an input was written beside", set);
    if (!guarded_intact(&weights) || !guarded_intact(&outputs))
        fail_msg("%s: something was written beside the weights or outputs", set);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static struct gather_input place_input(size_t k) {
    const size_t blocks = gather_scales(k), lanes = blocks * GATHER_LANES * sizeof(float);
    return (struct gather_input){.q = guarded_place(&inputs[0], blocks * GATHER_BLOCK, any_side()),
                                 .scale = guarded_place(&inputs[1], lanes, GUARDED_END),
                                 .sum = guarded_place(&inputs[2], lanes, GUARDED_END),
                                 .first = guarded_place(&inputs[3], lanes, GUARDED_END)};
}

static void check_rows(enum gather_code code, size_t neurons, size_t k) {
    const struct block_format *format = block_format_by_id(types[code]);
    unsigned char blocks[MOST_SIZE * 2];
    float x[MOST_SIZE], values[MOST_SIZE], want[MOST_NEURONS], one;
    double sizes[MOST_NEURONS];
    uint16_t list[MOST_NEURONS];
    const size_t row = gather_row_bytes(code, k);
    unsigned char *packed = guarded_place(&weights, neurons * row + GATHER_SLACK, any_side());
    fill(x, k);
    memset(packed, 0xff, neurons * row + GATHER_SLACK);
    const struct gather_input input = place_input(k);
    gather_quantise(x, k, code, &input);
    for (size_t i = 0; i < neurons; i++) {
        make_blocks(code, k, blocks);
        gather_pack_row(code, blocks, k, packed + i * row);
        format->dequantise(blocks, k, values);
        double exact = 0, error = 0;
        sizes[i] = 0;
        for (size_t c = 0; c < k; c++) {
            exact += (double)x[c] * (double)values[c];
            /* An input is rounded by half a step, and codes are up to 15 steps from their offset.
             */
            error += (double)input.scale[c / GATHER_BLOCK * GATHER_LANES] * 0.501 *
                     fabs((double)values[c]);
            sizes[i] += 20 * (fabs((double)x[c]) + 1e-30) * (fabs((double)values[c]) + 0.02);
        }
        const uint16_t this = (uint16_t)i;
        gather_scalar.rows(&input, code, packed, &this, 1, k, &want[i]);
        if (!(fabs((double)want[i] - exact) <= error + 1e-5 * sizes[i] + 1e-37))
            fail_msg("scalar, code %d: %g in place of %g", (int)code, (double)want[i], exact);
    }
    for (size_t s = 0; kernels_at(s); s++) {
        const char *name = kernels_at(s)->name;
        const struct gather_kernels *set = kernels_at(s)->gather;
        if (!set) /* WebAssembly's scalar set */
            continue;
        const size_t n = make_list(list, neurons);
        float *y = guarded_place(&outputs, n * sizeof *y, GUARDED_END);
        set->rows(&input, code, packed, list, n, k, y);
        for (size_t i = 0; i < n; i++) {
            expect_near(name, y[i], want[list[i]], sizes[list[i]]);
            set->rows(&input, code, packed, list + i, 1, k, &one);
            if (memcmp(&one, &y[i], sizeof one) != 0)
                fail_msg("%s: a row has other bits in other company", name);
        }
        expect_intact(name);
    }
}

/* ---- columns -------------------------------------------------------------------------------- */

static void check_columns(enum gather_code code, size_t neurons, size_t size) {
    static float w[MOST_SIZE][MOST_NEURONS];
    const struct block_format *format = block_format_by_id(types[code]);
    unsigned char blocks[MOST_NEURONS * 2];
    struct gather_active active[MOST_NEURONS / GATHER_BLOCK];
    uint16_t list[MOST_NEURONS];
    float values[MOST_NEURONS], want[MOST_SIZE], whole[MOST_SIZE];
    const size_t groups = neurons / GATHER_BLOCK;
    const size_t bytes = groups * gather_group_bytes(code, size);
    unsigned char *packed = guarded_place(&weights, bytes, any_side());
    memset(packed, 0, bytes);
    for (size_t c = 0; c < size; c++) {
        make_blocks(code, neurons, blocks);
        format->dequantise(blocks, neurons, w[c]);
        gather_pack_output(code, blocks, neurons, size, c, packed);
    }
    const size_t n = make_list(list, neurons);
    size_t done = 0;
    fill(values, n);
    for (size_t g = 0; g < groups; g++)
        done += gather_activate(values + done, list + done, n - done, g, &active[g]);
    assert_int_equal(done, n);
    memset(want, 0, sizeof want);
    gather_scalar.columns(active, groups, code, packed, size, 0, size, want);
    double sizes[MOST_SIZE] = {0};
    for (size_t c = 0; c < size; c++) {
        double exact = 0, error = 0;
        for (size_t i = 0; i < n; i++) {
            const double weight = (double)w[c][list[i]];
            exact += (double)values[i] * weight;
            error += (double)active[list[i] / GATHER_BLOCK].scale * 0.501 * fabs(weight);
            sizes[c] += 20 * (fabs((double)values[i]) + 1e-30) * (fabs(weight) + 0.02);
        }
        if (!(fabs((double)want[c] - exact) <= error + 1e-5 * sizes[c] + 1e-37))
            fail_msg("scalar, code %d: column sums to %g in place of %g", (int)code,
                     (double)want[c], exact);
    }
    for (size_t s = 0; kernels_at(s); s++) {
        const char *name = kernels_at(s)->name;
        const struct gather_kernels *set = kernels_at(s)->gather;
        if (!set) /* WebAssembly's scalar set */
            continue;
        float *y = guarded_place(&outputs, size * sizeof *y, GUARDED_END);
        const size_t cut = size / 2 / GATHER_STRIP * GATHER_STRIP;
        memset(y, 0, size * sizeof *y);
        memset(whole, 0, sizeof whole);
        set->columns(active, groups, code, packed, size, 0, cut, y);
        set->columns(active, groups, code, packed, size, cut, size, y);
        set->columns(active, groups, code, packed, size, 0, size, whole);
        for (size_t c = 0; c < size; c++)
            expect_near(name, y[c], want[c], sizes[c]);
        if (memcmp(y, whole, size * sizeof *y) != 0)
            fail_msg("%s: parts of the outputs have other bits than all of them", name);
        expect_intact(name);
    }
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void rows_are_those_of_the_scalar_kernel(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++)
        for (int code = 0; code < GATHER_CODES; code++)
            check_rows((enum gather_code)code, rng_range(&rng, 1, MOST_NEURONS),
                       GATHER_BLOCK * rng_range(&rng, 1, MOST_SIZE / GATHER_BLOCK));
}

static void columns_are_those_of_the_scalar_kernel(void **state) {
    (void)state;
    for (size_t i = 0; i < CASES; i++)
        for (int code = 0; code < GATHER_CODES; code++)
            check_columns((enum gather_code)code,
                          GATHER_BLOCK * rng_range(&rng, 1, MOST_NEURONS / GATHER_BLOCK),
                          rng_range(&rng, 1, MOST_SIZE));
}

/* Inputs that are not finite make the products NaN or infinite, not some number. */
static void what_is_not_finite_is_not_hidden(void **state) {
    const float bad[] = {INFINITY, -INFINITY, NAN};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        float x[GATHER_BLOCK] = {1, bad[i]}, y;
        unsigned char blocks[2 * GATHER_BLOCK], packed[4 * GATHER_BLOCK + GATHER_SLACK] = {0};
        const uint16_t first = 0;
        const struct gather_input input = place_input(GATHER_BLOCK);
        make_blocks(GATHER_Q8_0, GATHER_BLOCK, blocks);
        gather_pack_row(GATHER_Q8_0, blocks, GATHER_BLOCK, packed);
        gather_quantise(x, GATHER_BLOCK, GATHER_Q8_0, &input);
        for (size_t s = 0; kernels_at(s); s++) {
            if (!kernels_at(s)->gather)
                continue;
            kernels_at(s)->gather->rows(&input, GATHER_Q8_0, packed, &first, 1, GATHER_BLOCK, &y);
            if (isfinite(y))
                fail_msg("%s: %g", kernels_at(s)->name, (double)y);
        }
    }
}

static int open_all(void **state) {
    (void)state;
    rng.state = rng_seed();
    guarded_open(&weights, MOST_BYTES);
    guarded_open(&outputs, MOST_BYTES);
    for (size_t i = 0; i < 4; i++)
        guarded_open(&inputs[i], MOST_BYTES);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    guarded_close(&weights);
    guarded_close(&outputs);
    for (size_t i = 0; i < 4; i++)
        guarded_close(&inputs[i]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_the_scalar_kernel),
        cmocka_unit_test(columns_are_those_of_the_scalar_kernel),
        cmocka_unit_test(what_is_not_finite_is_not_hidden),
    };
    return cmocka_run_group_tests_name("gather", tests, open_all, close_all);
}
