/* SPDX-License-Identifier: Apache-2.0
 * Cross-encoders: compares tiny models, as transformers saves them (tests/oracle/make_rankers.py),
 * with the scores of sentence-transformers, and checks what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char *const models[] = {"models/rank-bert",       "models/rank-roberta",
                                     "models/rank-distilbert", "models/rank-electra",
                                     "models/rank-jina-v2",    "models/rank-jina-v3",
                                     "models/rank-deberta",    "models/rank-modernbert",
                                     "models/rank-mpnet",      "models/rank-gte"};

enum { MOST_TEXTS = 16 };

/* Returns the largest difference of the scores of a query from the golden ones. */
static double worst_of_query(wisp_session *session, const struct json *example) {
    const char *query = json_get(example, "query")->text;
    float scores[MOST_TEXTS], alone;
    double worst = 0, golden;
    wisp_error error;
    size_t n;
    wisp_text *texts = texts_of_json(json_get(example, "texts"), &n);
    assert_true(n <= MOST_TEXTS);
    if (wisp_rerank(session, wisp_text_of(query), texts, n, scores, &error) != WISP_OK)
        fail_msg("%s", error.message);
    const struct json *score = json_get(example, "scores")->first;
    for (size_t i = 0; i < n; i++, score = score->next) {
        assert_true(json_to_double(score, &golden));
        worst = fmax(worst, fabs((double)scores[i] - golden));
        assert_int_equal(wisp_rerank(session, wisp_text_of(query), &texts[i], 1, &alone, &error),
                         WISP_OK);
        assert_memory_equal(&alone, &scores[i], sizeof alone);
    }
    free(texts);
    return worst;
}

static double worst_of_model(const char *path, const struct json *golden, wisp_compute compute,
                             const char *kernels) {
    wisp_model *model = open_model_or_fail(path, compute, kernels);
    wisp_session *session = open_session_or_fail(model, 2);
    wisp_model_info info;
    double worst = 0;
    wisp_model_get_info(model, &info);
    assert_string_equal(info.pooling, "rank");
    assert_int_equal(wisp_model_dimensions(model), 1);
    for (const struct json *example = golden->first; example; example = example->next)
        worst = fmax(worst, worst_of_query(session, example));
    wisp_session_close(session);
    wisp_model_close(model);
    return worst;
}

static const struct golden_check check = {worst_of_model, 2e-5, 0.06};
enum { MODELS = sizeof models / sizeof *models };

static void folders_match_sentence_transformers(void **state) {
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
        open_model_or_fail(data_path("models/rank-bert", path), WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_embed(session, &text, 1, NULL, row, &error), WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "wisp_rerank"));
    assert_true(wisp_model_ranks(model));
    assert_int_equal(wisp_rerank(session, text, &text, 0, NULL, &error), WISP_OK);
    assert_int_equal(wisp_rerank(session, text, &text, 1, NULL, &error), WISP_ERROR_ARGUMENT);
    assert_int_equal(wisp_rerank(NULL, text, &text, 1, row, &error), WISP_ERROR_ARGUMENT);
    wisp_session_close(session);
    wisp_model_close(model);
    model = open_model_or_fail(data_path("models/dense", path), WISP_COMPUTE_F32, NULL);
    session = open_session_or_fail(model, 1);
    assert_int_equal(wisp_rerank(session, text, &text, 1, row, &error), WISP_ERROR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "not a cross-encoder"));
    assert_false(wisp_model_ranks(model));
    wisp_session_close(session);
    wisp_model_close(model);
}

static void settings_are_checked(void **state) {
    enum {
        UNSUPPORTED = WISP_ERROR_UNSUPPORTED,
        FORMAT = WISP_ERROR_FORMAT,
        NOT_FOUND = WISP_ERROR_NOT_FOUND
    };
    static const char CONFIG[] = "config.json", WEIGHTS[] = "model.safetensors";
    static const struct {
        const char *model, *file, *old, *with;
        int status;
        const char *field, *says;
    } edits[] = {
        {"rank-bert", CONFIG, "\"0\": \"LABEL_0\"", "\"0\": \"LABEL_0\",\"1\":\"b\"", FORMAT,
         "bert.classifier.output_labels", "not a list of 1 strings"},
        {"rank-bert", CONFIG, "\"id2label\"", "\"id2labels\"", FORMAT,
         "bert.classifier.output_labels", "not a list of 1 strings"},
        {"rank-bert", CONFIG, "{", "{\"sbert_ce_default_activation_function\":\"x.Softmax\",",
         UNSUPPORTED, "activation_fn", "only Sigmoid and Identity"},
        {"rank-bert", CONFIG, "{",
         "{\"sentence_transformers\":{\"activation_fn\":\"torch.nn.modules.linear.Identity\"},",
         WISP_OK, NULL, NULL},
        {"rank-bert", CONFIG, "BertForSequenceClassification", "BertModel", UNSUPPORTED,
         "classifier.bias", "classifier or reranker"},
        {"rank-bert", WEIGHTS, "bert.pooler.dense.bias", "bert.pooler.danse.bias", UNSUPPORTED,
         NULL, "does not have"},
        {"rank-bert", WEIGHTS, "\"classifier.weight\"", "\"cls.wxyzuvabcdefg\"", NOT_FOUND,
         "cls.output.weight", "missing"},
        {"rank-distilbert", WEIGHTS, "\"pre_classifier.weight\"", "\"vocab_projector.weig1\"",
         NOT_FOUND, NULL, "missing"},
        {"rank-jina-v3", "tokenizer.json",
         "\"Sequence\": {\n          \"id\": \"B\",\n          \"type_id\": 0",
         "\"Sequence\": {\n          \"id\": \"B\",\n          \"type_id\": 2", UNSUPPORTED,
         "post_processor.pair", "only [CLS]"},
        {"mpnet", CONFIG, "MPNetModel", "MPNetForSequenceClassification", WISP_OK, NULL, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        struct folder folder;
        folder_read_model(&folder, edits[i].model);
        folder_replace(&folder, edits[i].file, edits[i].old, edits[i].with);
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

/* A tiny Qwen3 with the tokens of Qwen3-Reranker's prompt. tests/oracle/judge.py does so with the
 * official tokenizer. */
static void a_model_that_generates_is_asked(void **state) {
    static const char folder[] = "models/rank-qwen3";
    char path[GOLDEN_PATH_BYTES];
    struct arena arena = {0};
    char *text;
    (void)state;
    const struct json *golden =
        read_json_file(data_path("models/rank-qwen3/golden.json", path), &arena, &text);
    wisp_model *model = open_model_or_fail(data_path(folder, path), WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 2);
    for (const struct json *example = golden->first; example; example = example->next) {
        const double worst = worst_of_query(session, example);
        print_message("%s: error %.2g\n", folder, worst);
        assert_true(worst <= 2e-5);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    free(text);
    arena_release(&arena);
}

static void models_of_other_families_do_not_judge(void **state) {
    (void)state;
    const wisp_text text = wisp_text_of("By light.");
    wisp_model *model = open_model_or_fail("models/wisp-stories.gguf", WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    wisp_error error;
    float score;
    assert_int_equal(wisp_judge(session, text, &text, 1, &score, &error), WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "general.architecture");
    assert_int_equal(wisp_rerank(session, text, &text, 1, &score, &error), WISP_ERROR_UNSUPPORTED);
    assert_int_equal(wisp_judge(session, text, NULL, 0, NULL, &error), WISP_OK);
    assert_int_equal(wisp_judge(session, text, &text, 1, NULL, &error), WISP_ERROR_ARGUMENT);
    assert_string_equal(error.field, "scores");
    wisp_session_close(session);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_match_sentence_transformers),
        cmocka_unit_test(converted_files_match_too),
        cmocka_unit_test(each_kind_of_model_says_what_it_does),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(a_model_that_generates_is_asked),
        cmocka_unit_test(models_of_other_families_do_not_judge),
    };
    return cmocka_run_group_tests_name("rerank", tests, NULL, tear_down_temporary_folder);
}
