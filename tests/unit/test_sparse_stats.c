/* SPDX-License-Identifier: Apache-2.0
 * Statistics of sparse layers that sessions count, recall above all. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sparse/recall.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"
#include "support/sparse_reference.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum {
    MOST_LAYERS = 8,
    HELD_OUT_EVERY = 8,
    HELD_OUT = TEXTS / HELD_OUT_EVERY,
    ROWS = 80,
    WIDE = 64
};

static struct predicting predicting_of(const char *activation) {
    return (struct predicting){.shape = tiny_shape_of(activation),
                               .activation = activation,
                               .rank = 32,
                               .type = BLOCK_Q8_0};
}

/* ---- recall --------------------------------------------------------------------------------- */

static int compare_sizes(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double column_length(const struct reference *r, size_t neuron) {
    double squares = 0;
    for (size_t c = 0; c < r->hidden; c++) {
        const double weight = (double)r->down[c * r->wide + neuron];
        squares += weight * weight;
    }
    return sqrt(squares);
}

/* Computes the magnitudes [ROWS, WIDE] of the contributions of layer 0's neurons, by place, in
 * double precision. */
static void reference_sizes(const wisp_model *model, const float *x, double *sizes) {
    struct reference r = reference_open(model, 0);
    for (size_t place = 0; place < WIDE; place++) {
        const size_t j = reference_neuron(&r, place);
        for (size_t t = 0; t < ROWS; t++) {
            const double center = r.center ? (double)r.center[j] : 0;
            const double above = reference_activation(&r, j, x + t * HIDDEN) - center;
            sizes[t * WIDE + place] = fabs(above) * column_length(&r, j);
        }
    }
    reference_close(&r);
}

/* With ReLU a token needs the neurons that contribute, else the largest fifth. */
static struct recall_totals reference_recall(const wisp_model *model, const float *x,
                                             const bool *chosen) {
    static double sizes[ROWS * WIDE], sorted[ROWS * WIDE];
    struct recall_totals totals = {0};
    reference_sizes(model, x, sizes);
    memcpy(sorted, sizes, sizeof sizes);
    qsort(sorted, ROWS * WIDE, sizeof *sorted, compare_sizes);
    const bool relu = model->network.config.activation == ACTIVATION_RELU;
    const double most = relu ? 0 : sorted[ROWS * WIDE * 4 / 5];
    for (size_t i = 0; i < ROWS * WIDE; i++) {
        totals.needed += sizes[i] > most;
        totals.found += sizes[i] > most && chosen[i % WIDE];
    }
    return totals;
}

/* Counts the recall over some rows in layer 0. Counting changes no bit of the layer's output. */
static struct recall_totals recall_of(const struct sparse_ffn *f, const float *thresholds,
                                      const float *x) {
    static float y[2][ROWS * HIDDEN];
    struct recall recall;
    wisp_error error;
    assert_int_equal(recall_open(&recall, f->neurons, f->activation, f->kernels->sparse, &error),
                     WISP_OK);
    struct sparse_counts plain = {0}, counts = {.recall = &recall};
    apply_sparse(f, thresholds, x, ROWS, y[0], &plain);
    apply_sparse(f, thresholds, x, ROWS, y[1], &counts);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_int_equal(plain.computed, counts.computed);
    const struct recall_totals totals = recall_sum(&recall, 1);
    recall_release(&recall);
    return totals;
}

/* The size of a neuron's contribution is its value times the length of its column, whatever scales
 * are in between. Here the rows of W_down have very different sizes. */
static void columns_have_their_lengths(void **state) {
    (void)state;
    const struct tiny_shape shape = {.hidden = HIDDEN,
                                     .wide = WIDE,
                                     .layers = 1,
                                     .heads = 4,
                                     .positions = 16,
                                     .type = BLOCK_F32};
    struct predicting p = predicting_of("relu");
    const char *kernels, *path;
    struct gguf file;
    p.shape = &shape;
    make_predicting(&file, &p);
    struct bytes *down = &gguf_tensor(&file, "blk.0.ffn_down.weight")->data;
    for (size_t i = 0; i < HIDDEN * WIDE; i++) {
        const float weight = bytes_get_f32(down, i * sizeof weight);
        bytes_set_f32(down, i * sizeof weight, ldexpf(weight, (int)(i / WIDE % 5)));
    }
    path = write_made(&file, "rows.gguf");
    for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
        wisp_model *model = open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_LOWRANK, kernels);
        const struct sparse_ffn *f = &model->network.feed_forward[0].sparse;
        struct reference r = reference_open(model, 0);
        struct recall recall;
        wisp_error error;
        assert_int_equal(
            recall_open(&recall, f->neurons, f->activation, f->kernels->sparse, &error), WISP_OK);
        for (size_t i = 0; i < WIDE; i++) {
            const double wanted = column_length(&r, reference_neuron(&r, i));
            const double got = (double)recall.lengths[i] * (double)f->neurons->column_scale[i];
            assert_true(fabs(got - wanted) < 0.01 * wanted);
        }
        recall_release(&recall);
        reference_close(&r);
        wisp_model_close(model);
    }
}

/* within the errors of int8 and of the bins */
static void expect_near(uint64_t got, uint64_t wanted) {
    print_message("%llu, in double precision %llu\n", (unsigned long long)got,
                  (unsigned long long)wanted);
    assert_true(fabs((double)got - (double)wanted) < 0.01 * (double)(ROWS * WIDE));
}

/* A needed neuron is found if it is chosen. All, none and some are chosen in turn. */
static void recall_counts_what_is_needed(void **state) {
    (void)state;
    float x[ROWS * HIDDEN];
    for (size_t c = 0; c < ROWS * HIDDEN; c++)
        x[c] = sinf((float)(c * c % 1009));
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting p = predicting_of(activations[a]);
        char path[256];
        snprintf(path, sizeof path, "%s", predicting_model("sparse.gguf", &p));
        wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
        const struct sparse_ffn *f = &model->network.feed_forward[0].sparse;
        assert_int_equal(f->intermediate_size, WIDE);
        for (size_t some = 1; some <= 3; some++) {
            bool chosen[WIDE];
            float thresholds[WIDE];
            for (size_t i = 0; i < WIDE; i++) {
                chosen[i] = some == 1 || (some == 2 && i * i % 5 < 2);
                thresholds[i] = chosen[i] ? -1e30f : 1e30f;
            }
            const struct recall_totals got = recall_of(f, thresholds, x);
            const struct recall_totals wanted = reference_recall(model, x, chosen);
            expect_near(got.needed, wanted.needed);
            expect_near(got.found, wanted.found);
            assert_true(some != 1 || got.found == got.needed);
            assert_true(some != 3 || got.found == 0);
        }
        wisp_model *exact = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_EXACT, NULL);
        const struct recall_totals all = recall_of(&exact->network.feed_forward[0].sparse, NULL, x);
        const bool chosen[WIDE] = {false};
        assert_int_equal(all.found, all.needed);
        expect_near(all.needed, reference_recall(model, x, chosen).needed);
        wisp_model_close(exact);
        wisp_model_close(model);
    }
}

static void keep_layer(void *context, uint32_t layer, const wisp_calibrated_layer *found) {
    ((wisp_calibrated_layer *)context)[layer] = *found;
}

/* Embeds the held-out texts with the calibrated model and one of its predictors. */
static void expect_reported(const char *path, wisp_predictor predictor, const wisp_text *held_out,
                            const wisp_calibrated_layer *reported) {
    const bool by_text = predictor == WISP_PREDICTOR_SENTENCE;
    const wisp_embed_options as_they_are = {
        .prompt = ""}; /* without a prompt, as calibration embeds them */
    float rows[HELD_OUT * HIDDEN];
    wisp_error error;
    wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, predictor, NULL);
    wisp_layer_stats counted[2][MOST_LAYERS];
    assert_true(model->network.config.layers <= MOST_LAYERS);
    for (uint32_t i = 0; i < 2; i++) {
        const wisp_session_options options = {.threads = 1 + 2 * i, .recall = true};
        wisp_session *session;
        assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
        assert_int_equal(wisp_embed(session, held_out, HELD_OUT, &as_they_are, rows, &error),
                         WISP_OK);
        for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &counted[i][l]); l++)
            counted[i][l].seconds = 0;
        wisp_session_close(session);
    }
    for (uint32_t l = 0; l < model->network.config.layers; l++) {
        const wisp_calibrated_quality *q = by_text ? &reported[l].sentence : &reported[l].lowrank;
        const wisp_layer_stats *s = &counted[0][l];
        const double neurons = (double)s->neurons, found = (double)s->found;
        assert_memory_equal(s, &counted[1][l], sizeof *s);
        assert_int_equal(s->compared, s->computed);
        print_message("%slayer %u: recall %.3f, reported %.3f; precision %.3f, reported %.3f\n",
                      by_text ? "texts, " : "", l, found / (double)s->needed, q->recall,
                      found / (double)s->compared, q->precision);
        assert_true(fabs((double)s->computed / neurons - q->share) < 0.05);
        assert_true(fabs((double)s->needed / neurons - q->needed) < 0.05);
        assert_true(fabs(found / (double)s->needed - q->recall) < 0.08);
        assert_true(fabs(found / (double)s->compared - q->precision) < 0.08);
    }
    wisp_model_close(model);
}

/* On the texts that calibration held out, the session counts the figures of calibration's report,
 * except for the errors of int8 and for changes by sparse layers before; with any number of
 * threads. */
static void recall_is_what_calibration_reports(void **state) {
    (void)state;
    struct texts texts;
    wisp_text held_out[HELD_OUT];
    make_texts(&texts);
    for (size_t i = 0; i < HELD_OUT; i++)
        held_out[i] = texts.text[i * HELD_OUT_EVERY + HELD_OUT_EVERY - 1];
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        wisp_calibrated_layer reported[MOST_LAYERS];
        const wisp_calibrate_options o = {.sparsity = 0.5f,
                                          .rank = 8,
                                          .seed = 3,
                                          .sentence = true,
                                          .context = reported,
                                          .layer = keep_layer};
        wisp_error error;
        char path[256];
        snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
        assert_int_equal(wisp_calibrate(tiny_model("plain.gguf", activations[a]), path, texts.text,
                                        TEXTS, &o, &error),
                         WISP_OK);
        print_message("%s\n", activations[a]);
        expect_reported(path, WISP_PREDICTOR_LOWRANK, held_out, reported);
        expect_reported(path, WISP_PREDICTOR_SENTENCE, held_out, reported);
    }
}

/* Every token passes every layer. A dense layer computes all neurons. Recall is counted only on
 * request, and not if all layers are dense. */
static void layers_are_counted(void **state) {
    (void)state;
    struct texts texts;
    float rows[TEXTS * HIDDEN];
    const struct predicting predicting = predicting_of("relu");
    const char *path = predicting_model("sparse.gguf", &predicting);
    const float sparsity = 1 - predicting_shares[PREDICTING_LEVELS - 1];
    make_texts(&texts);
    for (int p = WISP_PREDICTOR_DENSE; p <= WISP_PREDICTOR_LOWRANK; p++) {
        wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, (wisp_predictor)p, NULL);
        wisp_model_info info;
        wisp_model_get_info(model, &info);
        assert_true(info.sparsity == (p == WISP_PREDICTOR_LOWRANK ? sparsity : 0));
        for (int recall = 0; recall < 2; recall++) {
            const wisp_session_options options = {.threads = 2, .recall = recall != 0};
            wisp_session *session;
            wisp_stats stats;
            wisp_layer_stats s;
            wisp_error error;
            assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
            embed_or_fail(session, texts.text, TEXTS, rows);
            wisp_session_get_stats(session, &stats);
            for (uint32_t l = 0; l < info.layers; l++) {
                assert_true(wisp_session_get_layer_stats(session, l, &s));
                assert_int_equal(s.tokens, stats.tokens);
                assert_int_equal(s.neurons, stats.tokens * info.intermediate_size);
                assert_true((p == WISP_PREDICTOR_LOWRANK) == (s.computed < s.neurons));
                assert_true(s.computed > 0 && s.contributing <= s.computed);
                assert_true(p != WISP_PREDICTOR_DENSE || s.contributing == s.neurons);
                assert_int_equal(s.compared, recall && p != WISP_PREDICTOR_DENSE ? s.computed : 0);
                assert_true((s.needed > 0) == (s.compared > 0) && s.found <= s.needed);
                assert_true(p != WISP_PREDICTOR_EXACT || s.found == s.needed);
            }
            assert_false(wisp_session_get_layer_stats(session, info.layers, &s));
            wisp_session_close(session);
        }
        wisp_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_have_their_lengths),
        cmocka_unit_test(recall_counts_what_is_needed),
        cmocka_unit_test(recall_is_what_calibration_reports),
        cmocka_unit_test(layers_are_counted),
    };
    return cmocka_run_group_tests_name("statistics of sparse layers", tests, NULL,
                                       tear_down_temporary_folder);
}
