/* SPDX-License-Identifier: Apache-2.0
 * The predictor sentence: one set of neurons for all tokens of a text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"
#include "support/sparse_reference.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { RANK = 32, WIDE = 64, SOME = 37, TOKENS = SOME * (SOME + 1) / 2 };

static struct predicting predicting_of(const char *activation, uint32_t type) {
    return (struct predicting){.shape = tiny_shape_of(activation),
                               .activation = activation,
                               .rank = RANK,
                               .type = type,
                               .compensated = true,
                               .by_text = true};
}

/* SOME texts of 1, 2, 3, ... tokens. Some lie in one tile of tokens, some in two. */
static void make_batch(float *x, size_t *starts) {
    for (size_t i = 0; i < TOKENS * HIDDEN; i++)
        x[i] = sinf((float)i * 1.7f) + cosf((float)(i % HIDDEN));
    starts[0] = 0;
    for (size_t i = 0; i < SOME; i++)
        starts[i + 1] = starts[i] + i + 1;
}

static struct workspace open_scratch(const struct sparse_ffn *f) {
    const size_t bytes =
        sparse_ffn_workspace_bytes(f->hidden_size, f->intermediate_size, f->rank, f->activation);
    struct workspace scratch = {0};
    wisp_error error;
    assert_int_equal(workspace_reserve(&scratch, bytes, &error), WISP_OK);
    return scratch;
}

/* ---- choice --------------------------------------------------------------------------------- */

/* Computes the logits of a text by place. Returns the root of their mean square. */
static double reference_logits(const wisp_model *model, size_t layer, const float *x, size_t tokens,
                               double *logits) {
    float *p = block_floats(model, layer, "ffn_sentence_p.weight", RANK, HIDDEN);
    float *p_bias = block_floats(model, layer, "ffn_sentence_p.bias", 1, RANK);
    float *q = block_floats(model, layer, "ffn_sentence_q.weight", WIDE, RANK);
    float *q_bias = block_floats(model, layer, "ffn_sentence_q.bias", 1, WIDE);
    double h[RANK], squares = 0;
    for (size_t r = 0; r < RANK; r++) {
        h[r] = (double)p_bias[r];
        for (size_t t = 0; t < tokens; t++)
            h[r] += reference_product(p, NULL, r, x + t * HIDDEN, HIDDEN) / (double)tokens;
    }
    for (size_t i = 0; i < WIDE; i++) {
        logits[i] = (double)q_bias[i];
        for (size_t r = 0; r < RANK; r++)
            logits[i] += (double)q[i * RANK + r] * h[r];
        squares += logits[i] * logits[i];
    }
    memory_free(p);
    memory_free(p_bias);
    memory_free(q);
    memory_free(q_bias);
    return sqrt(squares / (double)WIDE);
}

/* Thresholds a little above or below one text's logits, by a share of their size, choose exactly
 * the neurons wanted for it, whatever other texts there are. */
static void expect_choice(const wisp_model *model, size_t layer, double margin, const float *x,
                          const size_t *starts) {
    const struct sparse_ffn *f = &model->network.feed_forward[layer].sparse;
    struct workspace scratch = open_scratch(f);
    for (size_t i = 0; i < SOME; i++) {
        double logits[WIDE];
        float thresholds[WIDE];
        uint64_t masks[SOME], alone, wanted = 0;
        const double size = reference_logits(model, layer, x + starts[i] * HIDDEN, i + 1, logits);
        for (size_t n = 0; n < WIDE; n++) {
            const bool is_wanted = (n * n + i) % 7 < 3;
            thresholds[n] = (float)(logits[n] + (is_wanted ? -margin : margin) * size);
            wanted |= (uint64_t)is_wanted << n;
        }
        sparse_ffn_choose(f, thresholds, x, starts, SOME, masks, scratch);
        assert_true(masks[i] == wanted);
        sparse_ffn_choose(f, thresholds, x, starts + i, 1, &alone, scratch);
        assert_true(alone == wanted);
    }
    workspace_release(&scratch);
}

/* Chooses by the predictor for texts, not by the one for tokens. */
static void texts_are_looked_at_as_a_whole(void **state) {
    (void)state;
    static const uint32_t types[] = {BLOCK_F32, BLOCK_Q8_0};
    static float x[TOKENS * HIDDEN];
    size_t starts[SOME + 1];
    make_batch(x, starts);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct predicting p = predicting_of("gelu", types[i]);
        const bool int8 = types[i] == BLOCK_Q8_0;
        const char *kernels, *path = predicting_model("choosing.gguf", &p);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            wisp_model *model =
                open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_SENTENCE, kernels);
            for (size_t layer = 0; layer < 2; layer++) {
                const struct sparse_ffn *f = &model->network.feed_forward[layer].sparse;
                assert_true(f->rank == RANK && (f->p.kind->compute == WISP_COMPUTE_INT8) == int8 &&
                            (f->q.kind->compute == WISP_COMPUTE_INT8) == int8);
                assert_int_equal(f->compensation.n, 0);
                expect_choice(model, layer, int8 ? 0.1 : 1e-5, x, starts);
            }
            wisp_model_close(model);
        }
    }
}

/* ---- layers --------------------------------------------------------------------------------- */

/* A mask of chosen neurons, which differs from text to text. */
static uint64_t mask_of(size_t text) {
    uint64_t mask = 0;
    for (size_t n = 0; n < WIDE; n++)
        mask |= (uint64_t)((n * (text + 3) + text) % 5 < 2) << n;
    return mask;
}

static void expect_masks_applied(const wisp_model *model, const float *x, const size_t *starts) {
    static float y[TOKENS * HIDDEN];
    const struct sparse_ffn *f = &model->network.feed_forward[0].sparse;
    const bool gated = f->activation == ACTIVATION_GATED_SILU;
    struct reference reference = reference_open(model, 0);
    struct difference difference = {0};
    struct sparse_counts counts = {0}, one = {0};
    uint64_t masks[SOME];
    const uint64_t *of_token[TOKENS];
    uint64_t computed = 0;
    struct workspace scratch = open_scratch(f);
    for (size_t i = 0; i < SOME; i++) {
        masks[i] = mask_of(i);
        for (size_t t = starts[i]; t < starts[i + 1]; t++)
            of_token[t] = &masks[i];
    }
    sparse_ffn_apply(f, (struct sparse_choice){.masks = of_token}, x, TOKENS, y, scratch, &counts);
    for (size_t i = 0; i < SOME; i++)
        for (size_t t = starts[i]; t < starts[i + 1]; t++) {
            float alone[HIDDEN];
            double wanted[HIDDEN];
            bool chosen[WIDE];
            for (size_t n = 0; n < WIDE; n++) {
                chosen[n] = masks[i] >> n & 1;
                computed += chosen[n];
            }
            reference_layer(&reference, chosen, x + t * HIDDEN, wanted);
            difference_add(&difference, y + t * HIDDEN, wanted, HIDDEN);
            sparse_ffn_apply(f, (struct sparse_choice){.masks = of_token + t}, x + t * HIDDEN, 1,
                             alone, scratch, &one);
            assert_memory_equal(alone, y + t * HIDDEN, sizeof alone);
        }
    assert_true(counts.computed == computed && one.computed == computed);
    assert_int_equal(counts.contributing, one.contributing);
    print_message("%s: relative error %.2g\n", f->kernels->name, difference_of(&difference));
    assert_true(difference_of(&difference) < (gated ? 0.018 : 0.012));
    reference_close(&reference);
    workspace_release(&scratch);
}

static void a_text_has_one_mask(void **state) {
    (void)state;
    static float x[TOKENS * HIDDEN];
    size_t starts[SOME + 1];
    make_batch(x, starts);
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting p = predicting_of(activations[a], BLOCK_F32);
        const char *kernels, *path = predicting_model("masks.gguf", &p);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++) {
            wisp_model *model =
                open_with(path, WISP_COMPUTE_INT8, WISP_PREDICTOR_SENTENCE, kernels);
            expect_masks_applied(model, x, starts);
            wisp_model_close(model);
        }
    }
}

/* ---- models --------------------------------------------------------------------------------- */

static void layers_of(wisp_session *session, const wisp_text *text, wisp_layer_stats *stats) {
    float row[HIDDEN];
    embed_or_fail(session, text, 1, row);
    for (uint32_t l = 0; l < 2; l++)
        assert_true(wisp_session_get_layer_stats(session, l, &stats[l]));
}

/* Each token of a text counts the same number of computed neurons. A lower sparsity computes no
 * fewer. */
static void sparsity_is_that_of_texts(void **state) {
    (void)state;
    char path[256];
    struct texts texts;
    wisp_error error;
    uint64_t computed[2] = {0};
    make_texts(&texts);
    snprintf(path, sizeof path, "%s", temporary_path("sparse.gguf"));
    calibrate_or_fail(tiny_model("plain.gguf", "relu"), path, 1);
    wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_SENTENCE, NULL);
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    assert_string_equal(info.predictor, "sentence");
    assert_true(info.sparsity == 0.5f);
    for (size_t i = 0; i < TEXTS; i++)
        for (int more = 0; more < 2; more++) {
            wisp_layer_stats stats[2];
            wisp_session *session = open_session_or_fail(model, 3);
            assert_int_equal(wisp_session_set_sparsity(session, more ? 0.3f : 0.7f, &error),
                             WISP_OK);
            layers_of(session, &texts.text[i], stats);
            for (size_t l = 0; l < 2; l++) {
                assert_int_equal(stats[l].computed % stats[l].tokens, 0);
                computed[more] += stats[l].computed;
            }
            wisp_session_close(session);
        }
    assert_true(computed[0] > 0 && computed[0] < computed[1]);
    wisp_model_close(model);
}

/* ---- files ---------------------------------------------------------------------------------- */

static void expect_refused(struct gguf *file, wisp_status status, const char *field) {
    const wisp_model_options options = {.predictor = WISP_PREDICTOR_SENTENCE};
    wisp_model *model;
    wisp_error error;
    assert_int_equal(wisp_model_open(write_made(file, "wrong.gguf"), &options, &model, &error),
                     status);
    assert_string_equal(error.field, field);
}

/* The error names the tensor and how to make one. lowrank needs none of these tensors. */
static void models_without_it_say_so(void **state) {
    (void)state;
    const wisp_model_options options = {.predictor = WISP_PREDICTOR_SENTENCE};
    const char *paths[2];
    char calibrated[256];
    struct predicting p = predicting_of("relu", BLOCK_F32);
    p.by_text = false;
    snprintf(calibrated, sizeof calibrated, "%s", predicting_model("lowrank.gguf", &p));
    paths[0] = calibrated;
    paths[1] = tiny_model("plain.gguf", "relu");
    for (int i = 0; i < 2; i++) {
        wisp_model *model;
        wisp_error error;
        assert_int_equal(wisp_model_open(paths[i], &options, &model, &error), WISP_ERROR_NOT_FOUND);
        assert_string_equal(error.field, "blk.0.ffn_sentence_p.weight");
        assert_non_null(strstr(error.message, "wisp calibrate --sentence"));
    }
    wisp_model_close(open_with(calibrated, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL));
}

static void malformed_predictors_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name; /* the tensor that is removed, or the dimensions that it gets */
        uint64_t dims[2];
    } cases[] = {
        {"blk.1.ffn_sentence_p.weight", {0}},
        {"blk.0.ffn_sentence_p.bias", {0}},
        {"blk.1.ffn_sentence_q.weight", {0}},
        {"blk.0.ffn_sentence_q.bias", {0}},
        {"blk.1.ffn_sentence_thresholds", {0}},
        {"blk.1.ffn_sentence_p.weight", {HIDDEN / 2, 2 * RANK}},
        {"blk.0.ffn_sentence_q.weight", {RANK / 2, 2 * WIDE}},
        {"blk.1.ffn_sentence_q.bias", {WIDE / 2, 2}},
        {"blk.1.ffn_sentence_thresholds", {2 * WIDE, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct predicting p = predicting_of("relu", BLOCK_F32);
        const bool dropped = cases[i].dims[0] == 0;
        struct gguf file;
        make_predicting(&file, &p);
        if (dropped) {
            gguf_drop_tensor(&file, cases[i].name);
        } else {
            struct gguf_tensor *tensor = gguf_tensor(&file, cases[i].name);
            tensor->n_dims = cases[i].dims[1] > 1 ? 2 : 1;
            memcpy(tensor->dims, cases[i].dims, sizeof cases[i].dims);
        }
        expect_refused(&file, dropped ? WISP_ERROR_NOT_FOUND : WISP_ERROR_FORMAT, cases[i].name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_looked_at_as_a_whole),
        cmocka_unit_test(a_text_has_one_mask),
        cmocka_unit_test(sparsity_is_that_of_texts),
        cmocka_unit_test(models_without_it_say_so),
        cmocka_unit_test(malformed_predictors_are_refused),
    };
    return cmocka_run_group_tests_name("predictors of whole texts", tests, NULL,
                                       tear_down_temporary_folder);
}
