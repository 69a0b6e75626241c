/* SPDX-License-Identifier: Apache-2.0
 * Scales and codes that packing computes of weights (kernels/weights.h), beside loops over single
 * weights. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "kernel_case.h"
#include "kernels/weights.h"

enum { MOST_WEIGHTS = 400 };

static float *placed(enum slot slot, const float *values, size_t n) {
    return memcpy(place(slot, n * sizeof *values), values, n * sizeof *values);
}

static float reference_largest(const float *w, size_t n) {
    float largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(w[i]))
            return NAN;
        largest = fmaxf(largest, fabsf(w[i]));
    }
    return largest;
}

/* Returns the sum of the numbers of one sign, divided by four, among the four weights of a group:
 * values 0, 1, 4 and 5 of eight, or with `from` = 2 values 2, 3, 6 and 7. */
static float one_sign(const float *eight, size_t from, float sign) {
    float sums[2];
    for (size_t i = 0; i < 2; i++)
        sums[i] = fmaxf(sign * eight[from + i] / 4, 0) + fmaxf(sign * eight[from + 4 + i] / 4, 0);
    return sums[0] + sums[1];
}

static float reference_quarter(const float *w, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i += 8)
        for (size_t from = 0; from <= 2; from += 2)
            most = fmaxf(most, fmaxf(one_sign(w + i, from, 1), one_sign(w + i, from, -1)));
    return fmaxf(most * (127.0f / (NARROW_WEIGHTS - 2)), reference_largest(w, n) / 4);
}

static void check_rounded(const float *w, size_t n, float inverse, int offset) {
    const size_t stride = 4 * rng_range(&kernel_rng, 1, 9), groups = n / 4;
    unsigned char *bytes = place_anywhere(SLOT_Y, groups ? (groups - 1) * stride + 4 : 0);
    int32_t sum = 0;
    const int32_t got = round_weights(w, n, inverse, offset, bytes, stride);
    for (size_t i = 0; i < n; i++) {
        const long wanted = lrintf(w[i] * inverse);
        assert_in_range(wanted + 127, 0, 254);
        assert_int_equal(bytes[i / 4 * stride + i % 4], (unsigned char)(wanted + offset));
        sum += (int32_t)wanted;
    }
    assert_int_equal(got, sum);
}

static void check_weights(size_t n, enum fill kind) {
    const struct where where = {GEMM_INT8, kernels_at(0), 1, n, 1, kind};
    const size_t whole = (n + WEIGHT_STEP - 1) / WEIGHT_STEP * WEIGHT_STEP;
    float room[MOST_WEIGHTS + WEIGHT_STEP], *values = new_floats(n, kind);
    const float *w = placed(SLOT_X, values, n);
    const float largest = largest_magnitude(w, n), wanted = reference_largest(values, n);
    assert_true(isnan(wanted) ? isnan(largest) : largest == wanted);
    const float *padded = pad_weights(w, n, room);
    assert_true((padded == w) == (n == whole));
    assert_memory_equal(padded, w, n * sizeof *w);
    for (size_t i = n; i < whole; i++)
        assert_int_equal(bits_of_float(padded[i]), 0);
    if (kind < FILL_FINITE) {
        const float quarter = narrow_quarter(padded, whole);
        assert_int_equal(bits_of_float(quarter), bits_of_float(reference_quarter(padded, whole)));
        check_rounded(padded, whole, inverse_scale(largest), rng_coin(&kernel_rng) ? 128 : 0);
        check_rounded(padded, whole, inverse_scale(quarter) / 4, 0);
    }
    expect_intact(&where);
    free(values);
}

void test_weights_packed(void **state) {
    (void)state;
    for (int kind = 0; kind <= FILL_SPECIAL; kind++)
        for (int i = 0; i < 60; i++)
            check_weights(rng_range(&kernel_rng, 1, MOST_WEIGHTS), (enum fill)kind);
}

void test_weights_moved(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        const size_t n = 4 * rng_range(&kernel_rng, 1, 20), rows = TRANSPOSED_ROWS;
        const size_t ld = rows + rng_below(&kernel_rng, 9);
        const struct where where = {GEMM_INT8, kernels_at(0), rows, n, ld, FILL_UNIFORM};
        float *values = new_floats(rows * n, FILL_UNIFORM), *factors = new_floats(n, FILL_WIDE);
        float *w = placed(SLOT_X, values, rows * n);
        float *columns = place(SLOT_Y, ((n - 1) * ld + rows) * sizeof *columns);
        transpose_weights(w, n, columns, ld);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < n; c++)
                assert_true(columns[c * ld + r] == values[r * n + c]);
        scale_weights(w, placed(SLOT_BIAS, factors, n), n);
        for (size_t c = 0; c < n; c++)
            assert_true(w[c] == values[c] * factors[c]);
        expect_intact(&where);
        free(values);
        free(factors);
    }
}
