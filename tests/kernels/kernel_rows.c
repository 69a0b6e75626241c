/* SPDX-License-Identifier: Apache-2.0
 * Checks of the kernels that add up rows: dot, norms and softmax. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_case.h"

/* ---- dot ------------------------------------------------------------------------------------ */

/* In any order of summation n products and n - 1 sums are each rounded once. */
static void check_dot(size_t n, enum fill kind) {
    float *a = new_floats(n, kind), *b = new_floats(n, FILL_UNIFORM);
    double sum = 0, magnitudes = 0;
    for (size_t i = 0; i < n; i++) {
        b[i] /= kind == FILL_LARGEST ? (float)n : 1;
        sum += (double)a[i] * (double)b[i];
        magnitudes += fabs((double)a[i] * (double)b[i]);
    }
    const double tolerance = (double)(n + 1) * (ROUNDING * magnitudes + (double)FLT_TRUE_MIN);
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {DOT, kernels_at(s), 1, n, 0, kind};
        const float *x = place_rows(SLOT_X, a, 1, n, n), *w = place_rows(SLOT_W, b, 1, n, n);
        const float once = where.set->dot(x, w, n);
        expect_near(&where, 0, 0, once, sum, tolerance);
        x = place_rows(SLOT_Y, a, 1, n, n);
        const float again = where.set->dot(x, w, n);
        expect_same_bits(&where, "other bits from another place", &again, &once, sizeof once);
    }
    free(a);
    free(b);
}

void test_dot(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 100; n++)
            check_dot(n, (enum fill)kind);
    for (int i = 0; i < 200; i++)
        check_dot(rng_range(&kernel_rng, 101, 2000), (enum fill)(i % 2));
}

#ifndef __wasm__
/* The sums are exact. The largest magnitudes are those of the widest sums that the caller allows.
 */
void test_dots_int8(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (size_t k = 1; k < 300; k += 1 + k / 20) {
            const size_t n = rng_range(&kernel_rng, 1, 9), ld = k + rng_below(&kernel_rng, 20);
            const struct where where = {DOTS_INT8, kernels_at(s), 1, n, k, FILL_UNIFORM};
            const bool extreme = rng_coin(&kernel_rng);
            int16_t *x = place(SLOT_X, k * sizeof *x);
            int8_t *w = place_anywhere(SLOT_Q, (n - 1) * ld + k);
            int32_t *sums = place(SLOT_Y, n * sizeof *sums);
            for (size_t c = 0; c < k; c++)
                x[c] = extreme ? INT16_MAX : (int16_t)(rng_bits(&kernel_rng) >> 48);
            for (size_t i = 0; i < (n - 1) * ld + k; i++)
                w[i] = extreme ? INT8_MIN : (int8_t)(rng_bits(&kernel_rng) >> 56);
            where.set->dots_int8(x, w, ld, n, k, sums);
            expect_intact(&where);
            for (size_t j = 0; j < n; j++) {
                int64_t want = 0;
                for (size_t c = 0; c < k; c++)
                    want += (int64_t)x[c] * w[j * ld + c];
                assert_int_equal(sums[j], want);
            }
        }
}
#endif

/* ---- rows in other batches ------------------------------------------------------------------ */

/* The shared form of the kernels that work on rows: m rows in place, each with its own second input
 * or none. */
struct rows_case {
    struct where where;
    const float *x, *residual;  /* [m, n]; residual for layer_norm only */
    const float *weight, *bias; /* [n]: weight for both norms, bias for layer_norm only */
    float parameter;            /* epsilon, or the scale of the scores */
};

static void call_rows(const struct rows_case *c, float *x, size_t ld, const float *residual,
                      size_t m) {
    const struct kernels *set = c->where.set;
    const size_t n = c->where.n;
    if (c->where.kernel == SOFTMAX) {
        set->softmax(x, ld, m, n, c->parameter);
        return;
    }
    const float *weight = place_rows(SLOT_W, c->weight, 1, n, n);
    if (c->where.kernel == RMS_NORM) {
        set->rms_norm(x, weight, c->parameter, m, n, x);
        return;
    }
    const float *bias = place_rows(SLOT_BIAS, c->bias, 1, n, n);
    set->layer_norm(x, residual, weight, bias, c->parameter, m, n);
}

/* Computes m rows, the rows `from` of x, into dense y [m, n]. */
static void run_rows(const struct rows_case *c, const size_t *from, size_t m, float *y) {
    const size_t n = c->where.n;
    const bool may_pad = c->where.kernel == SOFTMAX && rng_coin(&kernel_rng);
    const size_t ld = n + (may_pad ? rng_range(&kernel_rng, 1, 9) : 0);
    float *rows = place(SLOT_X, ((m - 1) * ld + n) * sizeof *rows);
    float *residual = place(SLOT_Y, m * n * sizeof *residual);
    for (size_t i = 0; i < m; i++) {
        memcpy(rows + i * ld, c->x + from[i] * n, n * sizeof *rows);
        memcpy(residual + i * n, (c->residual ? c->residual : c->x) + from[i] * n,
               n * sizeof *residual);
    }
    call_rows(c, rows, ld, residual, m);
    expect_intact(&c->where);
    expect_padding(&c->where, rows, m, n, ld);
    for (size_t i = 0; i < m; i++)
        memcpy(y + i * n, rows + i * ld, n * sizeof *y);
}

/* Computes y, which the caller frees, after checking that other batches give the same bits. */
static float *run_all_rows(const struct rows_case *c) {
    const size_t m = c->where.m, n = c->where.n, others = rng_range(&kernel_rng, 1, 5);
    size_t *from = allocate((m + others) * sizeof *from);
    float *y = allocate(m * n * sizeof *y), *again = allocate(others * n * sizeof *again);
    for (size_t i = 0; i < m; i++)
        from[i] = i;
    run_rows(c, from, m, y);
    for (size_t i = 0; i < others; i++)
        from[i] = rng_below(&kernel_rng, m);
    run_rows(c, from, others, again);
    for (size_t i = 0; i < others; i++)
        expect_same_bits(&c->where, "another batch gives a row other bits", again + i * n,
                         y + from[i] * n, n * sizeof *y);
    free(from);
    free(again);
    return y;
}

/* ---- layer_norm ----------------------------------------------------------------------------- */

/* Computes mean and variance of a row, and their possible errors in floats: of the mean by n
 * roundings of a sum of magnitudes, of the squares by n + 2 roundings and by the square of the
 * mean's error. */
struct moments {
    double mean, mean_error, inverse, inverse_error;
};

static struct moments moments_of(const float *v, size_t n, double epsilon) {
    struct moments result = {0};
    double squares = 0, magnitudes = 0;
    for (size_t j = 0; j < n; j++) {
        result.mean += (double)v[j] / (double)n;
        magnitudes += fabs((double)v[j]) / (double)n;
    }
    for (size_t j = 0; j < n; j++)
        squares += ((double)v[j] - result.mean) * ((double)v[j] - result.mean) / (double)n;
    const double roundings = (double)(n + 4) * ROUNDING;
    result.mean_error = roundings * magnitudes;
    result.inverse = 1 / sqrt(squares + epsilon);
    const double off = roundings * (squares + epsilon) + result.mean_error * result.mean_error +
                       (double)FLT_TRUE_MIN;
    const double smallest = fmax(squares + epsilon - off, 0);
    result.inverse_error = fmax(result.inverse - 1 / sqrt(squares + epsilon + off),
                                (smallest > 0 ? 1 / sqrt(smallest) : 0) - result.inverse) +
                           3 * ROUNDING * result.inverse;
    return result;
}

static void check_norm_row(const struct rows_case *c, size_t i, const float *y) {
    const size_t n = c->where.n;
    float *v = allocate(n * sizeof *v);
    for (size_t j = 0; j < n; j++)
        v[j] = c->x[i * n + j] + c->residual[i * n + j];
    const struct moments m = moments_of(v, n, (double)c->parameter);
    for (size_t j = 0; j < n; j++) {
        const double weight = (double)c->weight[j], centred = (double)v[j] - m.mean;
        const double normal = centred * m.inverse, inverse = m.inverse + m.inverse_error;
        const double want = normal * weight + (double)c->bias[j];
        /* v and the mean are each multiplied before or after they are subtracted. */
        const double normal_error =
            m.mean_error * inverse + fabs(centred) * m.inverse_error +
            3 * ROUNDING * (fabs((double)v[j]) + fabs(m.mean) + m.mean_error) * inverse;
        const double tolerance = normal_error * fabs(weight) +
                                 3 * ROUNDING * (fabs(normal * weight) + fabs((double)c->bias[j])) +
                                 4 * (double)FLT_TRUE_MIN;
        expect_near(&c->where, i, j, y[i * n + j], want, tolerance);
    }
    free(v);
}

/* Returns a factor that makes the squares of a row finite. */
static float shrink_for_squares(enum fill kind) {
    return kind == FILL_LARGEST ? 0x1p-68f : kind == FILL_ONE_HUGE ? 0x1p-48f : 1;
}

static void check_layer_norm(size_t m, size_t n, enum fill kind, float epsilon) {
    float *x = new_floats(m * n, kind), *residual = new_floats(m * n, kind);
    float *weight = new_floats(n, FILL_UNIFORM), *bias = new_floats(n, FILL_UNIFORM);
    const float shrink = shrink_for_squares(kind);
    for (size_t i = 0; i < m * n; i++) {
        x[i] *= shrink;
        residual[i] *= shrink;
    }
    for (size_t s = 0; checked_at(s); s++) {
        const struct rows_case c = {
            {LAYER_NORM, checked_at(s), m, n, 0, kind}, x, residual, weight, bias, epsilon};
        float *y = run_all_rows(&c);
        for (size_t i = 0; i < m; i++)
            check_norm_row(&c, i, y);
        free(y);
    }
    free(x);
    free(residual);
    free(weight);
    free(bias);
}

void test_layer_norm(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++)
            check_layer_norm(rng_range(&kernel_rng, 1, 5), n, (enum fill)kind,
                             rng_coin(&kernel_rng) ? 1e-12f : 1e-5f);
    for (int i = 0; i < 100; i++)
        check_layer_norm(rng_range(&kernel_rng, 1, 9), rng_range(&kernel_rng, 71, 800),
                         (enum fill)(i % 2), 1e-12f);
}

/* ---- rms_norm ------------------------------------------------------------------------------- */

static void check_rms_norm(size_t m, size_t n, enum fill kind, float epsilon) {
    float *x = new_floats(m * n, kind), *weight = new_floats(n, FILL_UNIFORM);
    const float shrink = shrink_for_squares(kind);
    for (size_t i = 0; i < m * n; i++)
        x[i] *= shrink;
    for (size_t s = 0; kernels_at(s); s++) {
        const struct rows_case c = {
            {RMS_NORM, kernels_at(s), m, n, 0, kind}, x, NULL, weight, NULL, epsilon};
        float *y = run_all_rows(&c);
        for (size_t i = 0; i < m; i++) {
            double squares = 0;
            for (size_t j = 0; j < n; j++)
                squares += (double)x[i * n + j] * (double)x[i * n + j] / (double)n;
            const double inverse = 1 / sqrt(squares + (double)epsilon);
            for (size_t j = 0; j < n; j++) {
                const double want = (double)x[i * n + j] * inverse * (double)weight[j];
                /* A sum of n squares is rounded n + 2 times and its root halves the error; the
                 * root, its inverse and two products are rounded once each. */
                const double tolerance = (double)(n + 12) * ROUNDING * fabs(want);
                expect_near(&c.where, i, j, y[i * n + j], want,
                            tolerance + 4 * (double)FLT_TRUE_MIN);
            }
        }
        free(y);
    }
    free(x);
    free(weight);
}

void test_rms_norm(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++)
            check_rms_norm(rng_range(&kernel_rng, 1, 5), n, (enum fill)kind,
                           rng_coin(&kernel_rng) ? 1e-6f : 1e-5f);
    for (int i = 0; i < 100; i++)
        check_rms_norm(rng_range(&kernel_rng, 1, 9), rng_range(&kernel_rng, 71, 800),
                       (enum fill)(i % 2), 1e-5f);
}

/* ---- softmax -------------------------------------------------------------------------------- */

/* Errors of a term: of its exponent, which is rounded twice, of e^x, of the sum, and two more. */
static void check_softmax_row(const struct rows_case *c, size_t i, const float *y) {
    const size_t n = c->where.n;
    const float *x = c->x + i * n;
    double largest = -INFINITY, sum = 0, sum_error = 0;
    for (size_t j = 0; j < n; j++)
        largest = fmax(largest, (double)x[j]);
    for (size_t j = 0; j < n; j++) {
        const double exponent = ((double)x[j] - largest) * (double)c->parameter;
        sum += exp(exponent);
        /* x e^x is bounded, so that an exponent with a large error counts for little. */
        sum_error += exp(exponent) * (exponent_error(exponent) + EXP_ERROR);
    }
    const double common = sum_error / sum + (double)(n + 3) * ROUNDING + EXP_ERROR;
    for (size_t j = 0; j < n; j++) {
        const double exponent = ((double)x[j] - largest) * (double)c->parameter;
        const double want = exp(exponent) / sum, relative = common + exponent_error(exponent);
        if (exponent >= -87)
            expect_near(&c->where, i, j, y[i * n + j], want,
                        want * relative + (double)FLT_TRUE_MIN);
        else
            assert_true(y[i * n + j] >= 0 && (double)y[i * n + j] <= exp(-87) * (1 + relative));
    }
}

static void check_softmax(size_t m, size_t n, enum fill kind, float factor, float scale) {
    float *x = new_floats(m * n, kind);
    for (size_t i = 0; i < m * n; i++)
        x[i] *= factor;
    for (size_t s = 0; kernels_at(s); s++) {
        const struct rows_case c = {
            {SOFTMAX, kernels_at(s), m, n, 0, kind}, x, NULL, NULL, NULL, scale};
        float *y = run_all_rows(&c);
        for (size_t i = 0; i < m; i++)
            check_softmax_row(&c, i, y);
        free(y);
    }
    free(x);
}

void test_softmax(void **state) {
    (void)state;
    static const float factors[] = {1, 30, 1e-6f, 500};
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++) {
            const float factor = kind == FILL_UNIFORM ? factors[n % 4] : 1;
            const float scale = rng_coin(&kernel_rng) ? 1 : rng_between(&kernel_rng, 0.05f, 0.5f);
            check_softmax(rng_range(&kernel_rng, 1, 5), n, (enum fill)kind, factor, scale);
        }
    for (int i = 0; i < 100; i++)
        check_softmax(rng_range(&kernel_rng, 1, 9), rng_range(&kernel_rng, 71, 600), FILL_UNIFORM,
                      factors[i % 4] * 10, 0.17677669f);
}

/* Rows of 0 and one score so low that the sum is 1. The softmax is then e^x alone, for scores over
 * the whole range. Scores nearby have the same fractions of powers of 2. */
void test_softmax_exponential(void **state) {
    (void)state;
    enum { ROWS = 2000 };
    static float x[2 * ROWS];
    for (size_t i = 0; i < ROWS; i++)
        x[2 * i + 1] = rng_between(&kernel_rng, -87, -17.4f);
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {SOFTMAX, kernels_at(s), ROWS, 2, 0, FILL_FINITE};
        float *y = place_rows(SLOT_X, x, ROWS, 2, 2);
        where.set->softmax(y, 2, ROWS, 2, 1);
        expect_intact(&where);
        for (size_t i = 0; i < ROWS; i++) {
            const double want = exp((double)x[2 * i + 1]);
            assert_true(y[2 * i] == 1);
            expect_near(&where, i, 1, y[2 * i + 1], want,
                        (EXP_ERROR + exponent_error((double)x[2 * i + 1])) * want);
        }
    }
}

/* ---- NaN and infinities --------------------------------------------------------------------- */

static void special_rows(const struct kernels *set, size_t m, size_t n) {
    float *x = new_floats(m * n, FILL_SPECIAL), *other = new_floats(m * n, FILL_SPECIAL);
    struct rows_case c = {{LAYER_NORM, set, m, n, n, FILL_SPECIAL}, x, other, other, other, 1e-12f};
    float *y = allocate(m * n * sizeof *y);
    size_t *from = allocate(m * sizeof *from);
    for (size_t i = 0; i < m; i++)
        from[i] = i;
    run_rows(&c, from, m, y);
    c.where.kernel = RMS_NORM;
    run_rows(&c, from, m, y);
    c.where.kernel = SOFTMAX;
    run_rows(&c, from, m, y);
    c.where.kernel = DOT;
    set->dot(place_rows(SLOT_X, x, 1, n, n), place_rows(SLOT_W, other, 1, n, n), n);
    free(x);
    free(other);
    free(y);
    free(from);
}

void test_rows_special_values(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (int i = 0; i < 100; i++)
            special_rows(kernels_at(s), rng_range(&kernel_rng, 1, 5),
                         rng_range(&kernel_rng, 1, 200));
}
