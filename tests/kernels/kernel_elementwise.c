/* SPDX-License-Identifier: Apache-2.0
 * Checks of the kernels that work element by element. */
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

void sweep_elementwise(void (*check)(const float *x, size_t n, enum fill kind), float low,
                       float high, uint32_t step) {
    enum { BATCH = 4096 };
    static float x[BATCH];
    size_t n = 0;
    uint32_t bits = bits_of_float(low) + (uint32_t)rng_below(&kernel_rng, step);
    for (; bits <= bits_of_float(high); bits += step) {
        x[n++] = float_of_bits(bits);
        x[n++] = -float_of_bits(bits);
        if (n == BATCH) {
            check(x, n, FILL_FINITE);
            n = 0;
        }
    }
    if (n > 0)
        check(x, n, FILL_FINITE);
}

/* Results with one rounding or none: every set gives the bits of the scalar set. */
static void check_add_or_relu(enum kernel kernel, size_t n, enum fill kind) {
    float *x = new_floats(n, kind), *other = new_floats(n, kind);
    for (size_t s = 0; checked_at(s); s++) {
        const struct where where = {kernel, checked_at(s), 1, n, 0, kind};
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
    for (size_t s = 0; checked_at(s); s++) {
        const struct where where = {GELU, checked_at(s), 1, n, 0, kind};
        float *y = run_elementwise(&where, x, x);
        for (size_t i = 0; i < n; i++)
            expect_near(&where, 0, i, y[i], exact_gelu(x[i]), gelu_tolerance(x[i]));
        free(y);
    }
}

void test_gelu(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 40; n++) {
            float *x = new_floats(n, (enum fill)kind);
            check_gelu(x, n, (enum fill)kind);
            free(x);
        }
    sweep_elementwise(check_gelu, 0, 0x1p-6f, 65521);
    sweep_elementwise(check_gelu, 0x1p-6f, 7, 509);
    sweep_elementwise(check_gelu, 7, FLT_MAX, 65521);
    static const float edges[] = {0,           -0.0f, 5.5f,   5.4999995f, 5.5000005f, -5.5f,
                                  -5.4999995f, 2.75f, -2.75f, 0.75f,      -0.75f,     -5.5000005f};
    check_gelu(edges, sizeof edges / sizeof *edges, FILL_FINITE);
}

/* ---- silu_mul ------------------------------------------------------------------------------- */

/* Four roundings, and the error of e^-|gate| as far as it counts. If e^-|gate| is replaced by
 * 2^-126, the result is as good as 0. */
static void check_silu_mul(const float *gate, const float *up, size_t n, enum fill kind) {
    for (size_t s = 0; checked_at(s); s++) {
        const struct where where = {SILU_MUL, checked_at(s), 1, n, 0, kind};
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

/* ---- NaN and infinities --------------------------------------------------------------------- */

void test_elementwise_special_values(void **state) {
    static const enum kernel kernels[] = {
        GELU,      RELU,     SILU_MUL, ADD,
#ifdef DECODER_KERNELS
        GELU_TANH, MULTIPLY, SOFT_CAP,
#endif
    };
    (void)state;
    for (size_t s = 0; kernels_at(s); s++)
        for (int i = 0; i < 100; i++) {
            const size_t n = rng_range(&kernel_rng, 1, 200);
            float *x = new_floats(n, FILL_SPECIAL), *other = new_floats(n, FILL_SPECIAL);
            struct where where = {ADD, kernels_at(s), 1, n, n, FILL_SPECIAL};
            for (size_t kernel = 0; kernel < sizeof kernels / sizeof *kernels; kernel++) {
                where.kernel = kernels[kernel];
                float *here = place_rows(SLOT_X, x, 1, n, n);
                call_elementwise(&where, here, place_rows(SLOT_W, other, 1, n, n));
                expect_intact(&where);
            }
            free(x);
            free(other);
        }
}
