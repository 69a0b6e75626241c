/* SPDX-License-Identifier: Apache-2.0
 * Folders of model2vec: what is refused, and that embeddings come without a network's layers.
 * tests/unit/test_models.c compares them with model2vec. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/folder.h"
#include "support/golden.h"
#include "support/opening.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

#define CONFIG "config.json"

static void other_folders_are_refused(void **state) {
    static const struct {
        const char *file, *old, *with;
        wisp_status status;
        const char *field, *message;
    } cases[] = {
        {CONFIG, "\"max_length\": 512", "\"max_length\": 0", WISP_ERROR_UNSUPPORTED, "max_length",
         "0 is not supported"},
        {CONFIG, "\"max_length\": 512", "\"max_length\": null", WISP_OK, NULL, NULL},
        {CONFIG, "\"max_length\": 512,", "", WISP_OK, NULL, NULL},
        {CONFIG, "\"normalize\": true", "\"normalize\": 1", WISP_ERROR_FORMAT, "normalize",
         "true or false"},
        {CONFIG, "model2vec", "model3vec", WISP_ERROR_UNSUPPORTED, "type", "StaticEmbedding"},
        {"model.safetensors", "\"embeddings\"", "\"mapping\"", WISP_ERROR_UNSUPPORTED, "mapping",
         "mapping of tokens"},
        {"model.safetensors", "[68,24]", "[24,68]", WISP_ERROR_FORMAT, NULL, "68"},
        {"tokenizer.json", "\"WordPiece\",\"unk_token\"", "\"Unigram\",\"unk_token\"",
         WISP_ERROR_UNSUPPORTED, "model.type", "WordPiece"},
        {"tokenizer.json", "\"unk_token\":\"[UNK]\"", "\"unk_token\":\"[NON]\"", WISP_ERROR_FORMAT,
         "model.unk_token", "not in the vocabulary"},
    };
    const char *path = temporary_path("static");
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder;
        folder_read_model(&folder, "static");
        folder_replace(&folder, cases[i].file, cases[i].old, cases[i].with);
        folder_write(&folder, path);
        const struct opening opening = open_path(path, folder_size(&folder));
        folder_release(&folder);
        expect_outcome(&opening, cases[i].status, cases[i].field, cases[i].message);
    }
}

static void memory_may_run_out(void **state) {
    char path[GOLDEN_PATH_BYTES];
    (void)state;
    expect_memory_errors(data_path("models/static-weights", path));
}

/* A text of unknown tokens, or of none, has zeros, and a prompt counts as other words do. */
static void texts_without_known_tokens_are_zeros(void **state) {
    char path[GOLDEN_PATH_BYTES];
    wisp_model *model =
        open_model_or_fail(data_path("models/static", path), WISP_COMPUTE_AUTO, NULL);
    wisp_session *session = open_session_or_fail(model, 2);
    const wisp_text texts[] = {wisp_text_of(""), wisp_text_of("\xe6\x97\xa5"), wisp_text_of("cat"),
                               wisp_text_of("the cat")};
    const wisp_embed_options prompted = {.prompt = "the "};
    float rows[4][24], other[24];
    wisp_error error;
    (void)state;
    assert_int_equal(wisp_model_dimensions(model), 24);
    assert_int_equal(wisp_embed(session, texts, 4, NULL, rows[0], &error), WISP_OK);
    for (size_t i = 0; i < 24; i++)
        assert_true(rows[0][i] == 0 && rows[1][i] == 0);
    assert_true(rows[2][0] != 0);
    assert_int_equal(wisp_embed(session, &texts[2], 1, &prompted, other, &error), WISP_OK);
    assert_memory_equal(other, rows[3], sizeof other);
    wisp_session_close(session);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_folders_are_refused),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(texts_without_known_tokens_are_zeros),
    };
    return cmocka_run_group_tests_name("static", tests, NULL, NULL);
}
