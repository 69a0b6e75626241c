/* SPDX-License-Identifier: Apache-2.0
 * Calibration of one layer, against what its weights say in double precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rng.h"
#include "sparse/compensation.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { HIDDEN = 16, WIDE = 40, FITTED = 700, HELD_OUT = 90, RANK = 6 };

static const enum activation activations[] = {ACTIVATION_RELU, ACTIVATION_GELU,
                                              ACTIVATION_GATED_SILU};

static float *random_values(struct rng *random, size_t n, float scale) {
    float *values = malloc(n * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < n; i++)
        values[i] = rng_between(random, -1.7f * scale, 1.7f * scale);
    return values;
}

/* Neurons differ in how often they are active, and in how much they matter then. */
static struct layer_sample make_sample(enum activation activation) {
    struct rng random = {7};
    struct layer_sample s = {.kernels = kernels_at(0),
                             .hidden = HIDDEN,
                             .wide = WIDE,
                             .activation = activation,
                             .up = random_values(&random, WIDE * HIDDEN, 0.5f),
                             .up_bias = random_values(&random, WIDE, 1),
                             .down = random_values(&random, HIDDEN * WIDE, 0.5f),
                             .down_bias = random_values(&random, HIDDEN, 0.1f),
                             .x = random_values(&random, FITTED * HIDDEN, 1),
                             .tokens = FITTED,
                             .held_out = random_values(&random, HELD_OUT * HIDDEN, 1),
                             .held_out_tokens = HELD_OUT};
    if (activation == ACTIVATION_GATED_SILU)
        s.gate = random_values(&random, WIDE * HIDDEN, 1);
    for (size_t c = 0; c < HIDDEN; c++)
        for (size_t j = 0; j < WIDE; j++)
            s.down[c * WIDE + j] *= (float)(1 + j * 11 % WIDE) / (float)WIDE;
    return s;
}

static void release_sample(struct layer_sample *s) {
    free(s->up);
    free(s->up_bias);
    free(s->down);
    free(s->down_bias);
    free(s->gate);
    free(s->x);
    free(s->held_out);
}

static double dot(const float *a, const float *b) {
    double sum = 0;
    for (size_t c = 0; c < HIDDEN; c++)
        sum += (double)a[c] * (double)b[c];
    return sum;
}

/* Neuron j's activation for x. */
static double activation_of(const struct layer_sample *s, size_t j, const float *x) {
    const double up = dot(s->up + j * HIDDEN, x) + (double)s->up_bias[j];
    switch (s->activation) {
    case ACTIVATION_RELU:
        return up > 0 ? up : 0;
    case ACTIVATION_GELU:
        return up * (1 + erf(up / sqrt(2))) / 2;
    default: {
        const double gate = dot(s->gate + j * HIDDEN, x);
        return gate / (1 + exp(-gate)) * up;
    }
    }
}

/* What the layer's output for x would lose without neuron j, squared. */
static double loss_of(const struct layer_sample *s, size_t j, double center, const float *x) {
    const double value = activation_of(s, j, x) - center;
    double squares = 0;
    for (size_t c = 0; c < HIDDEN; c++)
        squares += (double)s->down[c * WIDE + j] * (double)s->down[c * WIDE + j];
    return value * value * squares;
}

static bool is_near(double a, double b) {
    return fabs(a - b) < 1e-3 * (1 + fabs(b));
}

/* A sample as it was, the same after fitting, and the fit. */
struct fitted {
    struct layer_sample before, after;
    struct layer_fit fit;
};

static struct fitted fit_or_fail(enum activation activation) {
    struct fitted f = {.before = make_sample(activation), .after = make_sample(activation)};
    wisp_error error;
    assert_int_equal(layer_fit(&f.after, RANK, 0.3f, 5, &f.fit, &error), WISP_OK);
    return f;
}

static void release(struct fitted *f) {
    release_sample(&f->before);
    release_sample(&f->after);
    layer_fit_release(&f->fit);
}

/* The hull of each place ends where all is gained that the neuron there has to give. */
static void gains_are_those_of_the_neuron(void **state) {
    (void)state;
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        struct fitted f = fit_or_fail(activations[a]);
        const struct gains *g = &f.fit.gains;
        assert_int_equal(g->neurons, WIDE);
        for (size_t i = 0; i < WIDE; i++) {
            double gained = 0, computed = 0, lost = 0;
            for (size_t c = g->starts[i]; c < g->starts[i + 1]; c++) {
                gained +=
                    (double)g->corners[c].steepness * ((double)g->corners[c].computed - computed);
                computed = (double)g->corners[c].computed;
            }
            for (size_t t = 0; t < FITTED; t++)
                lost += loss_of(&f.before, (size_t)f.fit.order[i], (double)f.fit.center[i],
                                f.before.x + t * HIDDEN) /
                        f.fit.variance;
            assert_true(is_near(computed, FITTED) && is_near(gained, lost));
        }
        release(&f);
    }
}

/* Frequencies are the neurons' own, and fall along the order; the weights are in it. */
static void hot_neurons_come_first(void **state) {
    (void)state;
    struct fitted f = fit_or_fail(ACTIVATION_RELU);
    double needed = 0, hot = 0;
    bool seen[WIDE] = {false};
    for (size_t i = 0; i < WIDE; i++) {
        const size_t j = (size_t)f.fit.order[i];
        double active = 0;
        for (size_t t = 0; t < FITTED; t++)
            active += activation_of(&f.before, j, f.before.x + t * HIDDEN) > 0;
        assert_true(fabs(active / FITTED - (double)f.fit.frequency[j]) < 0.005);
        assert_memory_equal(f.after.up + i * HIDDEN, f.before.up + j * HIDDEN,
                            HIDDEN * sizeof(float));
        assert_false(seen[j]);
        seen[j] = true;
        needed += active;
        hot += i < f.fit.hot ? active : 0;
    }
    assert_true(hot >= 0.9 * needed && f.fit.hot < WIDE);
    release(&f);
}

/* Errors are what the neurons left out would have added: none without thresholds, all with the
 * highest. */
static void errors_are_what_is_left_out(void **state) {
    (void)state;
    float lowest[WIDE], highest[WIDE], errors[HELD_OUT * HIDDEN];
    wisp_error error;
    for (size_t i = 0; i < WIDE; i++) {
        lowest[i] = -1e30f;
        highest[i] = 1e30f;
    }
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        struct fitted f = fit_or_fail(activations[a]);
        const float *x = f.before.held_out;
        struct layer_quality quality;
        assert_int_equal(layer_errors(&f.after, &f.fit, lowest, x, HELD_OUT, errors, &error),
                         WISP_OK);
        for (size_t i = 0; i < HELD_OUT * HIDDEN; i++)
            assert_true(fabsf(errors[i]) < 1e-6f);
        assert_int_equal(layer_errors(&f.after, &f.fit, highest, x, HELD_OUT, errors, &error),
                         WISP_OK);
        for (size_t t = 0; t < HELD_OUT; t++)
            for (size_t c = 0; c < HIDDEN; c++) {
                double lost = 0;
                for (size_t i = 0; i < WIDE; i++) {
                    const size_t j = (size_t)f.fit.order[i];
                    lost +=
                        (activation_of(&f.before, j, x + t * HIDDEN) - (double)f.fit.center[i]) *
                        (double)f.before.down[c * WIDE + j];
                }
                assert_true(is_near((double)errors[t * HIDDEN + c], lost));
            }
        assert_int_equal(layer_measure(&f.after, &f.fit, lowest, &quality, &error), WISP_OK);
        assert_true(quality.share == 1 && quality.recall == 1 && quality.error < 1e-9);
        assert_true(is_near(quality.precision, quality.needed));
        release(&f);
    }
}

/* At 30 % the predictor loses less than half of what would be lost with as many by chance. */
static void predictors_are_better_than_chance(void **state) {
    (void)state;
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        struct fitted f = fit_or_fail(activations[a]);
        float thresholds[WIDE], highest[WIDE];
        struct layer_quality some, none;
        wisp_error error;
        for (size_t i = 0; i < WIDE; i++)
            highest[i] = 1e30f;
        gains_thresholds(&f.fit.gains, gains_price(&f.fit.gains, 1, 0.3f), thresholds);
        assert_int_equal(layer_measure(&f.after, &f.fit, thresholds, &some, &error), WISP_OK);
        assert_int_equal(layer_measure(&f.after, &f.fit, highest, &none, &error), WISP_OK);
        assert_true(some.share > 0.2 && some.share < 0.4 && none.share == 0);
        assert_true(some.recall > 1.3 * some.share);
        print_message("activation %zu: error %.4f of %.4f, recall %.3f\n", a, some.error,
                      none.error, some.recall);
        assert_true(some.error < 0.35 * none.error);
        release(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gains_are_those_of_the_neuron),
        cmocka_unit_test(hot_neurons_come_first),
        cmocka_unit_test(errors_are_what_is_left_out),
        cmocka_unit_test(predictors_are_better_than_chance),
    };
    return cmocka_run_group_tests_name("sparse fit", tests, NULL, NULL);
}
