/* SPDX-License-Identifier: Apache-2.0
 * Hugging Face folders in which more than one file matters: which of two counts, what is missing,
 * and which error comes first. test_malformed_hf.c has folders with one edit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/folder.h"
#include "support/opening.h"

static const struct tiny_shape *const shape = &tiny_shape;

static struct opening open_folder(struct folder *folder) {
    const char *path = temporary_path("model");
    folder_write(folder, path);
    const struct opening opening = open_path(path, folder_size(folder));
    folder_release(folder);
    return opening;
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Neither the pooling nor the modules after it would tell the user that wisp does not run such
 * models. */
static void the_type_of_the_model_comes_first(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, shape);
    folder_replace(&folder, "config.json", "\"bert\"", "\"glm4\"");
    folder_put_text(&folder, "1_Pooling/config.json", "{\"pooling_mode_lasttoken\":true}");
    folder_replace(&folder, "modules.json", "models.Normalize", "models.Dense");
    folder_drop(&folder, "tokenizer.json");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "model_type", "glm4");
}

static void an_adapter_without_its_model_is_named(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, shape);
    folder_drop(&folder, "config.json");
    folder_drop(&folder, "model.safetensors");
    folder_put_text(&folder, "adapter_config.json", "{\"peft_type\":\"LORA\"}");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "peft_type", "merge_and_unload");
}

static void weights_in_other_formats_are_named(void **state) {
    static const struct {
        const char *file, *says;
    } cases[] = {{"onnx/model_bnb4.onnx", "does not read what onnx holds"},
                 {"tf_model.h5", "does not read what tf_model.h5 holds"},
                 {"README.md", "No such file"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder;
        folder_make(&folder, shape);
        folder_drop(&folder, "model.safetensors");
        folder_put_text(&folder, cases[i].file, "x");
        const struct opening opening = open_folder(&folder);
        expect_outcome(&opening, WISP_ERROR_NOT_FOUND, NULL, cases[i].says);
        assert_non_null(strstr(opening.error.file, "/model.safetensors"));
    }
}

static void a_path_to_a_file_of_a_folder_is_explained(void **state) {
    static const struct {
        const char *file, *says;
    } cases[] = {{"model.safetensors", "name the folder"},
                 {"config.json", "name the folder"},
                 {"model.onnx", "name the folder"},
                 {"pytorch_model.bin", "name the folder"}};
    struct folder folder;
    (void)state;
    folder_make(&folder, shape);
    folder_put_text(&folder, "model.onnx", "x");
    folder_put_text(&folder, "pytorch_model.bin", "x");
    folder_write(&folder, temporary_path("model"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[64];
        snprintf(name, sizeof name, "model/%s", cases[i].file);
        const struct opening opening = open_path(temporary_path(name), 0);
        expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, NULL, cases[i].says);
    }
    folder_release(&folder);
}

/* The name of a file says what it is only if its first bytes do not. */
static void a_gguf_of_any_name_opens(void **state) {
    struct bytes file = {0};
    struct gguf gguf;
    (void)state;
    gguf_make(&gguf, shape);
    gguf_write_bytes(&gguf, &file);
    write_file("model.bin", file.data, file.size);
    const struct opening opening = open_path(temporary_path("model.bin"), file.size);
    expect_outcome(&opening, WISP_OK, NULL, NULL);
    bytes_release(&file);
    gguf_release(&gguf);
}

static void a_class_in_config_json_counts_where_no_other_is(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, shape);
    folder_replace(&folder, "tokenizer_config.json", "\"tokenizer_class\":\"BertTokenizer\",", "");
    folder_replace(&folder, "config.json", "{", "{\"tokenizer_class\":\"BertJapaneseTokenizer\",");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "tokenizer_class", "BertJapaneseTokenizer");
    assert_non_null(strstr(opening.error.file, "/config.json"));
}

/* Without tokenizer.json such a class would be taken for BERT's, whose words end at other places.
 */
static void a_vocabulary_of_another_class_is_refused(void **state) {
    static const char *const classes[] = {"BertJapaneseTokenizer", "PreTrainedTokenizerFast"};
    (void)state;
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        struct folder folder;
        folder_make(&folder, shape);
        folder_drop(&folder, "tokenizer.json");
        folder_replace(&folder, "tokenizer_config.json", "BertTokenizer", classes[i]);
        const struct opening opening = open_folder(&folder);
        expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "tokenizer_class", classes[i]);
    }
}

static void a_line_of_vocab_txt_that_ends_in_a_space_is_refused(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, shape);
    folder_drop(&folder, "tokenizer.json");
    folder_replace(&folder, "vocab.txt", "food\n", "food \n");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, NULL, "line 13 ends in white space");
}

/* ---- files that count or do not ------------------------------------------------------------- */

/* sentence-transformers reads its own files only with a modules.json. It then pools by mean, but
 * for causal models. */
static void without_modules_the_files_beside_it_do_not_count(void **state) {
    struct folder folder;
    wisp_error error;
    wisp_model *model;
    wisp_model_info info;
    (void)state;
    folder_make(&folder, shape);
    folder_drop(&folder, "modules.json");
    folder_put_text(&folder, "sentence_bert_config.json", "{\"max_seq_length\":5,\"x\":1}");
    folder_replace(&folder, "tokenizer_config.json", "{", "{\"max_len\":7,");
    folder_write(&folder, temporary_path("model"));
    if (wisp_model_open(temporary_path("model"), NULL, &model, &error) != WISP_OK)
        fail_msg("%s", error.message);
    wisp_model_get_info(model, &info);
    assert_int_equal(info.max_tokens, 7);
    assert_string_equal(info.pooling, "mean");
    assert_string_equal(wisp_model_prompt(model, NULL), "");
    assert_null(wisp_model_prompt(model, "query"));
    wisp_model_close(model);
    folder_replace(&folder, "config.json", "\"BertModel\"", "\"BertForCausalLM\"");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "architectures", "BertForCausalLM");
    folder_make(&folder, shape);
    folder_drop(&folder, "modules.json");
    folder_replace(&folder, "config.json", "\"BertModel\"", "\"BertForMaskedLM\"");
    const struct opening masked = open_folder(&folder);
    expect_outcome(&masked, WISP_ERROR_UNSUPPORTED, "architectures", "SPLADE makes sparse vectors");
}

/* The first file that holds something counts, and of two limits of tokens the one of its own. */
static void limits_of_tokens(void **state) {
    static const struct {
        const char *bert, *roberta, *tokenizer;
        uint32_t limit;
    } cases[] = {{"{\"max_seq_length\":5}", "{\"max_seq_length\":6}", "{\"max_len\":7,", 5},
                 {"{}", "{\"max_seq_length\":6}", "{\"max_len\":7,", 6},
                 {"{\"max_seq_length\":null}", "{\"max_seq_length\":6}", "{\"max_len\":7,", 7},
                 {"{}", "{}", "{\"max_len\":7,\"model_max_length\":8,", 8},
                 {"{}", "{}", "{\"max_len\":7,\"model_max_length\":null,", 16},
                 {"{}", "{}", "{\"model_max_length\":1e30,", 16},
                 {"{}", "{}", "{", 16}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct folder folder;
        wisp_error error;
        wisp_model *model;
        wisp_model_info info;
        folder_make(&folder, shape);
        folder_put_text(&folder, "sentence_bert_config.json", cases[i].bert);
        folder_put_text(&folder, "sentence_roberta_config.json", cases[i].roberta);
        folder_replace(&folder, "tokenizer_config.json", "{", cases[i].tokenizer);
        folder_write(&folder, temporary_path("model"));
        if (wisp_model_open(temporary_path("model"), NULL, &model, &error) != WISP_OK)
            fail_msg("case %zu: %s", i, error.message);
        wisp_model_get_info(model, &info);
        assert_int_equal(info.max_tokens, cases[i].limit);
        wisp_model_close(model);
        folder_release(&folder);
    }
}

static void a_limit_that_is_no_whole_number_is_refused(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, shape);
    folder_drop(&folder, "sentence_bert_config.json");
    folder_replace(&folder, "tokenizer_config.json", "{", "{\"model_max_length\":7.5,");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_FORMAT, "model_max_length", "whole number");
}

/* Rotary positions have no end, so sentence-transformers would not truncate there. */
static void more_tokens_than_rotary_positions_are_refused(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, &tiny_nomic);
    folder_put_text(&folder, "sentence_bert_config.json", "{\"max_seq_length\":17}");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "max_position_embeddings",
                   "max_seq_length 17");
}

/* Heads of another size would take other parts of the projections. */
static void a_head_size_that_does_not_follow_is_refused(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, &tiny_nomic);
    folder_replace(&folder, "config.json", "{", "{\"head_dim\":3,");
    const struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_ERROR_UNSUPPORTED, "head_dim", "3 is not supported");
}

static void model_safetensors_counts_before_shards(void **state) {
    struct folder folder;
    (void)state;
    folder_make(&folder, shape);
    folder_put_text(&folder, "model.safetensors.index.json", "{");
    struct opening opening = open_folder(&folder);
    expect_outcome(&opening, WISP_OK, NULL, NULL);
    folder_make(&folder, shape);
    folder_shard(&folder, shape);
    opening = open_folder(&folder);
    expect_outcome(&opening, WISP_OK, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_type_of_the_model_comes_first),
        cmocka_unit_test(an_adapter_without_its_model_is_named),
        cmocka_unit_test(weights_in_other_formats_are_named),
        cmocka_unit_test(a_path_to_a_file_of_a_folder_is_explained),
        cmocka_unit_test(a_gguf_of_any_name_opens),
        cmocka_unit_test(a_class_in_config_json_counts_where_no_other_is),
        cmocka_unit_test(a_vocabulary_of_another_class_is_refused),
        cmocka_unit_test(a_line_of_vocab_txt_that_ends_in_a_space_is_refused),
        cmocka_unit_test(without_modules_the_files_beside_it_do_not_count),
        cmocka_unit_test(limits_of_tokens),
        cmocka_unit_test(a_limit_that_is_no_whole_number_is_refused),
        cmocka_unit_test(more_tokens_than_rotary_positions_are_refused),
        cmocka_unit_test(a_head_size_that_does_not_follow_is_refused),
        cmocka_unit_test(model_safetensors_counts_before_shards),
    };
    return cmocka_run_group_tests_name("hf folder", tests, NULL, tear_down_temporary_folder);
}
