/* SPDX-License-Identifier: Apache-2.0
 * Checks of the kernels that work along rows. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "kernel_case.h"

/* ---- element by element --------------------------------------------------------------------- */

static void call_elementwise(const struct where *where, float *x, const float *other) {
    if (where->kernel == GELU)
        where->set->gelu(x, where->n);
    else if (where->kernel == RELU)
        where->set->relu(x, where->n);
    else if (where->kernel == SILU_MUL)
        where->set->silu_mul(x, other, where->n);
#ifdef DECODER_KERNELS
    else if (where->kernel == GELU_TANH)
        where->set->gelu_tanh(x, where->n);
    else if (where->kernel == MULTIPLY)
        where->set->multiply(x, other, where->n);
    else if (where->kernel == SOFT_CAP)
        where->set->soft_cap(x, where->n, SOFT_CAP_SCALE, (float)where->k);
#endif
    else
        where->set->add(x, other, where->n);
}

/* The bits of an element must not depend on its address: computes y again without its first `skip`
 * elements. */
static void check_elsewhere(const struct where *where, const float *x, const float *other,
                            const float *y, size_t skip) {
    struct where shorter = *where;
    shorter.n -= skip;
    float *again = place_rows(SLOT_X, x + skip, 1, shorter.n, shorter.n);
    const float *added = place_rows(SLOT_W, other + skip, 1, shorter.n, shorter.n);
    call_elementwise(&shorter, again, added);
    expect_intact(&shorter);
    expect_same_bits(&shorter, "an element has other bits elsewhere", again, y + skip,
                     shorter.n * sizeof *y);
}

float *run_elementwise(const struct where *where, const float *x, const float *other) {
    const size_t n = where->n;
    float *here = place_rows(SLOT_X, x, 1, n, n);
    const float *added = place_rows(SLOT_W, other, 1, n, n);
    call_elementwise(where, here, added);
    expect_intact(where);
    float *y = allocate(n * sizeof *y);
    memcpy(y, here, n * sizeof *y);
    check_elsewhere(where, x, other, y, rng_below(&kernel_rng, n));
    return y;
}

/* Results with one rounding or none: every set gives the bits of the scalar set. */
static void check_add_or_relu(enum kernel kernel, size_t n, enum fill kind) {
    float *x = new_floats(n, kind), *other = new_floats(n, kind);
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {kernel, kernels_at(s), 1, n, 0, kind};
        float *y = run_elementwise(&where, x, other);
        for (size_t i = 0; i < n; i++) {
            const float sum = x[i] + other[i], positive = x[i] > 0 ? x[i] : 0;
            expect_near(&where, 0, i, y[i], (double)(kernel == ADD ? sum : positive), 0);
        }
        free(y);
    }
    free(x);
    free(other);
}

void test_add_and_relu(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++) {
            check_add_or_relu(ADD, n, (enum fill)kind);
            check_add_or_relu(RELU, n, (enum fill)kind);
        }
}

/* ---- gelu ----------------------------------------------------------------------------------- */

static double exact_gelu(float x) {
    return 0.5 * (double)x * erfc(-(double)x * 0.70710678118654752440);
}

/* Returns the error that kernels.h allows, plus the rounding of the result, which grows with x. */
static double gelu_tolerance(float x) {
    return 1e-6 + ROUNDING * fabs((double)x);
}

static void check_gelu(const float *x, size_t n, enum fill kind) {
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {GELU, kernels_at(s), 1, n, 0, kind};
        float *y = run_elementwise(&where, x, x);
        for (size_t i = 0; i < n; i++)
            expect_near(&where, 0, i, y[i], exact_gelu(x[i]), gelu_tolerance(x[i]));
        free(y);
    }
}

/* Visits every `step`-th float from low to high, and as many below zero. */
static void sweep_gelu(float low, float high, uint32_t step) {
    enum { BATCH = 4096 };
    static float x[BATCH];
    size_t n = 0;
    uint32_t bits = bits_of_float(low) + (uint32_t)rng_below(&kernel_rng, step);
    for (; bits <= bits_of_float(high); bits += step) {
        x[n++] = float_of_bits(bits);
        x[n++] = -float_of_bits(bits);
        if (n == BATCH) {
            check_gelu(x, n, FILL_FINITE);
            n = 0;
        }
    }
    if (n > 0)
        check_gelu(x, n, FILL_FINITE);
}

void test_gelu(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 40; n++) {
            float *x = new_floats(n, (enum fill)kind);
            check_gelu(x, n, (enum fill)kind);
            free(x);
        }
    sweep_gelu(0, 0x1p-6f, 65521);
    sweep_gelu(0x1p-6f, 7, 509);
    sweep_gelu(7, FLT_MAX, 65521);
    static const float edges[] = {0,           -0.0f, 5.5f,   5.4999995f, 5.5000005f, -5.5f,
                                  -5.4999995f, 2.75f, -2.75f, 0.75f,      -0.75f,     -5.5000005f};
    check_gelu(edges, sizeof edges / sizeof *edges, FILL_FINITE);
}

/* ---- expanding bytes ------------------------------------------------------------------------- */

/* A product of two floats has one rounding: every set gives the bits of the plain product. */
static void check_expand(const struct kernels *set, size_t rows, enum fill kind, bool by_row) {
    const struct where where = {EXPAND, set, rows, set->f32_panel, 0, kind};
    const size_t n = set->f32_panel, scales = by_row ? rows : n;
    float *scale = new_floats(scales, kind), *want = allocate(rows * n * sizeof *want);
    int8_t *q = place_anywhere(SLOT_Q, rows * n);
    for (size_t i = 0; i < rows * n; i++) {
        q[i] = (int8_t)((int)rng_below(&kernel_rng, 256) - 128);
        want[i] = (float)q[i] * scale[by_row ? i / n : i % n];
    }
    const float *placed = place_rows(SLOT_SCALE, scale, 1, scales, scales);
    float *y = place(SLOT_Y, rows * n * sizeof *y);
    (by_row ? set->expand_by_row : set->expand_by_column)(q, placed, rows, y);
    expect_intact(&where);
    expect_same_bits(&where, by_row ? "by row" : "by column", y, want, rows * n * sizeof *y);
    free(scale);
    free(want);
}

void test_expand(void **state) {
    (void)state;
    for (size_t s = 0; kernels_at(s) && kernels_at(s)->expand_by_row; s++)
        for (int kind = 0; kind < FILL_FINITE; kind++)
            for (size_t rows = 1; rows <= 40; rows++) {
                check_expand(kernels_at(s), rows, (enum fill)kind, false);
                check_expand(kernels_at(s), rows, (enum fill)kind, true);
            }
}

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
    for (size_t s = 0; kernels_at(s); s++) {
        const struct rows_case c = {
            {LAYER_NORM, kernels_at(s), m, n, 0, kind}, x, residual, weight, bias, epsilon};
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

double exponent_error(double x) {
    return 4 * ROUNDING * fabs(x);
}

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

/* ---- silu_mul ------------------------------------------------------------------------------- */

/* Four roundings, and the error of e^-|gate| as far as it counts. Where e^-|gate| is replaced by
 * 2^-126, the result is as good as 0. */
static void check_silu_mul(const float *gate, const float *up, size_t n, enum fill kind) {
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {SILU_MUL, kernels_at(s), 1, n, 0, kind};
        float *y = run_elementwise(&where, gate, up);
        for (size_t i = 0; i < n; i++) {
            const double g = (double)gate[i], u = (double)up[i];
            const double want = g / (1 + exp(-g)) * u, rest = 1 / (1 + exp(g));
            const double relative = 4 * ROUNDING + (EXP_ERROR + exponent_error(g)) * rest;
            if (g >= -87)
                expect_near(&where, 0, i, y[i], want,
                            fabs(want) * relative + 2 * (double)FLT_TRUE_MIN);
            else
                assert_true(fabs((double)y[i]) <= fabs(g * u) * 0x1p-125);
        }
        free(y);
    }
}

void test_silu_mul(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++) {
            float *gate = new_floats(n, (enum fill)kind), *up = new_floats(n, FILL_UNIFORM);
            check_silu_mul(gate, up, n, (enum fill)kind);
            free(gate);
            free(up);
        }
    enum { SWEEP = 4000 };
    float *gate = new_floats(SWEEP, FILL_UNIFORM), *up = new_floats(SWEEP, FILL_WIDE);
    for (size_t i = 0; i < SWEEP; i++)
        gate[i] *= i % 2 ? 100 : 10;
    check_silu_mul(gate, up, SWEEP, FILL_UNIFORM);
    free(gate);
    free(up);
}

/* ---- quantise ------------------------------------------------------------------------------- */

/* The rule of kernels.h for one block: `length` values, their q, and the bytes after them. */
static void check_quantised_block(const struct where *where, size_t i, const float *x,
                                  size_t length, const uint8_t *q, float scale, float zero) {
    double low = 0, high = 0;
    for (size_t c = 0; c < length; c++) {
        low = fmin(low, (double)x[c]);
        high = fmax(high, (double)x[c]);
    }
    const float span = (float)high - (float)low; /* rounded as in kernels.h */
    const double range = span < 0x1p-120f ? 0 : (double)span;
    const int steps = where->kernel == QUANTISE_NARROW ? NARROW_STEPS : 255;
    const double step = range / steps;
    expect_near(where, i, 0, scale, step, 2 * ROUNDING * step + (double)FLT_TRUE_MIN);
    assert_true(zero >= 0 && zero <= (float)steps && rintf(zero) == zero);
    for (size_t c = length; c < int8_row_bytes(length); c++)
        assert_true(q[c] == (uint8_t)zero);
    for (size_t c = 0; range == 0 && c < length; c++)
        assert_true(q[c] == 0);
    if (range == 0)
        return;
    /* Half a step for each of the two rounded numbers, and four roundings of up to `steps`. */
    const double slack = steps * 4 * ROUNDING;
    assert_true(fabs(-low / step - (double)zero) <= 0.5 + slack);
    for (size_t c = 0; c < length; c++) {
        const double want = (double)x[c] / step + (double)zero;
        const double allowed = q[c] == 255 ? 1 + slack : 0.5 + slack;
        expect_near(where, i, c, q[c], want, allowed);
        assert_true(q[c] <= steps + 1);
    }
}

static void check_quantised(const struct where *where, const float *x, struct quantised_rows rows) {
    const bool narrow = where->kernel == QUANTISE_NARROW;
    const size_t k = where->k, blocks = blocks_of(k, narrow), most = block_values(narrow);
    for (size_t i = 0; i < where->m; i++)
        for (size_t b = 0; b < blocks; b++) {
            const size_t start = b * most, left = k - start;
            check_quantised_block(where, i, x + i * k + start, left < most ? left : most,
                                  rows.q + i * int8_row_bytes(k) + start,
                                  rows.scale[i * blocks + b], rows.zero[i * blocks + b]);
        }
}

/* Returns the rows from `first` on, in any buffers, without the offset of signed values. */
static struct quantised_rows run_quantise(const struct where *where, const float *x, size_t first) {
    const bool narrow = where->kernel == QUANTISE_NARROW;
    const size_t m = where->m - first, k = where->k;
    const float *here = place_rows(SLOT_X, x + first * k, m, k, k);
    const struct quantised_rows rows = place_quantised(m, k, narrow);
    const int offset = !narrow && where->set->signed_activations;
    (narrow ? where->set->quantise_narrow : where->set->quantise)(here, m, k, rows);
    expect_intact(where);
    for (size_t i = 0; offset && i < m * int8_row_bytes(k); i++)
        rows.q[i] ^= 0x80;
    for (size_t i = 0; offset && i < m * int8_blocks(k); i++)
        rows.zero[i] += 128;
    return rows;
}

/* Results equal the scalar set's, in any batch. A zero of -0 counts as 0. */
static void expect_same_rows(const struct where *where, struct quantised_rows got,
                             struct quantised_rows want, size_t first) {
    const size_t m = where->m - first, bytes = int8_row_bytes(where->k);
    const size_t blocks = blocks_of(where->k, where->kernel == QUANTISE_NARROW);
    expect_same_bits(where, "other q than scalar", got.q, want.q + first * bytes, m * bytes);
    expect_same_bits(where, "other scales than scalar", got.scale, want.scale + first * blocks,
                     m * blocks * sizeof(float));
    for (size_t i = 0; i < m * blocks; i++)
        expect_near(where, i, 0, got.zero[i], (double)want.zero[first * blocks + i], 0);
}

static void check_quantise(size_t m, size_t k, enum fill kind, float factor) {
    float *x = new_floats(m * k, kind);
    for (size_t i = 0; i < m * k; i++)
        x[i] *= factor;
    for (int narrow = 0; narrow < 2; narrow++) {
        const struct quantised_rows want = new_quantised(m, k, narrow);
        struct where where = {narrow ? QUANTISE_NARROW : QUANTISE, &kernels_scalar, m, 0, k, kind};
        (narrow ? kernels_scalar.quantise_narrow : kernels_scalar.quantise)(x, m, k, want);
        check_quantised(&where, x, want);
        for (size_t s = 0; kernels_at(s); s++) {
            where.set = kernels_at(s);
            if (narrow && !where.set->quantise_narrow)
                continue;
            expect_same_rows(&where, run_quantise(&where, x, 0), want, 0);
            const size_t first = rng_below(&kernel_rng, m);
            expect_same_rows(&where, run_quantise(&where, x, first), want, first);
        }
        free_quantised(want);
    }
    free(x);
}

void test_quantise(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t k = 1; k <= 270; k++)
            check_quantise(rng_range(&kernel_rng, 1, 3), k, (enum fill)kind, 1);
    /* Values of one sign, and spans near the least that has an inverse. */
    for (int i = 0; i < 200; i++)
        check_quantise(rng_range(&kernel_rng, 1, 9), rng_range(&kernel_rng, 1, 500), FILL_EQUAL,
                       i % 2 ? 1 : exp2f(rng_between(&kernel_rng, -126, -110)));
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
    c.where.kernel = QUANTISE;
    run_quantise(&c.where, x, 0);
    c.where.kernel = QUANTISE_NARROW;
    if (set->quantise_narrow)
        run_quantise(&c.where, x, 0);
    c.where.kernel = DOT;
    set->dot(place_rows(SLOT_X, x, 1, n, n), place_rows(SLOT_W, other, 1, n, n), n);
    static const enum kernel kernels[] = {
        GELU,      RELU,     SILU_MUL, ADD,
#ifdef DECODER_KERNELS
        GELU_TANH, MULTIPLY, SOFT_CAP,
#endif
    };
    for (size_t kernel = 0; kernel < sizeof kernels / sizeof *kernels; kernel++) {
        c.where.kernel = kernels[kernel];
        float *here = place_rows(SLOT_X, x, 1, n, n);
        call_elementwise(&c.where, here, place_rows(SLOT_W, other, 1, n, n));
        expect_intact(&c.where);
    }
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
