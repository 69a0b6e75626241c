/* SPDX-License-Identifier: Apache-2.0
 * Checks of the kernels of attention over a step of cached keys and values (kernels/kv_step.h):
 * every set beside the scalar reference, or beside doubles where powers are rounded. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"

/* Fills n bytes with -127 .. 127, or with these two alone. */
static void fill_bytes(int8_t *bytes, size_t n, bool extreme) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = (int8_t)(extreme ? (rng_coin(&kernel_rng) ? 127 : -127)
                                    : (int)rng_below(&kernel_rng, 255) - 127);
}

static float magnitude_of(const float *x, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    return largest;
}

/* Bytes are multiplied exactly, so sets differ by the roundings of the sums over blocks. */
static void check_score(const struct kernels *set, size_t rows, size_t head_size, bool extreme) {
    const size_t row = kv_key_bytes(head_size), blocks = kv_blocks(head_size);
    const size_t ld = KV_STEP + rng_below(&kernel_rng, 3), scales = (blocks - 1) * ld + KV_STEP;
    const struct where where = {KV, set, rows, head_size, 0, FILL_UNIFORM};
    int8_t *q = place(SLOT_Q, rows * row), *keys = place(SLOT_W, KV_STEP * row);
    int32_t *sums = place(SLOT_ZERO, rows * blocks * sizeof *sums);
    float *scale = place(SLOT_SCALE, scales * sizeof *scale);
    float *y = place(SLOT_Y, rows * KV_STEP * sizeof *y);
    float *want = allocate(rows * KV_STEP * sizeof *want);
    fill_bytes(q, rows * row, extreme);
    fill_bytes(keys, KV_STEP * row, extreme);
    fill_floats(scale, scales, FILL_UNIFORM);
    memset(sums, 0, rows * blocks * sizeof *sums);
    for (size_t i = 0; i < rows * row; i++)
        sums[i / row * blocks + i % row / KV_BLOCK] += q[i];
    const struct int8_queries x = {.q = q, .sums = sums, .rows = rows, .head_size = head_size};
    kv_scalar.score_int8(&x, keys, scale, ld, want);
    set->kv->score_int8(&x, keys, scale, ld, y);
    const double most = (double)KV_BLOCK * 127 * 127 * (double)magnitude_of(scale, scales);
    for (size_t i = 0; i < rows * KV_STEP; i++)
        expect_near(&where, i / KV_STEP, i % KV_STEP, y[i], (double)want[i],
                    most * (double)(blocks * blocks) * 2 * ROUNDING);
    expect_intact(&where);
    free(want);
}

void test_kv_score_int8(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s) && kernels_at(s)->kv; s++)
        for (size_t head_size = 1; head_size <= 130; head_size++)
            check_score(kernels_at(s), rng_range(&kernel_rng, 1, 33), head_size,
                        rng_coin(&kernel_rng));
}

/* A row before a step: without a score, or with one that is above or below the step's. */
static struct softmax_row random_row(void) {
    struct softmax_row row = {.top = -INFINITY};
    if (rng_coin(&kernel_rng)) {
        row.top = (float)rng_range(&kernel_rng, 0, 20) - 10;
        row.total[0] = (float)rng_range(&kernel_rng, 1, 100);
    }
    return row;
}

static double total_of(const struct softmax_row *row) {
    double total = 0;
    for (size_t i = 0; i < SOFTMAX_LANES; i++)
        total += (double)row->total[i];
    return total;
}

/* The powers of a step in doubles, and their bounds. */
struct powers {
    double power[KV_STEP], error[KV_STEP], total, keep, top;
};

static struct powers exact_powers(const float *scores, size_t first, size_t end, float factor,
                                  const struct softmax_row *before) {
    struct powers p = {.top = (double)before->top};
    for (size_t j = first; j < end; j++)
        p.top = fmax(p.top, (double)scores[j]);
    for (size_t j = first; j < end; j++) {
        const double exponent = ((double)scores[j] - p.top) * (double)factor;
        p.power[j] = exp(exponent);
        p.error[j] = p.power[j] * (EXP_ERROR + exponent_error(exponent)) + 0x1p-125;
        p.total += p.power[j];
    }
    p.keep = isinf(before->top) ? 0 : exp(((double)before->top - p.top) * (double)factor);
    return p;
}

static void expect_row(const struct where *where, const struct powers *p,
                       const struct softmax_row *before, const struct softmax_row *row) {
    const double total = total_of(before) * p->keep + p->total;
    const double exponent = isinf(before->top) ? 0 : log(fmax(p->keep, 1e-300));
    assert_true((double)row->top == p->top);
    expect_near(where, 0, 0, row->keep, p->keep,
                p->keep * (EXP_ERROR + exponent_error(exponent)) + 0x1p-125);
    expect_near(where, 0, 1, (float)total_of(row), total, total * 3e-5 + 0x1p-120);
}

static double most_scaled(const double *values, const float *scales) {
    double most = 0;
    for (size_t j = 0; j < KV_STEP; j++)
        if (values[j] * (double)scales[j] > most)
            most = values[j] * (double)scales[j];
    return most;
}

/* The keys of a step that count. */
struct counted {
    size_t first, end;
};

static struct counted random_counted(void) {
    const size_t first = rng_coin(&kernel_rng) ? 0 : rng_below(&kernel_rng, KV_STEP);
    return (struct counted){
        first, rng_coin(&kernel_rng) ? KV_STEP : rng_range(&kernel_rng, first + 1, KV_STEP)};
}

static void check_shares(const struct kernels *set, enum fill kind) {
    const struct where where = {KV, set, 1, KV_STEP, 0, kind};
    const struct counted keys = random_counted();
    const float factor = rng_coin(&kernel_rng) ? 0.125f : 1e-3f;
    float *scores = place(SLOT_X, KV_STEP * sizeof *scores);
    fill_floats(scores, KV_STEP, kind);
    const struct softmax_row before = random_row();
    struct softmax_row row = before;
    const struct powers p = exact_powers(scores, keys.first, keys.end, factor, &before);
    set->kv->shares(scores, keys.first, keys.end, factor, &row);
    for (size_t j = 0; j < KV_STEP; j++)
        expect_near(&where, 0, j, scores[j], p.power[j], p.error[j]);
    expect_row(&where, &p, &before, &row);
    expect_intact(&where);
}

void test_kv_shares(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s) && kernels_at(s)->kv; s++)
        for (int kind = 0; kind < FILL_FINITE; kind++)
            for (int i = 0; i < 100; i++)
                check_shares(kernels_at(s), (enum fill)kind);
}

static void check_shares_int8(const struct kernels *set, enum fill kind) {
    enum { MOST_ROWS = 9 };
    const size_t rows = rng_range(&kernel_rng, 1, MOST_ROWS);
    const struct where where = {KV, set, rows, KV_STEP, 0, kind};
    const struct counted keys = random_counted();
    float *scores = place(SLOT_X, rows * KV_STEP * sizeof *scores);
    float *scales = place(SLOT_SCALE, KV_STEP * sizeof *scales);
    float *factors = place(SLOT_BIAS, rows * sizeof *factors);
    uint8_t *shares = place(SLOT_Q, rows * KV_STEP);
    struct softmax_row before[MOST_ROWS], row[MOST_ROWS];
    struct powers exact[MOST_ROWS];
    fill_floats(scores, rows * KV_STEP, kind);
    fill_floats(scales, KV_STEP, FILL_UNIFORM);
    for (size_t j = 0; j < KV_STEP; j++)
        scales[j] = fabsf(scales[j]);
    for (size_t i = 0; i < rows; i++) {
        factors[i] = rng_coin(&kernel_rng) ? 0.125f : 1e-3f;
        before[i] = row[i] = random_row();
        exact[i] = exact_powers(scores + i * KV_STEP, keys.first, keys.end, factors[i], &before[i]);
    }
    set->kv->shares_int8(scores, rows, keys.first, keys.end, factors, scales, row, shares);
    for (size_t i = 0; i < rows; i++) {
        const struct powers *p = &exact[i];
        const double most = most_scaled(p->power, scales);
        const double most_error = most_scaled(p->error, scales);
        expect_near(&where, i, 2, row[i].scale * (float)SHARE_STEPS, most,
                    most_error + most * 4 * ROUNDING + 0x1p-99);
        for (size_t j = 0; j < KV_STEP; j++) {
            const uint8_t share = shares[i * KV_STEP + j];
            assert_true(share <= SHARE_STEPS);
            expect_near(&where, i, j, (float)share * row[i].scale, p->power[j] * (double)scales[j],
                        (p->error[j] + most_error) * 2 + most * 0.501 / (double)SHARE_STEPS +
                            0x1p-99);
        }
        expect_row(&where, p, &before[i], &row[i]);
    }
    expect_intact(&where);
}

void test_kv_shares_int8(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s) && kernels_at(s)->kv; s++)
        for (int kind = 0; kind < FILL_FINITE; kind++)
            for (int i = 0; i < 100; i++)
                check_shares_int8(kernels_at(s), (enum fill)kind);
}

/* Scores whose powers are out of bounds count as if they were at the bound. */
static void check_mass(const struct kernels *set, enum fill kind, float scale) {
    const struct where where = {KV, set, 1, KV_STEP, 0, kind};
    const double most = (double)KV_MASS_BITS * log(2), rounding = (double)KV_STEP * ROUNDING;
    float *scores = place(SLOT_X, KV_STEP * sizeof *scores);
    double total = 0, error = 0;
    fill_floats(scores, KV_STEP, kind);
    for (size_t j = 0; j < KV_STEP; j++) {
        scores[j] *= scale;
        const double exponent = fmin(fmax((double)scores[j] * (double)0.125f, -most), most);
        const double power = exp(exponent);
        total += power;
        error += power * (0.0025 + exponent_error(fabs(exponent) + 1) + rounding);
    }
    expect_near(&where, 0, 0, set->kv->mass(scores, 0.125f), total, error);
    expect_intact(&where);
}

void test_kv_mass(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s) && kernels_at(s)->kv; s++)
        for (int kind = 0; kind < FILL_FINITE; kind++)
            for (int i = 0; i < 100; i++)
                check_mass(kernels_at(s), (enum fill)kind,
                           i % 3 == 0   ? 3000
                           : i % 3 == 1 ? 100
                                        : 1);
}

/* Checks sums of floats or of bytes beside the reference, from which roundings of two products and
 * a sum may differ. */
static void check_add_up(const struct kernels *set, size_t rows, size_t head_size, bool bytes) {
    const struct where where = {KV, set, rows, head_size, 0, FILL_UNIFORM};
    const size_t channels = bytes ? kv_channels(head_size) : head_size, n = rows * channels;
    struct softmax_row *row = allocate(rows * sizeof *row);
    float *before = new_floats(n, FILL_UNIFORM), *want = allocate(n * sizeof *want);
    float *sum = place(SLOT_Y, n * sizeof *sum), *y = place(SLOT_X, n * sizeof *y);
    uint8_t *shares = place(SLOT_Q, rows * KV_STEP);
    int8_t *values = place(SLOT_W, channels * KV_STEP);
    for (size_t i = 0; i < rows; i++)
        row[i] =
            (struct softmax_row){.keep = (float)rng_below(&kernel_rng, 100) / 100, .scale = 1e-4f};
    for (size_t i = 0; i < rows * KV_STEP; i++)
        shares[i] = (uint8_t)rng_below(&kernel_rng, SHARE_STEPS + 1);
    fill_bytes(values, channels * KV_STEP, rng_coin(&kernel_rng));
    fill_floats(y, n, FILL_UNIFORM);
    memcpy(want, before, n * sizeof *want);
    memcpy(sum, before, n * sizeof *sum);
    if (bytes) {
        kv_scalar.add_up_int8(shares, row, values, rows, head_size, want);
        set->kv->add_up_int8(shares, row, values, rows, head_size, sum);
    } else {
        kv_scalar.add_up(y, row, rows, channels, want);
        set->kv->add_up(y, row, rows, channels, sum);
    }
    for (size_t i = 0; i < n; i++)
        expect_near(&where, i / channels, i % channels, sum[i], (double)want[i],
                    (2 + fabs((double)want[i])) * 4 * ROUNDING * (bytes ? KV_STEP : 1));
    expect_intact(&where);
    free(row);
    free(before);
    free(want);
}

void test_kv_add_up(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s) && kernels_at(s)->kv; s++)
        for (size_t head_size = 1; head_size <= 130; head_size++) {
            check_add_up(kernels_at(s), rng_range(&kernel_rng, 1, 33), head_size, false);
            check_add_up(kernels_at(s), rng_range(&kernel_rng, 1, 33), head_size, true);
        }
}
