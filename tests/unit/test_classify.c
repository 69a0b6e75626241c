/* SPDX-License-Identifier: Apache-2.0
 * Classifiers: compares tiny models, as transformers saves them (tests/oracle/make_rankers.py),
 * with the scores of its text-classification pipeline, and checks what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quant/blocks.h"
#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char *const models[] = {
    "models/labels-bert",       "models/labels-roberta",    "models/labels-distilbert",
    "models/labels-deberta",    "models/labels-regression", "models/labels-xlm-roberta",
    "models/labels-modernbert", "models/labels-mpnet",      "models/labels-gte"};

enum { MOST_TEXTS = 16, MOST_LABELS = 16 };

static void check_labels(const wisp_model *model, const struct json *labels) {
    size_t i = 0;
    for (const struct json *label = labels->first; label; label = label->next, i++)
        assert_string_equal(wisp_model_label(model, i), label->text);
    assert_int_equal(wisp_model_dimensions(model), i);
    assert_null(wisp_model_label(model, i));
}

/* Returns the largest difference of the scores of a case from the golden ones. */
static double worst_of_case(wisp_session *session, const struct json *example, size_t labels) {
    const struct json *given = json_get(example, "seconds");
    float scores[MOST_TEXTS * MOST_LABELS], alone[MOST_LABELS];
    double worst = 0, golden;
    wisp_error error;
    size_t n, pairs = 0;
    wisp_text *texts = texts_of_json(json_get(example, "texts"), &n);
    wisp_text *seconds = json_is(given, JSON_ARRAY) ? texts_of_json(given, &pairs) : NULL;
    assert_true(n <= MOST_TEXTS && labels <= MOST_LABELS && (!seconds || pairs == n));
    if (wisp_classify(session, texts, seconds, n, scores, &error) != WISP_OK)
        fail_msg("%s", error.message);
    const struct json *row = json_get(example, "scores")->first;
    for (size_t i = 0; i < n; i++, row = row->next) {
        size_t l = i * labels;
        for (const struct json *score = row->first; score; score = score->next, l++) {
            assert_true(json_to_double(score, &golden));
            worst = fmax(worst, fabs((double)scores[l] - golden) / fmax(1, fabs(golden)));
        }
        assert_int_equal(
            wisp_classify(session, &texts[i], seconds ? &seconds[i] : NULL, 1, alone, &error),
            WISP_OK);
        assert_memory_equal(alone, &scores[i * labels], labels * sizeof *alone);
    }
    free(texts);
    free(seconds);
    return worst;
}

static double worst_of_model(const char *path, const struct json *golden, wisp_compute compute,
                             const char *kernels) {
    wisp_model *model = open_model_or_fail(path, compute, kernels);
    wisp_session *session = open_session_or_fail(model, 2);
    const size_t labels = wisp_model_dimensions(model);
    wisp_model_info info;
    double worst = 0;
    wisp_model_get_info(model, &info);
    assert_string_equal(info.pooling, labels > 1 ? "labels" : "rank");
    for (const struct json *example = golden->first; example; example = example->next) {
        check_labels(model, json_get(example, "labels"));
        worst = fmax(worst, worst_of_case(session, example, labels));
    }
    wisp_session_close(session);
    wisp_model_close(model);
    return worst;
}

static const struct golden_check check = {worst_of_model, 2e-5, 0.08};
enum { MODELS = sizeof models / sizeof *models };

static void folders_match_transformers(void **state) {
    (void)state;
    check_golden_folders(&check, models, MODELS);
}

static void converted_files_match_too(void **state) {
    (void)state;
    check_golden_files(&check, models, MODELS);
}

static void each_kind_of_model_says_what_it_does(void **state) {
    char path[GOLDEN_PATH_BYTES];
    const wisp_text text = wisp_text_of("x");
    wisp_error error;
    float row[64];
    (void)state;
    wisp_model *model =
        open_model_or_fail(data_path("models/labels-bert", path), WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "wisp_classify"));
    assert_int_equal(wisp_rerank(session, text, &text, 1, row, &error), WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "3 labels"));
    assert_non_null(strstr(error.message, "wisp classify"));
    assert_int_equal(wisp_classify(session, &text, NULL, 0, NULL, &error), WISP_OK);
    assert_int_equal(wisp_classify(session, &text, NULL, 1, NULL, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_classify(NULL, &text, NULL, 1, row, &error), WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    wisp_model_close(model);
    /* A head of one output has one label, and its score of a pair goes through the same sigmoid. */
    model = open_model_or_fail(data_path("models/rank-bert", path), WISP_COMPUTE_F32, NULL);
    session = open_session_or_fail(model, 1);
    assert_string_equal(wisp_model_label(model, 0), "LABEL_0");
    assert_int_equal(wisp_rerank(session, text, &text, 1, row, &error), WISP_OK);
    assert_int_equal(wisp_classify(session, &text, &text, 1, row + 1, &error), WISP_OK);
    assert_memory_equal(row, row + 1, sizeof *row);
    wisp_session_close(session);
    wisp_model_close(model);
    model = open_model_or_fail(data_path("models/dense", path), WISP_COMPUTE_F32, NULL);
    session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_classify(session, &text, NULL, 1, row, &error), WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "no labels"));
    assert_null(wisp_model_label(model, 0));
    wisp_session_close(session);
    wisp_model_close(model);
}

static void settings_are_checked(void **state) {
    enum { UNSUPPORTED = WISP_ERROR_UNSUPPORTED, FORMAT = WISP_ERROR_FORMAT };
    static const char CONFIG[] = "config.json";
    static const struct {
        const char *model, *old, *with;
        int status;
        const char *field, *says;
    } edits[] = {
        {"labels-bert", "\"0\": \"contradiction\"", "\"3\": \"contradiction\"", FORMAT, "id2label",
         "numbers from 0 on"},
        {"labels-bert", "\"0\": \"contradiction\"", "\"01\": \"contradiction\"", FORMAT, "id2label",
         "numbers from 0 on"},
        {"labels-bert", "\"contradiction\"", "7", FORMAT, "id2label", "not strings"},
        {"labels-bert", "\"0\": \"contradiction\",", "", FORMAT, "id2label", "numbers from 0 on"},
        {"labels-bert", "\"id2label\"", "\"id2labels\"", FORMAT, "bert.classifier.output_labels",
         "not a list of 3 strings"},
        {"labels-distilbert", "\"0\": \"NEGATIVE\",\n    \"1\": \"POSITIVE\"", "\"0\": \"LABEL_0\"",
         FORMAT, "wisp.cls.output.activation", "has 2 outputs"},
        {"labels-distilbert", "\"id2label\"", "\"id2labels\"", WISP_OK, NULL, NULL},
        {"labels-distilbert", "single_label_classification", "ranking", UNSUPPORTED, "problem_type",
         "only regression"},
        {"labels-modernbert", "\"classifier_pooling\": \"cls\"", "\"classifier_pooling\": \"max\"",
         UNSUPPORTED, "classifier_pooling", "only cls and mean"},
        {"labels-modernbert", "\"classifier_activation\": \"gelu\"",
         "\"classifier_activation\": \"silu\"", UNSUPPORTED, "classifier_activation", "only gelu"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        struct folder folder;
        folder_read_model(&folder, edits[i].model);
        folder_replace(&folder, CONFIG, edits[i].old, edits[i].with);
        const char *path = temporary_path("model");
        folder_write(&folder, path);
        wisp_model *model = NULL;
        wisp_error error = WISP_ERROR_NONE;
        const wisp_status status = wisp_model_open(path, NULL, &model, &error);
        if ((int)status != edits[i].status ||
            (edits[i].says && !strstr(error.message, edits[i].says)) ||
            (edits[i].field && strcmp(error.field, edits[i].field) != 0))
            fail_msg("%s: %s: %s", edits[i].with, error.field, error.message);
        wisp_model_close(model);
        folder_release(&folder);
    }
}

/* Makes a tiny BERT with a head of three outputs. */
static void make_head(struct gguf *file) {
    const uint32_t size = tiny_shape.hidden;
    gguf_make(file, &tiny_shape);
    gguf_set_u32(file, "bert.pooling_type", 4);
    gguf_drop_key(file, "wisp.normalize");
    tiny_add_tensor(file, "cls.weight", size, size, BLOCK_F32);
    tiny_add_tensor(file, "cls.bias", size, 1, BLOCK_F32);
    tiny_add_tensor(file, "cls.output.weight", size, 3, BLOCK_F32);
    tiny_add_tensor(file, "cls.output.bias", 3, 1, BLOCK_F32);
}

static void set_labels(struct gguf *file) {
    static const char *const labels[] = {"a", "b"};
    gguf_set_texts(file, "bert.classifier.output_labels", labels, 2);
}

static void set_function(struct gguf *file) {
    gguf_set_text(file, "wisp.classifier.function", "sparsemax");
}

static void set_pooling(struct gguf *file) {
    gguf_set_u32(file, "wisp.head_pooling", 3);
}

static void set_dimensions(struct gguf *file) {
    gguf_set_u32(file, "wisp.dimensions", 2);
}

static void add_norm(struct gguf *file) {
    tiny_add_tensor(file, "cls.norm.bias", tiny_shape.hidden, 1, BLOCK_F32);
}

static void keys_of_files_are_checked(void **state) {
    const wisp_status unsupported = WISP_ERROR_UNSUPPORTED;
    const struct {
        void (*edit)(struct gguf *file);
        wisp_status status;
        const char *field, *says;
    } edits[] = {
        {NULL, unsupported, "pooling_type",
         "it scores labels of texts"}, /* embedding, not opening */
        {set_labels, WISP_ERROR_FORMAT, "bert.classifier.output_labels", "not a list of 3 strings"},
        {set_function, unsupported, "wisp.classifier.function", "sparsemax is not supported"},
        {set_pooling, unsupported, "wisp.head_pooling", "pooling type 3"},
        {set_dimensions, unsupported, "wisp.dimensions", "2 of 3 scores"},
        {add_norm, WISP_ERROR_NOT_FOUND, "cls.norm.weight", "missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        struct gguf file;
        struct bytes bytes = {0};
        make_head(&file);
        if (edits[i].edit)
            edits[i].edit(&file);
        gguf_settle(&file);
        gguf_write_bytes(&file, &bytes);
        const struct opening opening = open_data(bytes.data, bytes.size);
        expect_outcome(&opening, edits[i].status, edits[i].field, edits[i].says);
        bytes_release(&bytes);
        gguf_release(&file);
    }
}

/* Classifies a text by a tiny BERT whose head has a norm, with this activation or, if it is NULL,
 * that of files without the key. */
static void classify_with(const char *activation, float row[3]) {
    const wisp_text text = wisp_text_of("the cat");
    const char *path = temporary_path("head.gguf");
    struct gguf file;
    struct bytes bytes = {0};
    wisp_error error;
    make_head(&file);
    tiny_add_tensor(&file, "cls.norm.weight", tiny_shape.hidden, 1, BLOCK_F32);
    if (activation)
        gguf_set_text(&file, "wisp.cls.activation", activation);
    gguf_settle(&file);
    gguf_write_bytes(&file, &bytes);
    write_file(path, bytes.data, bytes.size);
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_classify(session, &text, NULL, 1, row, &error), WISP_OK);
    wisp_session_close(session);
    wisp_model_close(model);
    bytes_release(&bytes);
    gguf_release(&file);
}

static void a_head_with_a_norm_has_gelu(void **state) {
    float usual[3], gelu[3], tangent[3];
    (void)state;
    classify_with(NULL, usual);
    classify_with("gelu", gelu);
    classify_with("tanh", tangent);
    assert_memory_equal(usual, gelu, sizeof usual);
    assert_memory_not_equal(usual, tangent, sizeof usual);
}

static void memory_may_run_out(void **state) {
    char path[GOLDEN_PATH_BYTES];
    (void)state;
    expect_memory_errors(data_path("models/labels-bert", path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_match_transformers),
        cmocka_unit_test(converted_files_match_too),
        cmocka_unit_test(each_kind_of_model_says_what_it_does),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(keys_of_files_are_checked),
        cmocka_unit_test(a_head_with_a_norm_has_gelu),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("classify", tests, NULL, tear_down_temporary_folder);
}
