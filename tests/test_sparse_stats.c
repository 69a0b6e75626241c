/* SPDX-License-Identifier: Apache-2.0
 * What sessions count of sparse layers, recall above all. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "golden.h"
#include "opening.h"
#include "sparse/ffn_recall.h"
#include "sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum {
    MOST_LAYERS = 8,
    HELD_OUT_EVERY = 8,
    HELD_OUT = TEXTS / HELD_OUT_EVERY,
    ROWS = 40,
    MOST_QUADS = 64
};

/* How many of the quads have an activation above 0, in double precision. */
static uint64_t count_positive(const wisp_model *model, const float *x, size_t tokens) {
    const struct sparse_ffn *f = &model->bert.layer[0].sparse;
    float *up = layer_floats(model, "blk.0.ffn_up.weight", f->wide, HIDDEN);
    float *up_bias = layer_floats(model, "blk.0.ffn_up.bias", 1, f->wide);
    uint64_t positive = 0;
    for (size_t t = 0; t < tokens; t++)
        for (size_t q = 0; q < f->quads; q++) {
            bool needed = false;
            for (size_t place = QUAD * q; place < QUAD * (q + 1); place++) {
                const size_t j = (size_t)model->plan.order[place];
                double sum = (double)up_bias[j];
                for (size_t c = 0; c < HIDDEN; c++)
                    sum += (double)up[j * HIDDEN + c] * (double)x[t * HIDDEN + c];
                needed = needed || sum > 0;
            }
            positive += needed;
        }
    memory_free(up);
    memory_free(up_bias);
    return positive;
}

/* What recall is of some rows through layer 0. Counting it changes no bit of the layer's output. */
static struct recall_totals recall_of(const struct sparse_ffn *f, const float *thresholds,
                                      const float *x) {
    float y[2][ROWS * HIDDEN];
    void *scratch =
        memory_allocate(sparse_ffn_scratch_bytes(f->hidden, f->wide, f->rank, f->activation));
    struct recall recall;
    wisp_error error;
    assert_non_null(scratch);
    assert_int_equal(recall_open(f, &recall, &error), WISP_OK);
    struct sparse_counts plain = {0}, counts = {.recall = &recall};
    sparse_ffn_apply(f, thresholds, x, ROWS, y[0], scratch, &plain);
    sparse_ffn_apply(f, thresholds, x, ROWS, y[1], scratch, &counts);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_int_equal(plain.computed, counts.computed);
    const struct recall_totals totals = recall_sum(&recall, 1);
    recall_release(&recall);
    memory_free(scratch);
    return totals;
}

/* With all quads computed all that are needed are found, with none none. With ReLU the needed are
 * those with an activation above 0, else a fifth. */
static void recall_counts_what_is_needed(void **state) {
    (void)state;
    float x[ROWS * HIDDEN], lowest[MOST_QUADS], highest[MOST_QUADS];
    for (size_t c = 0; c < ROWS * HIDDEN; c++)
        x[c] = sinf((float)(c * c % 1009));
    for (size_t q = 0; q < MOST_QUADS; q++) {
        lowest[q] = -1e30f;
        highest[q] = 1e30f;
    }
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        char path[256];
        snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
        calibrate_or_fail(tiny_model("plain.gguf", activations[a]), path, 1);
        wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
        const struct sparse_ffn *f = &model->bert.layer[0].sparse;
        assert_true(f->quads <= MOST_QUADS);
        const struct recall_totals all = recall_of(f, lowest, x), none = recall_of(f, highest, x);
        const double quads = (double)(ROWS * f->quads), share = (double)all.needed / quads;
        assert_int_equal(all.found, all.needed);
        wisp_model *exact = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_EXACT, NULL);
        const struct recall_totals skipping = recall_of(&exact->bert.layer[0].sparse, NULL, x);
        assert_int_equal(skipping.found, skipping.needed);
        assert_true(fabs((double)skipping.needed - (double)all.needed) < 0.02 * quads);
        wisp_model_close(exact);
        assert_int_equal(none.needed, all.needed);
        assert_int_equal(none.found, 0);
        if (model->bert.config.activation == ACTIVATION_RELU)
            assert_true(fabs(share - (double)count_positive(model, x, ROWS) / quads) < 0.02);
        else
            assert_true(share > 0.17 && share <= 0.2);
        wisp_model_close(model);
    }
}

static void keep_layer(void *context, uint32_t layer, const wisp_calibrated_layer *found) {
    ((wisp_calibrated_layer *)context)[layer] = *found;
}

/* On the texts that calibration held out, the session counts what calibration reported, but for
 * int8 and for what sparse layers before changed; with any number of threads. */
static void recall_is_what_calibration_reports(void **state) {
    (void)state;
    struct texts texts;
    wisp_text held_out[HELD_OUT];
    float rows[HELD_OUT * HIDDEN];
    make_texts(&texts);
    for (size_t i = 0; i < HELD_OUT; i++)
        held_out[i] = texts.text[i * HELD_OUT_EVERY + HELD_OUT_EVERY - 1];
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        wisp_calibrated_layer reported[MOST_LAYERS];
        const wisp_calibrate_options o = {
            .sparsity = 0.5f, .rank = 8, .seed = 3, .context = reported, .layer = keep_layer};
        wisp_error error;
        char path[256];
        snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
        assert_int_equal(wisp_calibrate(tiny_model("plain.gguf", activations[a]), path, texts.text,
                                        TEXTS, &o, &error),
                         WISP_OK);
        wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
        wisp_layer_stats counted[2][MOST_LAYERS];
        assert_true(model->bert.config.layers <= MOST_LAYERS);
        for (uint32_t i = 0; i < 2; i++) {
            const wisp_session_options options = {.threads = 1 + 2 * i, .recall = true};
            wisp_session *session;
            assert_int_equal(wisp_session_open(model, &options, &session, &error), WISP_OK);
            embed_or_fail(session, held_out, HELD_OUT, rows);
            for (uint32_t l = 0; wisp_session_get_layer_stats(session, l, &counted[i][l]); l++)
                counted[i][l].seconds = 0;
            wisp_session_close(session);
        }
        for (uint32_t l = 0; l < model->bert.config.layers; l++) {
            const wisp_layer_stats *s = &counted[0][l];
            const double neurons = (double)s->neurons, found = (double)s->found;
            assert_memory_equal(s, &counted[1][l], sizeof *s);
            assert_int_equal(s->compared, s->computed);
            print_message(
                "%s layer %u: recall %.3f, reported %.3f; precision %.3f, reported %.3f\n",
                activations[a], l, found / (double)s->needed, reported[l].recall,
                found / (double)s->compared, reported[l].precision);
            assert_true(fabs((double)s->computed / neurons - reported[l].share) < 0.05);
            assert_true(fabs((double)s->needed / neurons - reported[l].needed) < 0.05);
            assert_true(fabs(found / (double)s->needed - reported[l].recall) < 0.08);
            assert_true(fabs(found / (double)s->compared - reported[l].precision) < 0.08);
        }
        wisp_model_close(model);
    }
}

/* Every token goes through every layer; a dense layer computes all; recall is counted on request
 * only, and not where all is dense. */
static void layers_are_counted(void **state) {
    (void)state;
    struct texts texts;
    float rows[TEXTS * HIDDEN];
    char path[256];
    make_texts(&texts);
    snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
    calibrate_or_fail(tiny_model("plain.gguf", "relu"), path, 1);
    for (int p = WISP_PREDICTOR_DENSE; p <= WISP_PREDICTOR_LOWRANK; p++) {
        wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, (wisp_predictor)p, NULL);
        wisp_model_info info;
        wisp_model_get_info(model, &info);
        assert_true(info.sparsity == (p == WISP_PREDICTOR_LOWRANK ? 0.5f : 0));
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
                assert_true(p == WISP_PREDICTOR_LOWRANK || s.computed == s.neurons);
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
        cmocka_unit_test(recall_counts_what_is_needed),
        cmocka_unit_test(recall_is_what_calibration_reports),
        cmocka_unit_test(layers_are_counted),
    };
    return cmocka_run_group_tests_name("statistics of sparse layers", tests, NULL, remove_models);
}
