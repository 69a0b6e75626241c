/* SPDX-License-Identifier: Apache-2.0
 * Every family of encoders with feed-forward layers becomes sparse, quantised and cold as BERT
 * does: calibration, the predictors lowrank and exact, neurons as rows and back, memory for a part
 * of the weights, and 8-bit files. test_models.c compares the same models with their references. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256, CALIBRATED_TEXTS = 48, USED_TEXTS = 8 };

/* A model of tests/data/models. */
struct family {
    const char *name;
    bool generates_too; /* a decoder that embeds: it opens whole */
};

static const struct family families[] = {
    {"mean-shards", false},   {"roberta", false},     {"xlm-roberta", false},
    {"distilbert", false},    {"mpnet", false},       {"modernbert", false},
    {"deberta-v3", false},    {"deberta-v2", false},  {"electra-base", false},
    {"gte-en", false},        {"jina-v2", false},     {"jina-v3", false},
    {"nomic", false},         {"splade-bert", false}, {"clip", false},
    {"siglip", false},        {"siglip2", false},     {"eurobert", true},
    {"embeddinggemma", true}, {"gemma3-last", true},  {"qwen3-embedding", true},
    {"lfm2-embedding", true},
};

/* The texts that all are calibrated with and embed, in words that every vocabulary has. */
static const char *const words[] = {"the",   "cat", "sat", "on",   "mat", "water",
                                    "query", "new", "a",   "find", "of",  "dog"};
static char lines[CALIBRATED_TEXTS][128];

static void make_lines(wisp_text texts[CALIBRATED_TEXTS]) {
    enum { WORDS = sizeof words / sizeof *words };
    for (size_t i = 0; i < CALIBRATED_TEXTS; i++) {
        size_t used = 0;
        for (size_t k = 0; k < 4 + i % 9; k++)
            used += (size_t)snprintf(lines[i] + used, sizeof lines[i] - used, "%s ",
                                     words[(i * 7 + k * (1 + i % 5)) % WORDS]);
        texts[i] = wisp_text_of(lines[i]);
    }
}

/* Returns the embeddings of the first texts, which the caller frees, and the share of neurons that
 * were computed, unless that is NULL. */
static float *rows_of(const wisp_model *model, const wisp_text *texts, double *share) {
    uint64_t computed = 0, neurons = 0;
    wisp_layer_stats stats;
    wisp_session *session = open_session_or_fail(model, 2);
    float *rows = calloc(USED_TEXTS * wisp_model_dimensions(model), sizeof *rows);
    assert_non_null(rows);
    embed_or_fail(session, texts, USED_TEXTS, rows);
    for (uint32_t l = 0; share && wisp_session_get_layer_stats(session, l, &stats); l++) {
        computed += stats.computed;
        neurons += stats.neurons;
    }
    if (share)
        *share = (double)computed / (double)neurons;
    wisp_session_close(session);
    return rows;
}

/* Returns the mean cosine of what a predictor makes of the texts to `dense`, and the share of
 * neurons that it computes. */
static double nearness(const char *path, wisp_predictor predictor, const wisp_text *texts,
                       const float *dense, double *share) {
    wisp_model *model = open_with(path, WISP_COMPUTE_AUTO, predictor, NULL);
    const size_t size = wisp_model_dimensions(model);
    float *rows = rows_of(model, texts, share);
    double sum = 0;
    for (size_t i = 0; i < USED_TEXTS; i++)
        sum += cosine(rows + i * size, dense + i * size, size);
    free(rows);
    wisp_model_close(model);
    return sum / (double)USED_TEXTS;
}

/* Rows of neurons become matrices again, which are those of the folder. */
static void check_undoing(const char *folder, const char *calibrated) {
    char plain[PATH_BYTES], undone[PATH_BYTES];
    const wisp_convert_options undo = {.plain = true};
    wisp_error error;
    snprintf(plain, sizeof plain, "%s", temporary_path("plain.gguf"));
    snprintf(undone, sizeof undone, "%s", temporary_path("undone.gguf"));
    assert_int_equal(wisp_convert(folder, plain, NULL, &error), WISP_OK);
    assert_int_equal(wisp_convert(calibrated, undone, &undo, &error), WISP_OK);
    expect_same_files(plain, undone);
}

/* With as little memory as the error of less says, cold rows come from the file, with the same
 * bits. */
static void check_cold(const struct family *family, const char *path, const wisp_text *texts) {
    wisp_model_options options = {
        .predictor = WISP_PREDICTOR_LOWRANK, .hot_only = true, .memory = 1};
    unsigned long long least;
    wisp_model *model;
    wisp_error error;
    const wisp_status status = wisp_model_open(path, &options, &model, &error);
    if (family->generates_too) {
        assert_int_equal(status, WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, "hot_only");
        return;
    }
    assert_int_equal(status, WISP_ERROR_ARGUMENT);
    assert_int_equal(
        sscanf(strstr(error.message, "memory: ") + 8, "%llu bytes are always in memory", &least),
        1);
    wisp_model *whole = open_with(path, WISP_COMPUTE_AUTO, WISP_PREDICTOR_LOWRANK, NULL);
    const size_t bytes = USED_TEXTS * wisp_model_dimensions(whole) * sizeof(float);
    float *wanted = rows_of(whole, texts, NULL), *rows = calloc(1, bytes);
    assert_non_null(rows);
    options.memory = least;
    if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_session *session = open_session_or_fail(model, 1);
    if (wisp_embed_from_file(session, texts, USED_TEXTS, NULL, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
    assert_memory_equal(rows, wanted, bytes);
    wisp_session_close(session);
    wisp_model_close(model);
    wisp_model_close(whole);
    free(wanted);
    free(rows);
}

static void a_family_is_sparse_cold_and_quantised(void **state) {
    const struct family *family = *state;
    const wisp_calibrate_options options = {.rank = 8, .predictor_type = "f32", .sparsity = 0.3f};
    const wisp_quantize_options wide = {.fallback = "bf16"}; /* rows of 24 values are no blocks */
    char name[64], folder[GOLDEN_PATH_BYTES], calibrated[PATH_BYTES], small[PATH_BYTES];
    wisp_text texts[CALIBRATED_TEXTS];
    wisp_error error;
    make_lines(texts);
    snprintf(name, sizeof name, "models/%s", family->name);
    data_path(name, folder);
    snprintf(calibrated, sizeof calibrated, "%s", temporary_path("calibrated.gguf"));
    snprintf(small, sizeof small, "%s", temporary_path("small.gguf"));
    if (wisp_calibrate(folder, calibrated, texts, CALIBRATED_TEXTS, &options, &error) != WISP_OK ||
        wisp_quantize(folder, small, "q8_0", &wide, &error) != WISP_OK)
        fail_msg("%s", error.message);

    wisp_model *model = open_with(folder, WISP_COMPUTE_F32, WISP_PREDICTOR_DENSE, NULL);
    float *dense = rows_of(model, texts, NULL);
    wisp_model_close(model);
    double share;
    const double exact = nearness(calibrated, WISP_PREDICTOR_EXACT, texts, dense, NULL);
    const double lowrank = nearness(calibrated, WISP_PREDICTOR_LOWRANK, texts, dense, &share);
    const double quantised = nearness(small, WISP_PREDICTOR_DENSE, texts, dense, NULL);
    print_message("%s: cosine to f32 of exact %.5f, lowrank %.5f with %.0f %% of the neurons, Q8_0 "
                  "%.5f\n",
                  family->name, exact, lowrank, 100 * share, quantised);
    assert_true(exact > 0.99 && quantised > 0.99);
    assert_true(lowrank > 0.95 && share > 0 && share < 0.9);
    free(dense);
    check_undoing(folder, calibrated);
    check_cold(family, calibrated, texts);
}

int main(void) {
    enum { COUNT = sizeof families / sizeof *families };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){.name = families[i].name,
                                       .test_func = a_family_is_sparse_cold_and_quantised,
                                       .initial_state = (void *)(uintptr_t)&families[i]};
    return cmocka_run_group_tests_name("encoder families", tests, NULL, tear_down_temporary_folder);
}
