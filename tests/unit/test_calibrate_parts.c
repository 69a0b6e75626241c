/* SPDX-License-Identifier: Apache-2.0
 * The parts of calibration: equations, eigenvectors, thresholds, and the order of neurons. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/matrix.h"
#include "calibrate/neurons.h"
#include "calibrate/thresholds.h"
#include "convert/hot.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static void systems_are_solved(void **state) {
    (void)state;
    const double matrix[] = {4, 2, 1, 2, 5, 3, 1, 3, 6}, wanted[] = {1, -2, 0.5, 3, 7, -1};
    double a[9], b[6] = {0};
    memcpy(a, matrix, sizeof a);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            for (int c = 0; c < 3; c++)
                b[2 * i + j] += matrix[3 * i + c] * wanted[2 * c + j];
    matrix_solve(a, b, 3, 2);
    for (int i = 0; i < 6; i++)
        assert_true(fabs(b[i] - wanted[i]) < 1e-12);
}

/* The second direction has a variance below 0, as sums of rounded products may give: what is found
 * leaves it out. */
static void directions_without_variance_are_left_out(void **state) {
    (void)state;
    double a[] = {4, 2, 2, 0.5}, b[] = {8, 1};
    matrix_solve(a, b, 2, 1);
    assert_true(fabs(b[0] - 2) < 1e-12 && fabs(b[1]) < 1e-12);
}

static void eigenvectors_are_found(void **state) {
    (void)state;
    /* 5, 2 and 1 along (1,1,0), (1,-1,0) and z. */
    const double a[] = {3.5, 1.5, 0, 1.5, 3.5, 0, 0, 0, 1};
    double v[6];
    wisp_error error;
    assert_int_equal(matrix_eigenvectors(a, 3, 2, v, &error), WISP_OK);
    assert_true(fabs(fabs(v[0]) - sqrt(0.5)) < 1e-9 && fabs(v[0] - v[2]) < 1e-9);
    assert_true(fabs(fabs(v[1]) - sqrt(0.5)) < 1e-9 && fabs(v[1] + v[3]) < 1e-9);
    assert_true(fabs(v[4]) < 1e-9 && fabs(v[5]) < 1e-9);
}

static void grams_are_sums_of_products(void **state) {
    (void)state;
    enum { M = 5, N = 3, K = 2500 };
    float *x = calloc(K * M, sizeof *x), *w = calloc(K * N, sizeof *w);
    double y[M * N];
    wisp_error error;
    assert_true(x && w);
    for (int i = 0; i < K * M; i++)
        x[i] = (float)(i % 17) - 8;
    for (int i = 0; i < K * N; i++)
        w[i] = (float)(i % 5);
    assert_int_equal(matrix_gram(kernels_at(0), x, w, y, M, N, K, &error), WISP_OK);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int c = 0; c < K; c++)
                sum += (double)x[c * M + i] * (double)w[c * N + j];
            assert_true(fabs(y[i * N + j] - sum) < 1e-6 * (1 + fabs(sum)));
        }
    free(x);
    free(w);
}

enum { TOKENS = 5, NEURONS = 2 };

/* Returns the least possible loss when `count` (token, neuron) pairs are computed and each neuron
 * computes the tokens with its largest logits. It tries every choice. */
static double least_loss(const float *sorted, size_t count) {
    double least = INFINITY;
    for (size_t a = 0; a <= TOKENS; a++) {
        if (count < a || count - a > TOKENS)
            continue;
        double lost = 0;
        for (size_t t = 0; t < TOKENS; t++) {
            lost += t >= a ? (double)sorted[t * NEURONS] : 0;
            lost += t >= count - a ? (double)sorted[t * NEURONS + 1] : 0;
        }
        least = fmin(least, lost);
    }
    return least;
}

static void thresholds_lose_least(void **state) {
    (void)state;
    /* Logits fall from token to token, so losses are already sorted. */
    static const float losses[] = {9, 1, 2, 8, 3, 0, 0.5f, 0.25f, 0, 2};
    float logits[TOKENS * NEURONS], thresholds[NEURONS];
    struct gains gains;
    struct arena arena = {0};
    wisp_error error;
    for (int i = 0; i < TOKENS * NEURONS; i++)
        logits[i] = 10 - (float)(i / NEURONS);
    assert_int_equal(gains_open(TOKENS, NEURONS, &arena, &arena, &gains, &error), WISP_OK);
    assert_int_equal(gains_add(&gains, logits, losses, NEURONS, &error), WISP_OK);
    for (float price = 20; price > 0.01f; price *= 0.8f) {
        const double share = gains_thresholds(&gains, price, thresholds);
        double lost = 0;
        size_t count = 0;
        for (int i = 0; i < TOKENS * NEURONS; i++) {
            const bool computed = logits[i] > thresholds[i % NEURONS];
            count += computed;
            lost += computed ? 0 : (double)losses[i];
        }
        assert_true(fabs(share - (double)count / (TOKENS * NEURONS)) < 1e-9);
        assert_true(lost <= least_loss(losses, count) + 1e-6);
    }
    assert_true(gains_thresholds(&gains, gains_price(&gains, 1, 1), NULL) > 0.7);
    arena_release(&arena);
}

/* Neurons that are added one by one have the gains of neurons that are added together. Thresholds
 * let through as many tokens as they state. */
static void neurons_may_be_added_in_parts(void **state) {
    (void)state;
    enum { MANY = 40, WIDE = 6 };
    float logits[MANY * WIDE], losses[MANY * WIDE], column[2][MANY];
    struct gains whole, parts;
    struct arena arena = {0};
    wisp_error error;
    for (int i = 0; i < MANY * WIDE; i++) {
        logits[i] = sinf((float)(i * i % 101));
        losses[i] = 1 + cosf((float)(i * 7 % 97));
    }
    assert_int_equal(gains_open(MANY, WIDE, &arena, &arena, &whole, &error), WISP_OK);
    assert_int_equal(gains_open(MANY, WIDE, &arena, &arena, &parts, &error), WISP_OK);
    assert_int_equal(gains_add(&whole, logits, losses, WIDE, &error), WISP_OK);
    for (int j = 0; j < WIDE; j++) {
        for (int t = 0; t < MANY; t++) {
            column[0][t] = logits[t * WIDE + j];
            column[1][t] = losses[t * WIDE + j];
        }
        assert_int_equal(gains_add(&parts, column[0], column[1], 1, &error), WISP_OK);
    }
    for (float price = 2; price > 0.1f; price *= 0.9f) {
        float expected[WIDE], thresholds[WIDE];
        const double share = gains_thresholds(&whole, price, expected);
        double computed = 0;
        for (int i = 0; i < MANY * WIDE; i++)
            computed += logits[i] > expected[i % WIDE];
        assert_true(fabs(share * (double)(MANY * WIDE) - computed) < 1e-6);
        assert_true(fabs(share - gains_thresholds(&parts, price, thresholds)) < 1e-9);
        assert_memory_equal(thresholds, expected, sizeof expected);
    }
    arena_release(&arena);
}

/* Frequent neurons come first, among equally frequent ones those that contribute most, then the
 * lower numbers. The hot ones hold nine tenths of all that is needed. */
static void frequent_neurons_come_first(void **state) {
    (void)state;
    enum { WIDE = 6 };
    static const float magnitude[WIDE] = {1, 3, 1, 0, 2, 1};
    static const int32_t expected[WIDE] = {2, 1, 0, 5, 4, 3};
    float frequency[WIDE] = {0.375f, 0.375f, 0.5f, 0, 0.25f, 0.375f};
    int32_t order[WIDE];
    struct arena scratch = {0};
    wisp_error error;
    assert_int_equal(neurons_order(frequency, magnitude, WIDE, &scratch, order, &error), WISP_OK);
    arena_release(&scratch);
    assert_memory_equal(order, expected, sizeof order);
    assert_int_equal(hot_for_share(frequency, order, WIDE, 0.9), 5);
    frequency[order[3]] = frequency[order[4]] = 0.01f;
    assert_int_equal(hot_for_share(frequency, order, WIDE, 0.9), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(systems_are_solved),
        cmocka_unit_test(directions_without_variance_are_left_out),
        cmocka_unit_test(eigenvectors_are_found),
        cmocka_unit_test(grams_are_sums_of_products),
        cmocka_unit_test(thresholds_lose_least),
        cmocka_unit_test(neurons_may_be_added_in_parts),
        cmocka_unit_test(frequent_neurons_come_first),
    };
    return cmocka_run_group_tests_name("parts of calibration", tests, NULL, NULL);
}
