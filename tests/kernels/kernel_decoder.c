/* SPDX-License-Identifier: Apache-2.0
 * Checks of the kernels that only decoders use. WebAssembly modules leave them out. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernel_case.h"

#ifdef DECODER_KERNELS

/* ---- gelu_tanh ------------------------------------------------------------------------------ */

/* Four roundings, and the error of e^-|2u| as far as it counts. 2u is rounded twice as often as the
 * exponent of a softmax. If e^-|2u| is replaced by 2^-126, the result is as good as 0. */
static void check_gelu_tanh(const float *x, size_t n, enum fill kind) {
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {GELU_TANH, kernels_at(s), 1, n, 0, kind};
        float *y = run_elementwise(&where, x, x);
        for (size_t i = 0; i < n; i++) {
            const double v = (double)x[i], u = 1.5957691216057307118 * (v + 0.044715 * v * v * v);
            const double want = v / (1 + exp(-u)), rest = 1 / (1 + exp(u));
            const double relative = 4 * ROUNDING + (EXP_ERROR + 2 * exponent_error(u)) * rest;
            if (u >= -87)
                expect_near(&where, 0, i, y[i], want,
                            fabs(want) * relative + 2 * (double)FLT_TRUE_MIN);
            else
                assert_true(fabs((double)y[i]) <= 0x1p-120);
        }
        free(y);
    }
}

void test_gelu_tanh(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 40; n++) {
            float *x = new_floats(n, (enum fill)kind);
            check_gelu_tanh(x, n, (enum fill)kind);
            free(x);
        }
    sweep_elementwise(check_gelu_tanh, 0, 0x1p-6f, 65521);
    sweep_elementwise(check_gelu_tanh, 0x1p-6f, 20, 509);
    sweep_elementwise(check_gelu_tanh, 20, FLT_MAX, 65521);
    static const float edges[] = {0, -0.0f, 16, -16, -15.999999f, -16.000002f, -FLT_MAX, FLT_MAX};
    check_gelu_tanh(edges, sizeof edges / sizeof *edges, FILL_FINITE);
}

/* ---- multiply ------------------------------------------------------------------------------- */

void test_multiply(void **state) {
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 70; n++) {
            float *y = new_floats(n, (enum fill)kind), *x = new_floats(n, FILL_UNIFORM);
            for (size_t s = 0; kernels_at(s); s++) {
                const struct where where = {MULTIPLY, kernels_at(s), 1, n, 0, (enum fill)kind};
                float *product = run_elementwise(&where, y, x);
                for (size_t i = 0; i < n; i++)
                    expect_near(&where, 0, i, product[i], (double)(y[i] * x[i]), 0);
                float *square = place_rows(SLOT_X, x, 1, n, n);
                where.set->multiply(square, square, n);
                for (size_t i = 0; i < n; i++)
                    expect_near(&where, 0, i, square[i], (double)(x[i] * x[i]), 0);
                free(product);
            }
            free(y);
            free(x);
        }
}

/* ---- soft_cap ------------------------------------------------------------------------------- */

static void check_soft_cap(const float *x, size_t n, size_t cap, enum fill kind) {
    for (size_t s = 0; kernels_at(s); s++) {
        const struct where where = {SOFT_CAP, kernels_at(s), 1, n, cap, kind};
        float *y = run_elementwise(&where, x, x);
        for (size_t i = 0; i < n; i++) {
            const double most = (double)cap, scaled = (double)x[i] * (double)SOFT_CAP_SCALE;
            const double want = most * tanh(scaled / most);
            expect_near(&where, 0, i, y[i], want, 4e-7 * most);
            /* No score grows, or changes its sign. */
            assert_true(fabs((double)y[i]) <= fabs(scaled) * (1 + 4 * ROUNDING) + (double)FLT_MIN);
            assert_true((double)y[i] * scaled >= 0);
        }
        free(y);
    }
}

void test_soft_cap(void **state) {
    enum { SWEEP = 4000 };
    (void)state;
    for (int kind = 0; kind < FILL_FINITE; kind++)
        for (size_t n = 1; n <= 40; n++) {
            float *x = new_floats(n, (enum fill)kind);
            check_soft_cap(x, n, n % 2 ? 50 : 1, (enum fill)kind);
            free(x);
        }
    float *x = new_floats(SWEEP, FILL_UNIFORM);
    for (size_t i = 0; i < SWEEP; i++)
        x[i] *= i % 2 ? 2000 : 100;
    check_soft_cap(x, SWEEP, 30, FILL_UNIFORM);
    free(x);
}

#else

void test_gelu_tanh(void **state) {
    (void)state;
}

void test_multiply(void **state) {
    (void)state;
}

void test_soft_cap(void **state) {
    (void)state;
}

#endif
