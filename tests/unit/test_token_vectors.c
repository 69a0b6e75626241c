/* SPDX-License-Identifier: Apache-2.0
 * ColBERTs: compares tiny models in the layouts that are published
 * (tests/oracle/make_token_vectors.py) with the vectors and scores of sentence-transformers, and
 * checks what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/folder_edit.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

static const char *const models[] = {"models/colbert-bert", "models/colbert-modernbert",
                                     "models/colbert-stanford", "models/colbert-own"};

enum { MOST_TEXTS = 16 };

/* Returns the largest difference of vectors, which have a length of 1, from the golden ones. */
static double worst_of_text(const wisp_token_vectors *vectors, size_t text, size_t size,
                            const struct json *golden) {
    size_t count;
    const float *row = wisp_token_vectors_get(vectors, text, &count);
    double worst = 0, value;
    assert_int_equal(count, golden->count);
    for (const struct json *r = golden->first; r; r = r->next, row += size) {
        double squares = 0;
        size_t i = 0;
        assert_int_equal(r->count, size);
        for (const struct json *v = r->first; v; v = v->next, i++) {
            assert_true(json_to_double(v, &value));
            squares += ((double)row[i] - value) * ((double)row[i] - value);
        }
        worst = fmax(worst, sqrt(squares));
    }
    return worst;
}

static double worst_of_texts(wisp_session *session, const wisp_text *texts, size_t n,
                             bool are_queries, size_t size, const struct json *golden) {
    wisp_token_vectors *vectors, *alone;
    wisp_error error;
    double worst = 0;
    if (wisp_embed_tokens(session, texts, n, are_queries, &vectors, &error) != WISP_OK)
        fail_msg("%s", error.message);
    for (size_t i = 0; i < n; i++, golden = golden->next) {
        size_t count, count_alone;
        worst = fmax(worst, worst_of_text(vectors, i, size, golden));
        assert_int_equal(wisp_embed_tokens(session, &texts[i], 1, are_queries, &alone, &error),
                         WISP_OK);
        const float *rows = wisp_token_vectors_get(vectors, i, &count);
        assert_memory_equal(wisp_token_vectors_get(alone, 0, &count_alone), rows,
                            count * size * sizeof *rows);
        assert_int_equal(count, count_alone);
        wisp_token_vectors_close(alone);
    }
    wisp_token_vectors_close(vectors);
    return worst;
}

struct worst {
    double vectors, scores; /* of scores relative to the vectors of the query */
};

/* Compares the vectors and the scores of a query. */
static void compare_query(wisp_session *session, size_t size, const struct json *example,
                          struct worst *worst) {
    const wisp_text query = json_text(json_get(example, "query"));
    const struct json *asked = json_get(example, "asked"), *rows = json_get(example, "rows");
    float scores[MOST_TEXTS], alone;
    double golden;
    wisp_error error;
    size_t n;
    wisp_text *texts = texts_of_json(json_get(example, "texts"), &n);
    assert_true(n <= MOST_TEXTS);
    worst->vectors = fmax(worst->vectors, worst_of_texts(session, &query, 1, true, size, asked));
    if (rows->count > 0)
        worst->vectors =
            fmax(worst->vectors, worst_of_texts(session, texts, n, false, size, rows->first));
    if (wisp_rerank(session, query, texts, n, scores, &error) != WISP_OK)
        fail_msg("%s", error.message);
    const struct json *score = json_get(example, "scores")->first;
    for (size_t i = 0; i < n; i++, score = score->next) {
        assert_true(json_to_double(score, &golden));
        worst->scores =
            fmax(worst->scores, fabs((double)scores[i] - golden) / (double)asked->count);
        assert_int_equal(wisp_rerank(session, query, &texts[i], 1, &alone, &error), WISP_OK);
        assert_memory_equal(&alone, &scores[i], sizeof alone);
    }
    free(texts);
}

static struct worst worst_of_model(const char *path, const struct json *golden,
                                   wisp_compute compute, const char *kernels) {
    wisp_model *model = open_model_or_fail(path, compute, kernels);
    wisp_session *session = open_session_or_fail(model, 2);
    wisp_model_info info;
    struct worst worst = {0};
    wisp_model_get_info(model, &info);
    assert_string_equal(info.pooling, "tokens");
    for (const struct json *example = golden->first; example; example = example->next)
        compare_query(session, wisp_model_dimensions(model), example, &worst);
    wisp_session_close(session);
    wisp_model_close(model);
    return worst;
}

/* bf16 and int8 may differ by what test_models.c allows. */
static void check_model(const char *folder, const char *file) {
    char path[GOLDEN_PATH_BYTES], name[GOLDEN_PATH_BYTES];
    struct arena arena = {0};
    char *text;
    snprintf(name, sizeof name, "%s/golden.json", folder);
    const struct json *golden = read_json_file(data_path(name, path), &arena, &text);
    const char *opened = file ? file : data_path(folder, path), *kernels;
    for (size_t i = 0; (kernels = wisp_kernels_name(i)) != NULL; i++) {
        const struct worst f32 = worst_of_model(opened, golden, WISP_COMPUTE_F32, kernels);
        const struct worst int8 = worst_of_model(opened, golden, WISP_COMPUTE_INT8, kernels);
        print_message("%s, %s: relative error f32 %.2g, int8 %.2g; of scores %.2g, %.2g\n", folder,
                      kernels, f32.vectors, int8.vectors, f32.scores, int8.scores);
        assert_true(f32.vectors <= 3e-5 && f32.scores <= 3e-5);
        assert_true(int8.vectors <= 0.12 && int8.scores <= 0.06);
    }
    free(text);
    arena_release(&arena);
}

static void folders_match_sentence_transformers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        check_model(models[i], NULL);
}

static void converted_files_match_too(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char file[] = "/tmp/wisp-test-XXXXXX";
        convert_data_or_fail(models[i], NULL, file);
        check_model(models[i], file);
        unlink(file);
    }
}

/* MaxSim by its definition. */
static void max_sim_adds_the_largest_products(void **state) {
    (void)state;
    const float query[] = {1, 0, 0, 1}, documents[] = {0.5f, 2, -1, -3, 0.25f, 1};
    assert_true(wisp_max_sim(query, 2, documents, 3, 2) == 2.5f);
    assert_true(wisp_max_sim(query, 1, documents + 2, 1, 2) == -1);
    assert_true(wisp_max_sim(query, 2, documents, 0, 2) == 0);
}

static void other_calls_are_refused(void **state) {
    (void)state;
    char path[GOLDEN_PATH_BYTES];
    const wisp_text text = wisp_text_of("the cat");
    wisp_token_vectors *vectors = NULL;
    wisp_error error;
    float row[64];
    for (size_t i = 0; i < 2; i++) {
        wisp_model *model =
            open_model_or_fail(data_path(i == 0 ? "models/colbert-bert" : "models/cls12", path),
                               WISP_COMPUTE_AUTO, NULL);
        wisp_session *session = open_session_or_fail(model, 1);
        assert_int_equal(i == 0 ? wisp_embed(session, &text, 1, NULL, row, &error)
                                : wisp_embed_tokens(session, &text, 1, true, &vectors, &error),
                         WISP_ERROR_UNSUPPORTED);
        assert_string_equal(error.field, "pooling_type");
        assert_null(vectors);
        wisp_session_close(session);
        wisp_model_close(model);
    }
    const wisp_model_options options = {.portable = true};
    wisp_model *model;
    assert_int_equal(
        wisp_model_open(data_path("models/colbert-own", path), &options, &model, &error),
        WISP_ERROR_UNSUPPORTED);
    assert_string_equal(error.field, "portable");
}

/* A tokenizer may add no token to a text. */
static void an_empty_text_has_its_prefix(void **state) {
    (void)state;
    const wisp_text text = wisp_text_of("");
    struct folder folder;
    wisp_token_vectors *vectors;
    wisp_error error;
    size_t count;
    folder_read_model(&folder, "colbert-modernbert");
    folder_replace(&folder, "tokenizer.json", "\"post_processor\": {",
                   "\"post_processor\": null, \"other\": {");
    const char *path = temporary_path("empty");
    folder_write(&folder, path);
    folder_release(&folder);
    wisp_model *model = open_model_or_fail(path, WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    for (int queries = 0; queries < 2; queries++) {
        if (wisp_embed_tokens(session, &text, 1, queries, &vectors, &error) != WISP_OK)
            fail_msg("%s", error.message);
        assert_non_null(wisp_token_vectors_get(vectors, 0, &count));
        assert_int_equal(count, queries ? 20 : 1);
        wisp_token_vectors_close(vectors);
    }
    wisp_session_close(session);
    wisp_model_close(model);
}

static void settings_are_checked(void **state) {
    enum { FORMAT = WISP_ERROR_FORMAT, UNSUPPORTED = WISP_ERROR_UNSUPPORTED };
    static const char bert[] = "colbert-bert", own[] = "colbert-own",
                      stanford[] = "colbert-stanford";
    static const char modern[] = "colbert-modernbert";
    static const char MODEL[] = "config_sentence_transformers.json", MODULES[] = "modules.json";
    static const char MASK[] = "1_MultiVectorMask/config.json", METADATA[] = "artifact.metadata";
    static const char OWN[] = "sentence_bert_config.json";
    static const struct model_edit edits[] = {
        {bert, MODEL, "\"do_query_expansion\": true", "\"do_query_expansion\": false", WISP_OK,
         NULL, NULL},
        {bert, MODEL, "\"do_query_expansion\": true", "\"do_query_expansion\": 1", FORMAT,
         "do_query_expansion", "true or false"},
        {bert, MODEL, "\"query_length\": 18", "\"query_length\": 61", FORMAT,
         "wisp.tokens.expanded_length", "more than the 60"},
        {bert, MODEL, "\"query_length\": 18", "\"query_length\": 3", FORMAT,
         "wisp.tokens.expanded_length", "fewer than 4"},
        {stanford, METADATA, "\"query_maxlen\": 16", "\"query_maxlen\": 1", FORMAT,
         "wisp.tokens.expanded_length", "fewer than 4"},
        {bert, MODEL, "\"query_length\": 18", "\"query_length\": \"x\"", FORMAT, "query_length",
         "a number of tokens"},
        {bert, MODEL, "\"document_length\": 40", "\"document_length\": 3", FORMAT,
         "wisp.tokens.document_length", "fewer than 4"},
        {bert, MODEL, "\"ColBERT\"", "\"SentenceTransformer\"", UNSUPPORTED, "type",
         "before the Pooling"},
        {bert, MODEL, "\"MaxSim\"", "\"meanmaxsim\"", UNSUPPORTED, "similarity_fn_name",
         "only maxsim"},
        {bert, MODULES, "pylate.models.Dense.Dense", "pylate.models.Pooling", UNSUPPORTED, "type",
         "a ColBERT of other modules"},
        {bert, "1_Dense/config.json", "{", "{\"module_input_name\":\"sentence_embedding\",",
         UNSUPPORTED, "module_input_name", "only token_embeddings"},
        {modern, MODEL, "\"query_length\": 20", "\"query_length\": 33", UNSUPPORTED,
         "wisp.tokens.expanded_length", "which see 30 before a token"},
        {modern, MODEL, "\"the\"", "7", FORMAT, "skiplist_words", "a list of words"},
        {own, MASK, "\"keep_only_token_ids\": null", "\"keep_only_token_ids\": [1]", UNSUPPORTED,
         "keep_only_token_ids", "only null"},
        {own, MASK, "\"document\"", "\"query\"", UNSUPPORTED, "skiplist_tasks", NULL},
        {own, "2_Normalize/config.json", "token_embeddings", "sentence_embedding", UNSUPPORTED,
         "module_input_name", "only token_embeddings"},
        {own, OWN, "\"query_length\": 20",
         "\"query_expansion\": {\"strategy\": \"min\", \"length\": 20}", UNSUPPORTED,
         "query_expansion", "the strategy fixed"},
        {own, OWN, "\"query_length\": 20",
         "\"query_expansion\": {\"strategy\": \"fixed\", \"length\": 20}", WISP_OK, NULL, NULL},
        {own, MODEL, "MultiVectorEncoder", "SentenceTransformer", UNSUPPORTED, NULL, NULL},
        {stanford, METADATA, "\"mask_punctuation\": true", "\"mask_punctuation\": 3", FORMAT,
         "attend_to_mask_tokens", "mask_punctuation"},
        {stanford, "model.safetensors", "linear.weight", "linear.height", UNSUPPORTED,
         "linear.height", NULL},
    };
    (void)state;
    check_model_edits(edits, sizeof edits / sizeof *edits);
}

/* A tokenizer that puts no special tokens around a text, so that an empty text has none. */
static void a_text_may_have_no_tokens(void **state) {
    static const size_t expected[] = {1, 20}; /* the prefix, and mask tokens behind a query's */
    const wisp_text text = wisp_text_of("");
    struct folder folder;
    wisp_error error;
    (void)state;
    folder_read_model(&folder, "colbert-modernbert");
    folder_replace(&folder, "tokenizer.json", "\"post_processor\"", "\"no_processor\"");
    folder_write(&folder, temporary_path("model"));
    wisp_model *model = open_model_or_fail(temporary_path("model"), WISP_COMPUTE_F32, NULL);
    wisp_session *session = open_session_or_fail(model, 1);
    for (int query = 0; query < 2; query++) {
        wisp_token_vectors *vectors;
        size_t count;
        if (wisp_embed_tokens(session, &text, 1, query, &vectors, &error) != WISP_OK)
            fail_msg("%s", error.message);
        wisp_token_vectors_get(vectors, 0, &count);
        assert_int_equal(count, expected[query]);
        wisp_token_vectors_close(vectors);
    }
    wisp_session_close(session);
    wisp_model_close(model);
    folder_release(&folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_match_sentence_transformers),
        cmocka_unit_test(converted_files_match_too),
        cmocka_unit_test(max_sim_adds_the_largest_products),
        cmocka_unit_test(other_calls_are_refused),
        cmocka_unit_test(an_empty_text_has_its_prefix),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(a_text_may_have_no_tokens),
    };
    return cmocka_run_group_tests_name("token vectors", tests, NULL, tear_down_temporary_folder);
}
