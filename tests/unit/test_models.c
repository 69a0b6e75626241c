/* SPDX-License-Identifier: Apache-2.0
 * Compares small random models, as sentence-transformers saves them (tests/oracle/make_models.py)
 * or transformers (make_clip.py), with its results. They have shapes and settings that
 * all-MiniLM-L6-v2 does not have. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char *const models[] = {"models/cls12",
                                     "models/mean-shards",
                                     "models/prompted",
                                     "models/nomic",
                                     "models/nomic-respelt",
                                     "models/overridden",
                                     "models/roberta",
                                     "models/xlm-roberta",
                                     "models/distilbert",
                                     "models/mpnet",
                                     "models/deberta-v3",
                                     "models/deberta-v2",
                                     "models/dense",
                                     "models/dense-twice",
                                     "models/checkpoint",
                                     "models/checkpoint-old",
                                     "models/onnx",
                                     "models/onnx-new",
                                     "models/onnx-int8",
                                     "models/onnx-q4",
                                     "models/modernbert",
                                     "models/qwen3-embedding",
                                     "models/embeddinggemma",
                                     "models/gemma3-last",
                                     "models/lfm2-embedding",
                                     "models/electra-small",
                                     "models/electra-base",
                                     "models/gte-en",
                                     "models/gte-multilingual",
                                     "models/eurobert",
                                     "models/jina-v2",
                                     "models/jina-v3",
                                     "models/nomic-moe",
                                     "models/splade-bert",
                                     "models/splade-roberta",
                                     "models/splade-distilbert",
                                     "models/splade-modernbert",
                                     "models/static",
                                     "models/static-weights",
                                     "models/clip",
                                     "models/clip-text",
                                     "models/siglip",
                                     "models/siglip2",
                                     "models/siglip-text"};

/* Returns the largest difference of a case's rows from the golden ones, relative to their length.
 */
static double worst_difference(wisp_session *session, const wisp_model *model,
                               const struct json *example) {
    const size_t size = wisp_model_dimensions(model);
    const char *name = json_get(example, "prompt")->text;
    const char *prompt = *name ? wisp_model_prompt(model, name) : "";
    const wisp_embed_options options = {.prompt = prompt};
    wisp_error error;
    size_t n;
    wisp_text *texts = texts_of_json(json_get(example, "texts"), &n);
    float *rows = calloc(n * size, sizeof *rows);
    assert_non_null(prompt);
    assert_non_null(rows);
    if (wisp_embed(session, texts, n, &options, rows, &error) != WISP_OK)
        fail_msg("%s", error.message);
    double worst = 0;
    const float *row = rows;
    for (const struct json *r = json_get(example, "rows")->first; r; r = r->next, row += size) {
        double squares = 0, length = 0, value;
        size_t i = 0;
        assert_int_equal(r->count, size);
        for (const struct json *v = r->first; v; v = v->next, i++) {
            assert_true(json_to_double(v, &value));
            squares += ((double)row[i] - value) * ((double)row[i] - value);
            length += value * value;
        }
        worst = fmax(worst, sqrt(squares / length));
    }
    free(texts);
    free(rows);
    return worst;
}

static double worst_of_model(const char *path, const struct json *golden, wisp_compute compute,
                             const char *kernels) {
    wisp_model *model = open_model_or_fail(path, compute, kernels);
    wisp_session *session = open_session_or_fail(model, 2);
    double worst = 0;
    for (const struct json *example = golden->first; example; example = example->next)
        worst = fmax(worst, worst_difference(session, model, example));
    wisp_session_close(session);
    wisp_model_close(model);
    return worst;
}

static void check_golden(const char *folder, const char *golden_file, const char *file,
                         double f32_limit, double bf16_limit, double int8_limit) {
    char path[GOLDEN_PATH_BYTES], name[GOLDEN_PATH_BYTES];
    struct arena arena = {0};
    char *text;
    snprintf(name, sizeof name, "%s/%s", folder, golden_file);
    const struct json *golden = read_json_file(data_path(name, path), &arena, &text);
    const char *opened = file ? file : data_path(folder, path), *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++) {
        const double f32 = worst_of_model(opened, golden, WISP_COMPUTE_F32, kernels);
        const double int8 = worst_of_model(opened, golden, WISP_COMPUTE_INT8, kernels);
        const double bf16 =
            computes_bf16(kernels) ? worst_of_model(opened, golden, WISP_COMPUTE_BF16, kernels) : 0;
        print_message("%s, %s: relative error f32 %.2g, bf16 %.2g, int8 %.2g\n", folder, kernels,
                      f32, bf16, int8);
        assert_true(f32 <= f32_limit);
        assert_true(bf16 <= bf16_limit);
        assert_true(int8 <= int8_limit);
    }
    free(text);
    arena_release(&arena);
}

static void check_model(const char *folder, const char *file, double f32_limit, double bf16_limit,
                        double int8_limit) {
    check_golden(folder, "golden.json", file, f32_limit, bf16_limit, int8_limit);
}

/* f32 may differ by rounding. bf16 may differ by the error of 8 significant bits, and int8 by that
 * of one in 255 steps, through up to 12 layers whose weights spread ten times as far as a real
 * model's. */
static void folders_match_sentence_transformers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_model(models[i], NULL, 3e-5, 0.03, 0.09);
}

static void converted_files_match_too(void **state) {
    (void)state;
    static const struct {
        const char *type;
        double limit;
    } types[] = {{NULL, 3e-5}, {"f32", 3e-5}, {"f16", 5e-3}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            char file[] = "/tmp/wisp-test-XXXXXX";
            const wisp_convert_options options = {.type = types[t].type};
            convert_data_or_fail(models[i], &options, file);
            check_model(models[i], file, types[t].limit, 0.03, 0.09);
            unlink(file);
        }
}

/* A task's adapter changes all matrices, and its prompt becomes the default. */
static void adapters_are_merged(void **state) {
    (void)state;
    static const char *const tasks[] = {"retrieval.query", "retrieval.passage"};
    char golden[64];
    for (size_t i = 0; i < 2; i++) {
        char file[] = "/tmp/wisp-test-XXXXXX";
        const wisp_convert_options options = {.adapter = tasks[i]};
        convert_data_or_fail("models/jina-v3", &options, file);
        snprintf(golden, sizeof golden, "golden-%s.json", tasks[i]);
        check_golden("models/jina-v3", golden, file, 3e-5, 0.03, 0.09);
        wisp_model *model = open_model_or_fail(file, WISP_COMPUTE_F32, NULL);
        assert_string_equal(wisp_model_prompt(model, NULL), wisp_model_prompt(model, tasks[i]));
        wisp_model_close(model);
        unlink(file);
    }
}

/* A name that is none of the model's, and models without adapters: a folder and a file. */
static void other_adapters_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *model, *adapter, *message;
    } cases[] = {{"models/jina-v3", "summaries", "separation, classification, text-matching"},
                 {"models/xlm-roberta", "separation", "has no adapters"},
                 {"../../models/wisp-default.gguf", "separation", "only folders have adapters"}};
    char path[GOLDEN_PATH_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const wisp_convert_options options = {.adapter = cases[i].adapter};
        wisp_error error;
        assert_int_equal(wisp_convert(data_path(cases[i].model, path), "/tmp/wisp-no-adapter.gguf",
                                      &options, &error),
                         WISP_ERROR_ARGUMENT);
        assert_string_equal(error.field, "adapter");
        assert_non_null(strstr(error.message, cases[i].message));
    }
}

static void expect_refused(const wisp_model_options *options, const char *field) {
    char path[GOLDEN_PATH_BYTES];
    wisp_error error;
    wisp_model *model;
    assert_int_equal(wisp_model_open(data_path("models/cls12", path), options, &model, &error),
                     WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, field);
    assert_null(model);
}

/* Sets without products of bfloats refuse them, and so does what computes in int8 alone. */
static void bf16_is_never_silently_something_else(void **state) {
    (void)state;
    const char *kernels;
    wisp_model_options options = {.compute = WISP_COMPUTE_BF16};
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++) {
        options.kernels = kernels;
        if (!computes_bf16(kernels))
            expect_refused(&options, "compute");
    }
    assert_true(computes_bf16("scalar"));
    options.kernels = "scalar";
    options.predictor = WISP_PREDICTOR_EXACT;
    expect_refused(&options, "predictor");
    options.portable = true;
    expect_refused(&options, "portable");
}

/* Matrices whose rows of 36 and 24 values hold no whole block of 32 become f16. */
static void rows_that_fit_no_block_become_f16(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES], file[] = "/tmp/wisp-test-XXXXXX";
    const wisp_convert_options options = {.type = "q8_0"};
    wisp_error error;
    close(mkstemp(file));
    assert_int_equal(wisp_convert(data_path("models/cls12", path), file, &options, &error),
                     WISP_OK);
    check_model("models/cls12", file, 5e-3, 0.03, 0.09);
    unlink(file);
}

static void settings_are_read(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    wisp_model_info info;
    wisp_model *model =
        open_model_or_fail(data_path("models/prompted", path), WISP_COMPUTE_AUTO, NULL);
    wisp_model_get_info(model, &info);
    assert_string_equal(info.pooling, "mean");
    assert_string_equal(info.compute, compute_of_floats());
    assert_int_equal(info.max_tokens, 32);
    assert_string_equal(wisp_model_prompt(model, NULL), "query: ");
    assert_string_equal(wisp_model_prompt(model, "passage"), "passage: ");
    assert_null(wisp_model_prompt(model, "no such prompt"));
    wisp_model_close(model);
    model = open_model_or_fail(data_path("models/cls12", path), WISP_COMPUTE_INT8, "scalar");
    wisp_model_get_info(model, &info);
    assert_string_equal(info.pooling, "cls");
    assert_string_equal(info.compute, "int8");
    assert_string_equal(info.kernels, "scalar");
    assert_int_equal(info.layers, 12);
    assert_int_equal(info.max_tokens, 64);
    assert_string_equal(wisp_model_prompt(model, NULL), "");
    wisp_model_close(model);
    model = open_model_or_fail(data_path("models/mean-shards", path), WISP_COMPUTE_AUTO, NULL);
    wisp_model_get_info(model, &info);
    assert_int_equal(info.max_tokens, 40);
    wisp_model_close(model);
}

/* The folder says truncate_dim 8 of 16 values. Fewer can be asked for, and more cannot. */
static void embeddings_are_cut(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    wisp_error error;
    float row[16];
    const wisp_text text = wisp_text_of("water");
    wisp_model *model =
        open_model_or_fail(data_path("models/overridden", path), WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_model_dimensions(model), 8);
    const wisp_embed_options more = {.dimensions = 9}, fewer = {.dimensions = 4};
    assert_int_equal(wisp_embed(session, &text, 1, &more, row, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "dimensions");
    assert_int_equal(wisp_embed(session, &text, 1, &fewer, row, &error), WISP_OK);
    double squares = 0;
    for (size_t i = 0; i < 4; i++)
        squares += (double)row[i] * (double)row[i];
    assert_true(fabs(squares - 1) < 1e-6);
    wisp_session_close(session);
    wisp_model_close(model);
}

static void a_splade_has_a_value_for_each_word(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    const wisp_model_options portable = {.portable = true};
    const wisp_embed_options cut = {.dimensions = 8};
    const wisp_text text = wisp_text_of("the cat");
    wisp_model_info info;
    wisp_session *session;
    wisp_model *other = NULL;
    wisp_error error;
    float rows[8];
    wisp_model *model =
        open_model_or_fail(data_path("models/splade-bert", path), WISP_COMPUTE_AUTO, NULL);
    wisp_model_get_info(model, &info);
    assert_string_equal(info.pooling, "splade");
    assert_int_equal(wisp_model_dimensions(model), info.vocabulary_size);
    assert_int_equal(wisp_session_open(model, NULL, &session, &error), WISP_OK);
    assert_int_equal(wisp_embed(session, &text, 1, &cut, rows, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "dimensions");
    wisp_session_close(session);
    wisp_model_close(model);
    assert_int_equal(
        wisp_model_open(data_path("models/splade-bert", path), &portable, &other, &error),
        WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "portable");

    static struct folder folder;
    const char *fewer = temporary_path("fewer");
    folder_read_model(&folder, "splade-bert");
    folder_replace(&folder, "config_sentence_transformers.json", "{", "{\"truncate_dim\":8,");
    folder_write(&folder, fewer);
    folder_release(&folder);
    assert_int_equal(wisp_model_open(fewer, NULL, &other, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "wisp.dimensions");
}

/* An encoder's experts may be in the file until a text needs them, with the same bits. */
static void experts_may_be_absent(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    const wisp_text texts[] = {wisp_text_of("the cat sat on the mat"), wisp_text_of("water")};
    float rows[2][2 * 32];
    wisp_expert_stats stats;
    wisp_model_info info;
    wisp_error error;
    data_path("models/nomic-moe", path);
    for (size_t i = 0; i < 2; i++) {
        const wisp_model_options options = {.compute = WISP_COMPUTE_F32,
                                            .memory = i == 0 ? 0 : info.resident_bytes - 20000};
        wisp_model *model;
        if (wisp_model_open(path, &options, &model, &error) != WISP_OK)
            fail_msg("%s", error.message);
        wisp_session *session = open_session_or_fail(model, 2);
        wisp_model_get_info(model, &info);
        assert_int_equal(wisp_model_dimensions(model), 32);
        assert_int_equal(wisp_embed(session, texts, 2, NULL, rows[i], &error), WISP_OK);
        assert_true(wisp_model_get_expert_stats(model, &stats));
        assert_int_equal(stats.layers, 2);
        assert_int_equal(stats.used, 2);
        assert_true((stats.read > 0) == (i == 1));
        wisp_session_close(session);
        wisp_model_close(model);
    }
    assert_memory_equal(rows[0], rows[1], sizeof rows[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_match_sentence_transformers),
        cmocka_unit_test(converted_files_match_too),
        cmocka_unit_test(adapters_are_merged),
        cmocka_unit_test(other_adapters_are_refused),
        cmocka_unit_test(experts_may_be_absent),
        cmocka_unit_test(rows_that_fit_no_block_become_f16),
        cmocka_unit_test(bf16_is_never_silently_something_else),
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(embeddings_are_cut),
        cmocka_unit_test(a_splade_has_a_value_for_each_word),
    };
    return cmocka_run_group_tests_name("models", tests, NULL, tear_down_temporary_folder);
}
