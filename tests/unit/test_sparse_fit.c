/* SPDX-License-Identifier: Apache-2.0
 * Compares the calibration of one layer with results from its weights in double precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/fit.h"
#include "calibrate/losses.h"
#include "calibrate/neurons.h"
#include "support/rng.h"

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
static struct layer make_layer(enum activation activation) {
    struct rng random = {7};
    struct layer s = {.kernels = kernels_at(0),
                      .hidden_size = HIDDEN,
                      .intermediate_size = WIDE,
                      .activation = activation,
                      .up = random_values(&random, WIDE * HIDDEN, 0.5f),
                      .up_bias = random_values(&random, WIDE, 1),
                      .down = random_values(&random, HIDDEN * WIDE, 0.5f),
                      .down_bias = random_values(&random, HIDDEN, 0.1f),
                      .x = random_values(&random, FITTED * HIDDEN, 1),
                      .tokens = FITTED,
                      .held_out = random_values(&random, HELD_OUT * HIDDEN, 1),
                      .held_out_tokens = HELD_OUT};
    s.predictor_x = s.x;
    s.predictor_held_out = s.held_out;
    if (activation == ACTIVATION_GATED_SILU)
        s.gate = random_values(&random, WIDE * HIDDEN, 1);
    for (size_t c = 0; c < HIDDEN; c++)
        for (size_t j = 0; j < WIDE; j++)
            s.down[c * WIDE + j] *= (float)(1 + j * 11 % WIDE) / (float)WIDE;
    return s;
}

static void release_layer(struct layer *s) {
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

/* Returns the activation of neuron j for x. */
static double activation_of(const struct layer *s, size_t j, const float *x) {
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

/* Returns the squared loss of the layer's output for x without neuron j. */
static double loss_of(const struct layer *s, size_t j, double center, const float *x) {
    const double value = activation_of(s, j, x) - center;
    double squares = 0;
    for (size_t c = 0; c < HIDDEN; c++)
        squares += (double)s->down[c * WIDE + j] * (double)s->down[c * WIDE + j];
    return value * value * squares;
}

static bool is_near(double a, double b) {
    return fabs(a - b) < 1e-3 * (1 + fabs(b));
}

/* A layer before fitting, the same layer after fitting, and the fit. */
struct fitted {
    struct layer before, after;
    struct layer_fit fit;
    struct gains gains;
    struct arena arena, scratch;
};

static struct fitted *fit_or_fail(enum activation activation) {
    struct fitted *f = calloc(1, sizeof *f);
    wisp_error error;
    const struct predictor_formats formats = {block_format_by_id(BLOCK_F32),
                                              block_format_by_id(BLOCK_F32)};
    const struct fit_options options = {
        .rank = RANK, .computed = 0.3f, .steps = FIT_STEPS, .seed = 5};
    assert_non_null(f);
    f->before = make_layer(activation);
    f->after = make_layer(activation);
    f->after.arena = &f->arena;
    assert_int_equal(layer_study_neurons(&f->after, &f->scratch, &error), WISP_OK);
    assert_int_equal(predictor_fit(&f->after, &options, &f->scratch, &f->fit.trained, &error),
                     WISP_OK);
    assert_int_equal(layer_find_gains(&f->after, &formats, &f->fit, &f->gains, &f->scratch, &error),
                     WISP_OK);
    return f;
}

static void release(struct fitted *f) {
    release_layer(&f->before);
    release_layer(&f->after);
    arena_release(&f->arena);
    arena_release(&f->scratch);
    free(f);
}

/* The hull of each place ends with all that its neuron can gain, plus the hundredth that is spread
 * over all tokens, so that every token is worth something. */
static void gains_are_those_of_the_neuron(void **state) {
    (void)state;
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        struct fitted *f = fit_or_fail(activations[a]);
        const struct gains *g = &f->gains;
        assert_int_equal(g->neurons, WIDE);
        for (size_t i = 0; i < WIDE; i++) {
            double gained = 0, computed = 0, lost = 0;
            const struct hull *hull = &g->hulls[i];
            for (size_t c = 0; c < hull->n; c++) {
                const struct gain *corner = &hull->corners[c];
                gained += (double)corner->steepness * ((double)corner->computed - computed);
                computed = (double)corner->computed;
            }
            for (size_t t = 0; t < FITTED; t++)
                lost += loss_of(&f->before, (size_t)f->after.order[i], (double)f->after.center[i],
                                f->before.x + t * HIDDEN) /
                        f->fit.variance;
            assert_true(is_near(computed, FITTED) && is_near(gained, 1.01 * lost));
            assert_true(hull->corners[hull->n - 1].steepness > 0);
        }
        release(f);
    }
}

/* Frequencies belong to their neurons and fall along the order; the weights are in that order. */
static void hot_neurons_come_first(void **state) {
    (void)state;
    struct fitted *f = fit_or_fail(ACTIVATION_RELU);
    double needed = 0, hot = 0;
    bool seen[WIDE] = {false};
    for (size_t i = 0; i < WIDE; i++) {
        const size_t j = (size_t)f->after.order[i];
        double active = 0;
        for (size_t t = 0; t < FITTED; t++)
            active += activation_of(&f->before, j, f->before.x + t * HIDDEN) > 0;
        assert_true(fabs(active / (double)FITTED - (double)f->after.frequency[j]) < 0.005);
        assert_memory_equal(f->after.up + i * HIDDEN, f->before.up + j * HIDDEN,
                            HIDDEN * sizeof(float));
        assert_false(seen[j]);
        seen[j] = true;
        needed += active;
        hot += i < f->after.hot ? active : 0;
    }
    assert_true(hot >= 0.9 * needed && f->after.hot < WIDE);
    release(f);
}

/* Errors equal the contributions of the skipped neurons: none without thresholds, all with the
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
        struct fitted *f = fit_or_fail(activations[a]);
        const float *x = f->before.held_out;
        wisp_calibrated_quality quality;
        struct loss_work work;
        assert_int_equal(loss_work_open(&f->after, &f->fit, &f->scratch, &work, &error), WISP_OK);
        assert_int_equal(
            layer_errors(&f->after, &f->fit, lowest, x, x, HELD_OUT, &work, errors, &error),
            WISP_OK);
        for (size_t i = 0; i < HELD_OUT * HIDDEN; i++)
            assert_true(fabsf(errors[i]) < 1e-6f);
        assert_int_equal(
            layer_errors(&f->after, &f->fit, highest, x, x, HELD_OUT, &work, errors, &error),
            WISP_OK);
        for (size_t t = 0; t < HELD_OUT; t++)
            for (size_t c = 0; c < HIDDEN; c++) {
                double lost = 0;
                for (size_t i = 0; i < WIDE; i++) {
                    const size_t j = (size_t)f->after.order[i];
                    lost += (activation_of(&f->before, j, x + t * HIDDEN) -
                             (double)f->after.center[i]) *
                            (double)f->before.down[c * WIDE + j];
                }
                assert_true(is_near((double)errors[t * HIDDEN + c], lost));
            }
        assert_int_equal(layer_measure(&f->after, &f->fit, lowest, &f->scratch, &quality, &error),
                         WISP_OK);
        assert_true(quality.share == 1 && quality.recall == 1 && quality.error < 1e-9);
        assert_true(is_near(quality.precision, quality.needed));
        release(f);
    }
}

/* At 30 % the predictor loses less than half as much as the same number of neurons chosen by
 * chance. */
static void predictors_are_better_than_chance(void **state) {
    (void)state;
    for (size_t a = 0; a < sizeof activations / sizeof *activations; a++) {
        struct fitted *f = fit_or_fail(activations[a]);
        float thresholds[WIDE], highest[WIDE];
        wisp_calibrated_quality some, none;
        wisp_error error;
        for (size_t i = 0; i < WIDE; i++)
            highest[i] = 1e30f;
        gains_thresholds(&f->gains, gains_price(&f->gains, 1, 0.3f), thresholds);
        assert_int_equal(layer_measure(&f->after, &f->fit, thresholds, &f->scratch, &some, &error),
                         WISP_OK);
        assert_int_equal(layer_measure(&f->after, &f->fit, highest, &f->scratch, &none, &error),
                         WISP_OK);
        assert_true(some.share > 0.2 && some.share < 0.4 && none.share == 0);
        assert_true(some.recall > 1.3 * some.share);
        print_message("activation %zu: error %.4f of %.4f, recall %.3f\n", a, some.error,
                      none.error, some.recall);
        assert_true(some.error < 0.35 * none.error);
        release(f);
    }
}

static void fit_is_finite(struct layer *layer) {
    const struct fit_options options = {
        .rank = RANK, .computed = 0.3f, .steps = FIT_STEPS, .seed = 5};
    struct predictor p;
    struct arena arena = {0}, scratch = {0};
    wisp_error error;
    layer->arena = &arena;
    assert_int_equal(layer_study_neurons(layer, &scratch, &error), WISP_OK);
    assert_int_equal(predictor_fit(layer, &options, &scratch, &p, &error), WISP_OK);
    for (size_t i = 0; i < HIDDEN * RANK; i++)
        assert_true(isfinite(p.p[i]));
    for (size_t i = 0; i < RANK * WIDE; i++)
        assert_true(isfinite(p.q[i]));
    for (size_t i = 0; i < RANK; i++)
        assert_true(isfinite(p.p_bias[i]));
    for (size_t i = 0; i < WIDE; i++)
        assert_true(isfinite(p.q_bias[i]));
    release_layer(layer);
    arena_release(&arena);
    arena_release(&scratch);
}

/* The square of every contribution is 0 as a float. */
static void predictors_of_tiny_contributions_are_finite(void **state) {
    (void)state;
    struct layer layer = make_layer(ACTIVATION_RELU);
    for (size_t i = 0; i < WIDE * HIDDEN; i++)
        layer.up[i] *= 1e-26f;
    for (size_t i = 0; i < WIDE; i++)
        layer.up_bias[i] *= 1e-26f;
    fit_is_finite(&layer);
}

/* If all tokens have one hidden state, rounding may leave its variances below 0. */
static void predictors_of_equal_tokens_are_finite(void **state) {
    (void)state;
    struct layer layer = make_layer(ACTIVATION_RELU);
    for (size_t i = HIDDEN; i < FITTED * HIDDEN; i++)
        layer.x[i] = layer.x[i % HIDDEN];
    fit_is_finite(&layer);
}

/* ---- forms of the predictor ----------------------------------------------------------------- */

enum { BIG_HIDDEN = 64, BIG_WIDE = 48, BIG_RANK = 32, ROWS = 50 };

static struct predictor random_predictor(struct rng *random, size_t hidden, size_t wide,
                                         size_t rank) {
    return (struct predictor){.hidden_size = hidden,
                              .intermediate_size = wide,
                              .rank = rank,
                              .p = random_values(random, hidden * rank, 1),
                              .p_bias = random_values(random, rank, 1),
                              .q = random_values(random, rank * wide, 1),
                              .q_bias = random_values(random, wide, 1)};
}

static void logits_or_fail(const struct predictor *p, const float *x, size_t n, float *logits) {
    float *h = malloc(n * p->rank * sizeof *h);
    wisp_error error;
    assert_non_null(h);
    assert_int_equal(predictor_inner(kernels_at(0), p, x, n, h, &error), WISP_OK);
    assert_int_equal(
        predictor_logits(kernels_at(0), p, 0, p->intermediate_size, h, n, logits, &error), WISP_OK);
    free(h);
}

/* Returns the root mean square of a - b, relative to that of b. */
static double difference(const float *a, const float *b, size_t n) {
    double off = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        squares += (double)b[i] * (double)b[i];
    }
    return sqrt(off / squares);
}

/* P and Q stored as F32 are not rounded; 8 bits change them little and 4 bits more. What is not
 * finite is an error. */
static void predictors_are_rounded_as_in_files(void **state) {
    (void)state;
    static const uint32_t types[] = {BLOCK_F32, BLOCK_Q8_0, BLOCK_Q4_0};
    static const double least[] = {0, 0.002, 0.03}, most[] = {1e-7, 0.02, 0.3};
    struct rng random = {11};
    struct predictor from = random_predictor(&random, BIG_HIDDEN, BIG_WIDE, BIG_RANK), to;
    float *x = random_values(&random, ROWS * BIG_HIDDEN, 1);
    float logits[2][ROWS * BIG_WIDE];
    struct arena arena = {0};
    wisp_error error;
    logits_or_fail(&from, x, ROWS, logits[0]);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct predictor_formats formats = {block_format_by_id(types[i]),
                                                  block_format_by_id(types[i])};
        assert_int_equal(predictor_round(&from, &formats, &arena, &to, &error), WISP_OK);
        logits_or_fail(&to, x, ROWS, logits[1]);
        const double off = difference(logits[1], logits[0], ROWS * BIG_WIDE);
        assert_true(off >= least[i] && off <= most[i]);
    }
    float *const parts[] = {from.p, from.p_bias, from.q, from.q_bias};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const struct predictor_formats formats = {block_format_by_id(types[0]),
                                                  block_format_by_id(types[0])};
        const float kept = *parts[i];
        *parts[i] = i % 2 ? NAN : INFINITY;
        assert_int_equal(predictor_round(&from, &formats, &arena, &to, &error), WISP_ERROR_FORMAT);
        assert_non_null(strstr(error.message, "not finite"));
        *parts[i] = kept;
    }
    free(from.p);
    free(from.p_bias);
    free(from.q);
    free(from.q_bias);
    arena_release(&arena);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gains_are_those_of_the_neuron),
        cmocka_unit_test(hot_neurons_come_first),
        cmocka_unit_test(errors_are_what_is_left_out),
        cmocka_unit_test(predictors_are_better_than_chance),
        cmocka_unit_test(predictors_of_tiny_contributions_are_finite),
        cmocka_unit_test(predictors_of_equal_tokens_are_finite),
        cmocka_unit_test(predictors_are_rounded_as_in_files),
    };
    return cmocka_run_group_tests_name("sparse fit", tests, NULL, NULL);
}
