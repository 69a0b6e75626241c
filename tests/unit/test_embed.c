/* SPDX-License-Identifier: Apache-2.0
 * The promises of wisp_embed, on the default model: the same bits in any batch and on any number of
 * threads, prompts, dimensions, truncation, statistics, cancelling, and errors that leave the
 * session usable. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "support/sampling.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char default_model[] = "models/wisp-default.gguf";

enum { TEXTS = 20, SIZE = 384, MAX_BYTES = 4096 };

struct fixture {
    wisp_text texts[TEXTS];
    char bytes[TEXTS][MAX_BYTES];
};

/* Makes texts from empty to longer than the token limit, of words in an order that depends on the
 * text. */
static void make_texts(struct fixture *f) {
    static const char *const words[] = {"river", "of",   "stones", "quietly", "Seven",
                                        "ünder", "the ", "crow-s", "日本",    "x1!"};
    for (size_t i = 0; i < TEXTS; i++) {
        const size_t count = i * i * i / 20; /* 0 .. 342 words */
        size_t used = 0;
        for (size_t w = 0; w < count; w++)
            used += (size_t)snprintf(f->bytes[i] + used, MAX_BYTES - used, "%s ",
                                     words[(w * (i + 3) + w / 7) % 10]);
        f->texts[i] = (wisp_text){f->bytes[i], used};
    }
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    make_texts(f);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    free(*state);
    return 0;
}

static void embed_or_fail(wisp_session *session, const wisp_text *texts, size_t n,
                          const wisp_embed_options *options, float *rows) {
    wisp_error error;
    if (wisp_embed(session, texts, n, options, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
}

/* Embeds all texts, one text in each call. */
static float *embed_alone(const wisp_model *model, const struct fixture *f) {
    float *rows = calloc(TEXTS * SIZE, sizeof *rows);
    wisp_session *session = open_session_or_fail(model, 1);
    for (size_t i = 0; i < TEXTS; i++)
        embed_or_fail(session, &f->texts[i], 1, NULL, rows + i * SIZE);
    wisp_session_close(session);
    return rows;
}

static void check_same_bits(const wisp_model *model, const struct fixture *f) {
    static const uint32_t threads[] = {1, 2, 7};
    float *alone = embed_alone(model, f), *rows = calloc(TEXTS * SIZE, sizeof *rows);
    wisp_text reversed[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        reversed[i] = f->texts[TEXTS - 1 - i];
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        wisp_session *session = open_session_or_fail(model, threads[t]);
        embed_or_fail(session, f->texts, TEXTS, NULL, rows);
        assert_memory_equal(rows, alone, TEXTS * SIZE * sizeof *rows);
        embed_or_fail(session, reversed, TEXTS, NULL, rows);
        for (size_t i = 0; i < TEXTS; i++)
            assert_memory_equal(rows + i * SIZE, alone + (TEXTS - 1 - i) * SIZE,
                                SIZE * sizeof *rows);
        /* Embeds one or two texts in each call, whose tokens the threads share. */
        for (size_t i = 0; i + 1 < TEXTS; i += 3) {
            embed_or_fail(session, f->texts + i, 1 + i % 2, NULL, rows);
            assert_memory_equal(rows, alone + i * SIZE, (1 + i % 2) * SIZE * sizeof *rows);
        }
        wisp_session_close(session);
    }
    free(rows);
    free(alone);
}

static void bits_depend_on_the_text_alone(void **state) {
    const char *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++) {
        if (strcmp(kernels, "scalar") == 0)
            continue; /* the scalar set is slow, and runs the same code above the kernels */
        if (i > 0 && !everything_runs("the same bits with further kernel sets"))
            break;
        for (int compute = WISP_COMPUTE_F32; compute <= WISP_COMPUTE_INT8; compute++) {
            wisp_model *model = open_model_or_fail(default_model, (wisp_compute)compute, kernels);
            check_same_bits(model, *state);
            wisp_model_close(model);
        }
    }
}

struct sharer {
    const wisp_model *model;
    const struct fixture *fixture;
    float *rows;
};

static void *embed_in_thread(void *argument) {
    struct sharer *s = argument;
    s->rows = embed_alone(s->model, s->fixture);
    return NULL;
}

static void a_model_is_shared_by_threads(void **state) {
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    struct sharer sharers[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        sharers[i] = (struct sharer){.model = model, .fixture = *state};
        assert_int_equal(pthread_create(&threads[i], NULL, embed_in_thread, &sharers[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 3; i++)
        assert_memory_equal(sharers[0].rows, sharers[i].rows, TEXTS * SIZE * sizeof(float));
    for (int i = 0; i < 3; i++)
        free(sharers[i].rows);
    wisp_model_close(model);
}

static void rows_are_normalised(void **state) {
    const struct fixture *f = *state;
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    float whole[SIZE], first[100];
    const wisp_embed_options options = {.dimensions = 100};
    embed_or_fail(session, &f->texts[9], 1, NULL, whole);
    assert_float_equal(wisp_dot(whole, whole, SIZE), 1, 1e-6f);
    embed_or_fail(session, &f->texts[9], 1, &options, first);
    assert_float_equal(wisp_dot(first, first, 100), 1, 1e-6f);
    const float scale = first[0] / whole[0];
    for (int i = 0; i < 100; i++)
        assert_float_equal(first[i], whole[i] * scale, 1e-6f);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void a_prompt_stands_before_the_text(void **state) {
    (void)state;
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    const wisp_text joined = wisp_text_of("query: seven stones"),
                    rest = wisp_text_of("seven stones");
    const wisp_embed_options options = {.prompt = "query: "};
    float a[SIZE], b[SIZE];
    embed_or_fail(session, &joined, 1, NULL, a);
    embed_or_fail(session, &rest, 1, &options, b);
    assert_memory_equal(a, b, sizeof a);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* Returns whether feed-forward layers with this predictor have the stage. */
static bool is_stage_of(const char *stage, const char *predictor) {
    static const char *const dense_stages[] = {"ffn_up", "activation", "ffn_down"};
    const bool is_dense = strcmp(predictor, "dense") == 0;
    for (size_t i = 0; i < sizeof dense_stages / sizeof *dense_stages; i++)
        if (strcmp(stage, dense_stages[i]) == 0)
            return is_dense;
    if (strcmp(stage, "logits") == 0) /* of models that generate */
        return false;
    return strcmp(stage, "ffn_sparse") != 0 || !is_dense;
}

static void statistics_count(void **state) {
    const struct fixture *f = *state;
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 2);
    float *rows = calloc(TEXTS * SIZE, sizeof *rows);
    wisp_stats stats;
    wisp_model_info info;
    wisp_error error;
    uint64_t tokens = 0, truncated = 0;
    wisp_model_get_info(model, &info);
    for (size_t i = 0; i < TEXTS; i++) {
        size_t count, whole;
        assert_int_equal(wisp_tokenize(model, f->texts[i], NULL, 0, &count, &error), WISP_OK);
        tokens += count;
        assert_int_equal(wisp_count_tokens(model, f->texts[i], &whole, &error), WISP_OK);
        assert_true(whole == count || (whole > count && count == info.max_tokens));
        truncated += whole > count;
    }
    embed_or_fail(session, f->texts, TEXTS, NULL, rows);
    wisp_session_get_stats(session, &stats);
    assert_int_equal(stats.texts, TEXTS);
    assert_int_equal(stats.tokens, tokens);
    assert_true(stats.truncated_texts > 0 && stats.truncated_texts < TEXTS);
    assert_int_equal(stats.truncated_texts, truncated);
    for (size_t i = 0; i < WISP_STAGES; i++) /* there are batches for all threads: none waits */
        assert_true((stats.stage_seconds[i] > 0) ==
                    (strcmp(wisp_stage_name(i), "wait") != 0 &&
                     is_stage_of(wisp_stage_name(i), info.predictor)));
    assert_null(wisp_stage_name(WISP_STAGES));
    assert_true(stats.workspace_bytes > 0);
    free(rows);
    wisp_session_close(session);
    wisp_model_close(model);
}

/* The working memory stops growing after the largest batch. */
static void memory_stays_flat(void **state) {
    const struct fixture *f = *state;
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    float *rows = calloc(TEXTS * SIZE, sizeof *rows);
    wisp_stats before, after;
    embed_or_fail(session, f->texts, TEXTS, NULL, rows);
    wisp_session_get_stats(session, &before);
    for (int i = 0; i < 3; i++)
        embed_or_fail(session, f->texts, TEXTS, NULL, rows);
    wisp_session_get_stats(session, &after);
    assert_int_equal(before.workspace_bytes, after.workspace_bytes);
    free(rows);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void cancelling_leaves_the_session_usable(void **state) {
    const struct fixture *f = *state;
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 2);
    float *rows = calloc(TEXTS * SIZE, sizeof *rows);
    wisp_error error;
    wisp_session_cancel(session);
    assert_int_equal(wisp_embed(session, f->texts, TEXTS, NULL, rows, &error),
                     WISP_ERROR_CANCELLED);
    assert_int_equal(error.status, WISP_ERROR_CANCELLED);
    embed_or_fail(session, f->texts, TEXTS, NULL, rows);
    free(rows);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void wrong_arguments_are_refused(void **state) {
    const struct fixture *f = *state;
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    wisp_error error;
    float row[SIZE];
    const wisp_model_options no_such_set = {.kernels = "abacus"};
    assert_int_equal(wisp_model_open(default_model, &no_such_set, &model, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "kernels");
    assert_null(model);
    assert_int_equal(wisp_model_open("no/such/file.gguf", NULL, &model, &error),
                     WISP_ERROR_NOT_FOUND);
    assert_string_equal(error.file, "no/such/file.gguf");
    model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    const wisp_session_options many = {.threads = 100000};
    assert_int_equal(wisp_session_open(model, &many, &session, &error), WISP_ERROR_ARGUMENT);
    session = open_session_or_fail(model, 1);
    const wisp_embed_options wide = {.dimensions = SIZE + 1};
    assert_int_equal(wisp_embed(session, f->texts, 1, &wide, row, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "dimensions");
    assert_int_equal(wisp_embed(session, f->texts, 1, &wide, row, NULL), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_embed(session, NULL, 0, NULL, NULL, &error), WISP_OK);
    embed_or_fail(session, &f->texts[5], 1, NULL, row);
    wisp_session_close(session);
    wisp_model_close(model);
    wisp_session_close(NULL);
    wisp_model_close(NULL);
}

static void metadata_can_be_listed(void **state) {
    (void)state;
    wisp_model *model = open_model_or_fail(default_model, WISP_COMPUTE_AUTO, NULL);
    const char *key;
    char value[32];
    size_t n = 0;
    bool found = false;
    while (wisp_model_metadata(model, n, &key, value, sizeof value)) {
        if (strcmp(key, "tokenizer.ggml.tokens") == 0)
            assert_string_equal(value, "string[30522]");
        if (strcmp(key, "wisp.hidden_act") == 0)
            found = strcmp(value, "relu") == 0;
        n++;
    }
    assert_true(found);
    assert_true(n > 20);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_depend_on_the_text_alone),
        cmocka_unit_test(a_model_is_shared_by_threads),
        cmocka_unit_test(rows_are_normalised),
        cmocka_unit_test(a_prompt_stands_before_the_text),
        cmocka_unit_test(statistics_count),
        cmocka_unit_test(memory_stays_flat),
        cmocka_unit_test(cancelling_leaves_the_session_usable),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(metadata_can_be_listed),
    };
    return cmocka_run_group_tests_name("embed", tests, set_up, tear_down);
}
