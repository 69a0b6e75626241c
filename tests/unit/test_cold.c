/* SPDX-License-Identifier: Apache-2.0
 * Models that are opened without their cold neurons: calls stop if neurons are absent, say which
 * bytes they need, and give the bits of the whole model in whatever order these come. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/session.h"
#include "formats/neurons.h"
#include "formats/neurons_read.h"
#include "models/rest.h"
#include "support/cold_split.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { WIDE = COLD_WIDE, LAYERS = COLD_LAYERS, HOT = COLD_HOT, SESSIONS = 4 };

/* ---- waiting -------------------------------------------------------------------------------- */

static void check_waiting(const struct split *split, wisp_predictor predictor,
                          const struct texts *texts, uint64_t *random) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    /* AUTO of the whole model may be exact. */
    wisp_model *whole =
        open_with(split->path, WISP_COMPUTE_AUTO,
                  predictor == WISP_PREDICTOR_AUTO ? WISP_PREDICTOR_LOWRANK : predictor, NULL);
    wisp_session *reference = open_cold_session(whole, 1, false);
    wisp_cold_stats cold;
    assert_false(wisp_model_get_cold_stats(whole, &cold));
    embed_or_fail(reference, texts->text, TEXTS, wanted);
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t threads = i % 2 ? 4 : 1;
        wisp_model *model = split_open_model(split, i / 2 % 2, predictor);
        wisp_session *session = open_cold_session(model, threads, false);
        memset(rows, 0, sizeof rows);
        assert_true(split_embed(session, split, texts, i < 4 ? 0 : 500, random, rows) > 0);
        assert_memory_equal(rows, wanted, sizeof rows);
        /* Every token was computed once, with the neurons of the whole model. */
        for (uint32_t l = 0; l < LAYERS; l++) {
            assert_int_equal(layer_stats_of(session, l).tokens,
                             layer_stats_of(reference, l).tokens);
            assert_int_equal(layer_stats_of(session, l).computed,
                             layer_stats_of(reference, l).computed);
        }
        cold = cold_stats_of(model);
        assert_int_equal(cold.neurons, LAYERS * WIDE);
        assert_int_equal(cold.hot_neurons, 2 * HOT + 1);
        assert_true(cold.rows > 0 && cold.rows <= cold.neurons - cold.hot_neurons);
        assert_true(cold.misses > 0 && cold.evictions == 0);
        assert_true(cold.warm_bytes > 0 && cold.warm_bytes <= cold.cold_bytes);
        /* A second session of the model finds all neurons, and a text alone has the same bits. */
        wisp_session *second = open_cold_session(model, threads, false);
        memset(rows, 0, sizeof rows);
        embed_or_fail(second, texts->text, TEXTS, rows);
        assert_memory_equal(rows, wanted, sizeof rows);
        embed_or_fail(second, &texts->text[TEXTS - 1], 1, rows);
        assert_memory_equal(rows, wanted + (TEXTS - 1) * HIDDEN, HIDDEN * sizeof *rows);
        assert_int_equal(cold_stats_of(model).rows, cold.rows);
        wisp_session_close(second);
        wisp_session_close(session);
        wisp_model_close(model);
    }
    wisp_session_close(reference);
    wisp_model_close(whole);
}

static void waiting_gives_the_bits_of_the_whole_model(void **state) {
    struct texts texts;
    uint64_t random = 11;
    (void)state;
    make_texts(&texts);
    for (size_t a = 0; a < ACTIVATIONS; a++)
        for (int i = 0; i < 4; i++) {
            const bool by_text = i % 2 != 0;
            struct split split =
                split_open(activations[a], by_text, BLOCK_Q8_0, i < 2 ? 0 : MIN_CHUNK_BYTES);
            check_waiting(&split, by_text ? WISP_PREDICTOR_SENTENCE : WISP_PREDICTOR_AUTO, &texts,
                          &random);
            split_close(&split);
        }
}

static void limited_memory_gives_the_bits_of_the_whole_model(void **state) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    struct texts texts;
    uint64_t random = 3;
    (void)state;
    make_texts(&texts);
    for (size_t a = 0; a < 2 * ACTIVATIONS; a++) {
        const uint32_t threads = (uint32_t)(1 + a % 3); /* the members of each batch */
        struct split split = split_open(activations[a / 2], a % 2, BLOCK_Q8_0, MIN_CHUNK_BYTES);
        const wisp_source source = split_source(&split, true);
        wisp_model_options options = {.hot_only = true,
                                      .memory = 1,
                                      .predictor =
                                          a % 2 ? WISP_PREDICTOR_SENTENCE : WISP_PREDICTOR_LOWRANK};
        wisp_model *model,
            *whole = open_with(split.path, WISP_COMPUTE_AUTO, options.predictor, NULL);
        wisp_session *session, *reference = open_cold_session(whole, 1, false);
        wisp_model_info info;
        wisp_error error;
        unsigned long long least;
        embed_or_fail(reference, texts.text, TEXTS, wanted);
        assert_int_equal(wisp_model_open_source(&source, &options, &model, &error),
                         WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "memory");
        assert_int_equal(sscanf(strstr(error.message, "the least is"), "the least is %llu", &least),
                         1);
        options.memory = least;
        assert_int_equal(wisp_model_open_source(&source, &options, &model, &error), WISP_OK);
        assert_int_equal(wisp_model_limit_memory(model, least, &error), WISP_ERROR_ARGUMENT);
        session = open_cold_session(model, threads, false);
        wisp_session *second;
        assert_int_equal(wisp_session_open(model, NULL, &second, &error), WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, "memory");
        for (int i = 0; i < 3; i++) {
            memset(rows, 0, sizeof rows);
            assert_true(split_embed(session, &split, &texts, i ? 0 : 500, &random, rows) > 0);
            assert_memory_equal(rows, wanted, sizeof rows);
            wisp_model_get_info(model, &info);
            assert_true(info.resident_bytes <= least);
        }
        const wisp_cold_stats cold = cold_stats_of(model);
        assert_true(cold.evictions > 0 && cold.warm_bytes <= cold.budget);
        assert_int_equal(cold.least_memory, least);
        /* A call that is given up holds nothing. */
        assert_int_equal(wisp_embed(session, texts.text, TEXTS, NULL, rows, &error),
                         WISP_NEED_RANGES);
        wisp_embed_give_up(session);
        split_embed(session, &split, &texts, 0, &random, rows);
        assert_memory_equal(rows, wanted, sizeof rows);
        wisp_session_close(session);
        wisp_session_close(reference);
        wisp_model_close(model);
        wisp_model_close(whole);
        split_close(&split);
    }
}

/* Opens a model of a source that keeps what was provided, with a limit. */
static wisp_model *open_keeping(const struct split *split, wisp_predictor predictor,
                                uint64_t memory) {
    const wisp_source source = split_keeping_source(split);
    const wisp_model_options options = {.hot_only = true, .memory = memory, .predictor = predictor};
    return open_of_source(&source, &options);
}

static uint64_t resident_of(const wisp_model *model) {
    wisp_model_info info;
    wisp_model_get_info(model, &info);
    return info.resident_bytes;
}

static void a_source_that_keeps_rows_holds_weights_too(void **state) {
    static float wanted[TEXTS * HIDDEN], rows[TEXTS * HIDDEN];
    struct texts texts;
    uint64_t random = 17;
    (void)state;
    make_texts(&texts);
    for (size_t a = 0; a < 2 * ACTIVATIONS; a++) {
        const wisp_predictor predictor = a % 2 ? WISP_PREDICTOR_SENTENCE : WISP_PREDICTOR_LOWRANK;
        struct split split = split_open(activations[a / 2], a % 2, BLOCK_Q8_0, MIN_CHUNK_BYTES);
        wisp_model *whole = open_with(split.path, WISP_COMPUTE_AUTO, predictor, NULL);
        wisp_model *unlimited = open_keeping(&split, predictor, 0),
                   *model = open_keeping(&split, predictor, 1);
        const uint64_t least = cold_stats_of(model).least_memory;
        wisp_session *first, *second, *reference = open_cold_session(whole, 1, false);
        wisp_error error;
        embed_or_fail(reference, texts.text, TEXTS, wanted);
        /* Weights rest from the moment at which they were loaded. */
        assert_true(resident_of(model) < resident_of(unlimited));
        assert_int_equal(cold_stats_of(unlimited).least_memory, least);
        assert_int_equal(wisp_session_open(model, NULL, &first, &error), WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "memory");
        assert_int_equal(wisp_model_limit_memory(model, least - 1, &error), WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "memory");
        assert_int_equal(wisp_model_limit_memory(model, least, &error), WISP_OK);
        assert_int_equal(resident_of(model), least);
        first = open_cold_session(model, (uint32_t)(1 + a % 3), false);
        second = open_cold_session(model, 1, false);
        for (int i = 0; i < 4; i++) {
            memset(rows, 0, sizeof rows);
            assert_true(split_embed(i % 2 ? second : first, &split, &texts, i < 2 ? 0 : 500,
                                    &random, rows) > 0);
            assert_memory_equal(rows, wanted, sizeof rows);
            /* Cold neurons beside hot ones stay, and no token does. */
            assert_int_equal(resident_of(model), least + cold_stats_of(model).warm_bytes);
        }
        assert_true(cold_stats_of(model).evictions > 0);
        wisp_session_close(second);
        wisp_session_close(first);
        wisp_model_close(model);
        /* Without a limit, too, tokens stay in the source, and one that changes there is noticed.
         */
        first = open_cold_session(unlimited, 1, false);
        split_embed(first, &split, &texts, 0, &random, rows);
        assert_memory_equal(rows, wanted, sizeof rows);
        assert_int_equal(cold_stats_of(unlimited).tokens, 0);
        wisp_session_close(first);
        first = open_cold_session(unlimited, 1, false); /* which has read no rows so far */
        const struct tensor *tokens = unlimited->network.tokens.part[1].tensor;
        for (uint64_t i = 0; i < tokens->bytes; i++)
            split.bytes[tokens->offset + i] ^= 1;
        assert_int_equal(wisp_embed(first, texts.text, TEXTS, NULL, rows, &error), WISP_ERROR_IO);
        assert_non_null(strstr(error.message, "differs"));
        wisp_session_close(first);
        wisp_session_close(reference);
        wisp_model_close(unlimited);
        wisp_model_close(whole);
        split_close(&split);
    }
}

/* A text whose tokens threads share, and one that is longer than a part of a pass, wait too. */
static void threads_that_share_a_text_wait_together(void **state) {
    enum { WORDS = 14 };
    struct split split = split_open("gelu", false, BLOCK_Q4_0, 0);
    char text[WORDS * 8] = "";
    float wanted[HIDDEN], row[HIDDEN];
    uint64_t random = 5;
    wisp_error error;
    (void)state;
    for (size_t i = 0; i < WORDS; i++)
        strcat(text, i % 2 ? "man " : "food ");
    const wisp_text one = wisp_text_of(text);
    wisp_model *whole = open_with(split.path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    wisp_session *reference = open_cold_session(whole, 1, false);
    embed_or_fail(reference, &one, 1, wanted);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        wisp_model *model = split_open_model(&split, false, WISP_PREDICTOR_LOWRANK);
        wisp_session *session = open_cold_session(model, threads, false);
        wisp_status status = wisp_embed(session, &one, 1, NULL, row, &error);
        assert_int_equal(status, WISP_NEED_RANGES);
        /* Without bytes it goes on waiting. */
        assert_int_equal(wisp_embed_continue(session, &error), WISP_NEED_RANGES);
        while (status == WISP_NEED_RANGES) {
            split_provide_some(session, &split, 0, &random);
            status = wisp_embed_continue(session, &error);
        }
        assert_int_equal(status, WISP_OK);
        assert_memory_equal(row, wanted, sizeof row);
        wisp_session_close(session);
        wisp_model_close(model);
    }
    wisp_session_close(reference);
    wisp_model_close(whole);
    split_close(&split);
}

/* ---- sessions side by side ------------------------------------------------------------------ */

struct caller {
    pthread_t thread;
    const wisp_model *model;
    const struct split *split;
    const struct texts *texts;
    uint64_t random;
    float rows[TEXTS * HIDDEN];
};

static void *call(void *context) {
    struct caller *caller = context;
    wisp_session *session = open_cold_session(caller->model, 2, false);
    for (int round = 0; round < 3; round++)
        split_embed(session, caller->split, caller->texts, 100, &caller->random, caller->rows);
    wisp_session_close(session);
    return NULL;
}

static void sessions_share_neurons(void **state) {
    static struct caller callers[SESSIONS];
    static float wanted[TEXTS * HIDDEN];
    struct split split = split_open("silu", false, BLOCK_Q8_0, MIN_CHUNK_BYTES);
    struct texts texts;
    wisp_error error;
    (void)state;
    make_texts(&texts);
    wisp_model *whole = open_with(split.path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    wisp_session *reference = open_cold_session(whole, 1, false);
    embed_or_fail(reference, texts.text, TEXTS, wanted);
    /* First with memory for all cold neurons, then for a part, for none, and for one group. */
    for (uint64_t part = 0; part < 4; part++) {
        wisp_model *model = split_open_model(&split, false, WISP_PREDICTOR_AUTO);
        const uint64_t all = cold_stats_of(model).cold_bytes;
        const uint64_t budgets[] = {UINT64_MAX, all / 2, 0, all / 5};
        if (part > 0)
            neuron_cold_limit(&model->network.neurons, budgets[part], spoil_block);
        if (part == 3) { /* all that may rest does, too */
            assert_int_equal(rest_open(&model->network, 0, &error), WISP_OK);
            rest_loaded(&model->network, LAYERS);
        }
        for (size_t i = 0; i < SESSIONS; i++) {
            callers[i].model = model;
            callers[i].split = &split;
            callers[i].texts = &texts;
            callers[i].random = 100 * part + i;
            assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
        }
        for (size_t i = 0; i < SESSIONS; i++) {
            assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
            assert_memory_equal(callers[i].rows, wanted, sizeof wanted);
        }
        const wisp_cold_stats stats = cold_stats_of(model);
        if (part == 0)
            assert_true(stats.rows <= stats.neurons - stats.hot_neurons);
        /* With nothing held, what is left fits the budget, but for cold neurons in the groups in
         * which hot ones stand: these stay. */
        const uint64_t mixed = LAYERS * 64 * (all / (stats.neurons - stats.hot_neurons));
        assert_true(stats.warm_bytes <= all && stats.warm_bytes <= stats.most_warm_bytes);
        assert_true(part == 0 || stats.warm_bytes <= budgets[part] + mixed);
        assert_true((stats.evictions > 0) == (part > 0));
        wisp_model_close(model);
    }
    wisp_session_close(reference);
    wisp_model_close(whole);
    split_close(&split);
}

/* ---- skipping ------------------------------------------------------------------------------- */

static void skipping_counts_what_it_leaves_out(void **state) {
    static float whole_rows[TEXTS * HIDDEN], rows[TEXTS * HIDDEN], again[TEXTS * HIDDEN];
    struct texts texts;
    (void)state;
    make_texts(&texts);
    for (int by_text = 0; by_text < 2; by_text++) {
        const wisp_predictor predictor = by_text ? WISP_PREDICTOR_SENTENCE : WISP_PREDICTOR_LOWRANK;
        struct split split = split_open("gelu", by_text, BLOCK_Q8_0, 0);
        wisp_model *whole = open_with(split.path, WISP_COMPUTE_AUTO, predictor, NULL);
        wisp_session *reference = open_cold_session(whole, 1, false);
        embed_or_fail(reference, texts.text, TEXTS, whole_rows);
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            uint64_t skipped[TEXTS], alone, sum = 0;
            wisp_embed_options options = {.skipped = skipped};
            wisp_error error;
            wisp_model *model = split_open_model(&split, false, predictor);
            const struct tensor *cold = &neurons_find_rows(&model->dir, 1)->stored[COLD_ROWS];
            wisp_session *session = open_cold_session(model, threads, true);
            /* Only neurons of layer 0 are absent, whose inputs do not depend on what is skipped. */
            assert_int_equal(
                split_provide(session, &split, (wisp_range){cold->offset, cold->bytes}), WISP_OK);
            assert_int_equal(wisp_embed(session, texts.text, TEXTS, &options, rows, &error),
                             WISP_OK);
            for (size_t i = 0; i < TEXTS; i++)
                sum += skipped[i];
            assert_true(sum > 0);
            assert_int_equal(sum, layer_stats_of(reference, 0).computed -
                                      layer_stats_of(session, 0).computed);
            assert_true(memcmp(rows, whole_rows, sizeof rows) != 0);
            for (size_t i = 0; i < TEXTS * HIDDEN; i++)
                assert_true(isfinite(rows[i]));
            /* A text alone has the same bits and count. */
            options.skipped = &alone;
            assert_int_equal(wisp_embed(session, &texts.text[8], 1, &options, again, &error),
                             WISP_OK);
            assert_memory_equal(again, rows + 8 * HIDDEN, HIDDEN * sizeof *rows);
            assert_int_equal(alone, skipped[8]);
            /* With all neurons nothing is skipped. */
            const wisp_range all = {split.hot_bytes, split.size - split.hot_bytes};
            assert_int_equal(split_provide(session, &split, all), WISP_OK);
            options.skipped = skipped;
            assert_int_equal(wisp_embed(session, texts.text, TEXTS, &options, rows, &error),
                             WISP_OK);
            assert_memory_equal(rows, whole_rows, sizeof rows);
            for (size_t i = 0; i < TEXTS; i++)
                assert_int_equal(skipped[i], 0);
            wisp_session_close(session);
            wisp_model_close(model);
        }
        wisp_session_close(reference);
        wisp_model_close(whole);
        split_close(&split);
    }
}

/* ---- giving up, and errors ------------------------------------------------------------------ */

/* Returns the passes that hold neurons of the model, as eviction sees them: with a budget of 0 and
 * nothing held, no whole group of cold neurons is left. */
static uint64_t left_after_eviction(wisp_model *model, const struct split *split) {
    wisp_session *session = open_cold_session(model, 1, false);
    const wisp_range all = {split->hot_bytes, split->size - split->hot_bytes};
    neuron_cold_limit(&model->network.neurons, 0, spoil_block);
    assert_int_equal(split_provide(session, split, all), WISP_OK);
    wisp_session_close(session);
    return cold_stats_of(model).warm_bytes;
}

static void a_call_that_waits_can_be_given_up(void **state) {
    static float rows[TEXTS * HIDDEN];
    struct split split = split_open("relu", false, BLOCK_Q8_0, MIN_CHUNK_BYTES);
    struct texts texts;
    wisp_error error;
    uint64_t random = 3, nothing_held = 0;
    (void)state;
    make_texts(&texts);
    for (int how = 0; how < 6; how++)
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            wisp_model *model = split_open_model(&split, true, WISP_PREDICTOR_LOWRANK);
            wisp_session *session = open_cold_session(model, threads, false);
            const wisp_range *ranges;
            size_t count;
            if (how > 0)
                assert_int_equal(wisp_embed(session, texts.text, TEXTS, NULL, rows, &error),
                                 WISP_NEED_RANGES);
            if (how == 1) {
                wisp_embed_give_up(session);
                assert_int_equal(wisp_embed_continue(session, &error), WISP_ERROR_ARGUMENT);
                assert_int_equal(wisp_session_needs(session, 0, &ranges, &count, &error), WISP_OK);
                assert_int_equal(count, 0);
            } else if (how == 2) {
                wisp_session_cancel(session);
                assert_int_equal(wisp_embed_continue(session, &error), WISP_ERROR_CANCELLED);
                assert_int_equal(wisp_embed_continue(session, &error), WISP_ERROR_ARGUMENT);
            } else if (how == 3) { /* a new call takes the place of the one that waits */
                split_embed(session, &split, &texts, 0, &random, rows);
                assert_int_equal(wisp_embed_continue(session, &error), WISP_ERROR_ARGUMENT);
            } else if (how == 4) { /* a failure in a later layer */
                assert_int_equal(wisp_session_set_sparsity(session, 0.5f, &error),
                                 WISP_ERROR_ARGUMENT);
                split_provide_some(session, &split, 0, &random);
                wisp_embed_continue(session, &error);
            }
            wisp_session_close(session); /* how == 5: while the call waits */
            const uint64_t left = left_after_eviction(model, &split);
            if (how == 0)
                nothing_held = left;
            assert_int_equal(left, nothing_held);
            wisp_model_close(model);
        }
    wisp_embed_give_up(NULL);
    split_close(&split);
}

static void expect_no_model(const struct split *split, const wisp_model_options *options,
                            wisp_status status, const char *field) {
    const wisp_source source = split_source(split, false);
    wisp_model *model;
    wisp_error error;
    assert_int_equal(wisp_model_open_source(&source, options, &model, &error), status);
    assert_string_equal(error.field, field);
}

static void misuse_is_an_error(void **state) {
    struct split split = split_open("relu", false, BLOCK_F32, 0);
    const wisp_model_options exact = {.hot_only = true, .predictor = WISP_PREDICTOR_EXACT},
                             dense = {.hot_only = true, .predictor = WISP_PREDICTOR_DENSE},
                             f32 = {.hot_only = true, .compute = WISP_COMPUTE_F32},
                             sentence = {.hot_only = true, .predictor = WISP_PREDICTOR_SENTENCE};
    const wisp_session_options recall = {.recall = true};
    const wisp_text text = {"the man", 7};
    float row[HIDDEN];
    wisp_session *session;
    wisp_error error;
    (void)state;
    expect_no_model(&split, &exact, WISP_ERROR_UNSUPPORTED, "predictor");
    expect_no_model(&split, &dense, WISP_ERROR_UNSUPPORTED, "predictor");
    expect_no_model(&split, &f32, WISP_ERROR_UNSUPPORTED, "predictor");
    expect_no_model(&split, &sentence, WISP_ERROR_NOT_FOUND, "blk.0.ffn_sentence_p.weight");

    wisp_model *model = split_open_model(&split, false, WISP_PREDICTOR_AUTO);
    assert_int_equal(wisp_session_open(model, &recall, &session, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "recall");
    session = open_cold_session(model, 1, false);
    assert_int_equal(wisp_session_provide(session, UINT64_MAX, row, 4, &error),
                     WISP_ERROR_ARGUMENT);
    /* A part of a row, and bytes outside of cold rows, are ignored. */
    const struct tensor *cold = &neurons_find_rows(&model->dir, 0)->stored[COLD_ROWS];
    assert_int_equal(
        split_provide(session, &split, (wisp_range){cold->offset, cold->row_bytes - 1}), WISP_OK);
    assert_int_equal(
        split_provide(session, &split, (wisp_range){cold->offset + 1, cold->row_bytes}), WISP_OK);
    assert_int_equal(split_provide(session, &split, (wisp_range){0, split.hot_bytes}), WISP_OK);
    assert_int_equal(cold_stats_of(model).rows, 0);
    /* A weight that is not finite: the call goes on waiting, and good bytes end it. */
    assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_NEED_RANGES);
    float bad[3 * HIDDEN] = {[5] = NAN};
    assert_int_equal(wisp_session_provide(session, cold->offset, bad, cold->row_bytes, &error),
                     WISP_ERROR_FORMAT);
    assert_string_equal(error.field, "blk.0.ffn_up.weight");
    assert_int_equal(cold_stats_of(model).rows, 0);
    assert_int_equal(
        split_provide(session, &split, (wisp_range){split.hot_bytes, split.size - split.hot_bytes}),
        WISP_OK);
    assert_int_equal(wisp_embed_continue(session, &error), WISP_OK);
    wisp_session_close(session);
    wisp_model_close(model);

    model = open_with(split.path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    session = open_cold_session(model, 1, false);
    assert_int_equal(wisp_session_provide(session, 0, row, 4, &error), WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    wisp_model_close(model);
    split_close(&split);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_gives_the_bits_of_the_whole_model),
        cmocka_unit_test(limited_memory_gives_the_bits_of_the_whole_model),
        cmocka_unit_test(a_source_that_keeps_rows_holds_weights_too),
        cmocka_unit_test(threads_that_share_a_text_wait_together),
        cmocka_unit_test(sessions_share_neurons),
        cmocka_unit_test(skipping_counts_what_it_leaves_out),
        cmocka_unit_test(a_call_that_waits_can_be_given_up),
        cmocka_unit_test(misuse_is_an_error),
    };
    return cmocka_run_group_tests_name("models without their cold neurons", tests, NULL,
                                       tear_down_temporary_folder);
}
