/* SPDX-License-Identifier: Apache-2.0
 * Reads tokenizer.json, vocab.txt and their companions, with and without faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "huggingface/folder.h"
#include "support/tokenizer_fixture.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

/* ---- files ---------------------------------------------------------------------------------- */

static void write_file(const char *folder, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static const char *const NAMES[] = {"tokenizer.json", "vocab.txt", "tokenizer_config.json",
                                    "special_tokens_map.json", "added_tokens.json"};

/* A folder of files, each named in NAMES or absent (NULL). */
struct folder {
    char path[64];
};

static void make_folder(struct folder *folder, const char *const texts[5]) {
    strcpy(folder->path, "/tmp/wisp-test-XXXXXX");
    assert_non_null(mkdtemp(folder->path));
    for (size_t i = 0; i < 5; i++)
        if (texts[i])
            write_file(folder->path, NAMES[i], texts[i]);
}

static void remove_folder(const struct folder *folder) {
    for (size_t i = 0; i < 5; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folder->path, NAMES[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(folder->path), 0);
}

static wisp_status read_folder(struct fixture *f, const char *const texts[5]) {
    struct folder folder;
    make_folder(&folder, texts);
    *f = (struct fixture){0};
    f->dir.file = "test";
    const wisp_status status = hf_read_tokenizer(&f->dir, folder.path, false, &f->error);
    remove_folder(&folder);
    return status;
}

#define ADDED(id, content, normalized)                                                             \
    "{\"id\":" #id ",\"content\":\"" content "\",\"single_word\":false,\"lstrip\":false,"          \
    "\"rstrip\":false,\"normalized\":" #normalized ",\"special\":true}"
#define TEMPLATE                                                                                   \
    "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\","            \
    "\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":"       \
    "\"[SEP]\",\"type_id\":0}}],\"special_tokens\":{\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2]},"     \
    "\"[SEP]\":{\"id\":\"[SEP]\",\"ids\":[3]}}}"
#define NORMALIZER                                                                                 \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"              \
    "\"strip_accents\":null,\"lowercase\":true}"
#define VOCAB "{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"foo\":4,\"##\u2581\":5}"
#define MODEL                                                                                      \
    "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","        \
    "\"max_input_chars_per_word\":100,\"vocab\":" VOCAB "}"
#define TOKENIZER(added, normalizer, splitter, processor, model)                                   \
    "{\"truncation\":{\"max_length\":1},\"padding\":null,\"added_tokens\":" added                  \
    ",\"normalizer\":" normalizer ",\"pre_tokenizer\":{\"type\":\"" splitter                       \
    "\"},\"post_processor\":" processor ",\"model\":" model "}"
#define WITH_ADDED(added) TOKENIZER(added, NORMALIZER, "BertPreTokenizer", TEMPLATE, MODEL)
#define WITH_MODEL(model) TOKENIZER("[]", NORMALIZER, "BertPreTokenizer", TEMPLATE, model)

static void test_tokenizer_json(void **state) {
    static const char *const texts[5] = {
        WITH_ADDED("[" ADDED(2, "[CLS]", false) "," ADDED(6, "[new]", true) "]")};
    struct fixture f;
    (void)state;
    if (read_folder(&f, texts) != WISP_OK)
        assert_string_equal(f.error.message, "");
    must_open(&f);
    CHECK(&f, "FOO [CLS] [sep] [NEW] [new] foo\u2581", 4, 2, 1, 1, 1, 6, 6, 4, 5);
    teardown(&f);
}

static void test_vocab_txt(void **state) {
    static const char vocab[] = "[PAD]\n[UNK]\r\n[CLS]\n[SEP]\nfoo\n##s\n<m>";
    static const char *const texts[][5] = {
        {NULL, vocab},
        {NULL, vocab, "{\"do_lower_case\":false,\"mask_token\":\"<m>\"}"},
        {NULL, vocab, "{\"do_lower_case\":false}",
         "{\"mask_token\":{\"content\":\"<m>\",\"single_word\":true}}"},
        {NULL, vocab,
         "{\"added_tokens_decoder\":{\"6\":{\"content\":\"<m>\"},\"7\":{\"content\":\"new\"}}}"}};
    struct fixture f;
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        if (read_folder(&f, texts[i]) != WISP_OK)
            assert_string_equal(f.error.message, "");
        must_open(&f);
        CHECK(&f, "foos[PAD]", 4, 5, 0);
        if (i == 0)
            CHECK(&f, "FOOs foo<m>", 4, 5, 4, 1, 1, 1);
        else if (i == 1)
            CHECK(&f, "FOOs foo<m>", 1, 4, 6);
        else if (i == 2)
            CHECK(&f, "foo<m> <m>", 4, 1, 1, 1, 6);
        else
            CHECK(&f, "foonew<m>", 4, 7, 6);
        teardown(&f);
    }
}

#define CASED                                                                                      \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":false,"             \
    "\"strip_accents\":true,\"lowercase\":false}"
#define GENERIC "\"tokenizer_class\":\"PreTrainedTokenizerFast\""

/* With BERT's classes, one of which is meant if none is named, tokenizer_config.json or the
 * usual value counts, and never the normalizer of tokenizer.json; with the class of no model it is
 * the other way round. */
static void test_class_decides_which_file_counts(void **state) {
    static const struct {
        bool json_is_cased;
        const char *config;
        bool lowercase, strip_accents, chinese;
    } cases[] = {{true, NULL, true, true, true},
                 {true, "{}", true, true, true},
                 {true, "{\"tokenizer_class\":null}", true, true, true},
                 {true, "{\"tokenizer_class\":\"BertTokenizer\"}", true, true, true},
                 {true, "{\"tokenizer_class\":\"BertTokenizerFast\"}", true, true, true},
                 {true, "{\"tokenizer_class\":\"DistilBertTokenizer\"}", true, true, true},
                 {true, "{\"do_lower_case\":false}", false, false, true},
                 {true, "{\"strip_accents\":false}", true, false, true},
                 {true, "{\"tokenize_chinese_chars\":false}", true, true, false},
                 {true, "{" GENERIC "}", false, true, false},
                 {true, "{" GENERIC ",\"do_lower_case\":true}", false, true, false},
                 {false, "{\"do_lower_case\":false,\"strip_accents\":true}", false, true, true},
                 {false, "{" GENERIC ",\"do_lower_case\":false}", true, true, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const texts[5] = {
            cases[i].json_is_cased ? TOKENIZER("[]", CASED, "BertPreTokenizer", TEMPLATE, MODEL)
                                   : WITH_ADDED("[]"),
            NULL, cases[i].config};
        struct fixture f;
        if (read_folder(&f, texts) != WISP_OK)
            fail_msg("case %zu: %s", i, f.error.message);
        must_open(&f);
        CHECK(&f, "foo FOO", 4, cases[i].lowercase ? 4 : 1);
        CHECK(&f, "f\u00f3o", cases[i].strip_accents ? 4 : 1);
        if (cases[i].chinese)
            CHECK(&f, "foo\u65e5foo", 4, 1, 4);
        else
            CHECK(&f, "foo\u65e5foo", 1);
        teardown(&f);
    }
}

/* Tokens that tokenizer_config.json or special_tokens_map.json name are found within words too. */
static void test_named_tokens_are_special(void **state) {
    static const struct {
        const char *config, *map;
        bool found; /* also if it is part of a word */
    } cases[] = {
        {"{}", NULL, false},
        {"{\"additional_special_tokens\":[\"foo\"]}", NULL, true},
        {"{\"extra_special_tokens\":[{\"content\":\"foo\"}]}", NULL, true},
        {"{\"extra_special_tokens\":{\"x_token\":\"foo\"}}", NULL, true},
        {"{\"additional_special_tokens\":[\"[SEP]\"],\"extra_special_tokens\":[]}", NULL, false},
        {"{\"mask_token\":\"foo\"}", NULL, true},
        {"{\"bos_token\":\"foo\"}", NULL, true},
        {"{\"eos_token\":null}", NULL, false},
        {"{\"mask_token\":{\"content\":\"foo\",\"single_word\":true}}", NULL, false},
        {"{\"mask_token\":\"[PAD]\"}", "{\"mask_token\":\"foo\"}", true},
        {"{\"mask_token\":\"foo\"}", "{\"mask_token\":\"[PAD]\"}", false},
        {"{}", "{\"additional_special_tokens\":[\"foo\"]}", true},
        {"{\"added_tokens_decoder\":{}}", "{\"mask_token\":\"foo\"}", false},
        {"{\"added_tokens_decoder\":{\"4\":{\"content\":\"foo\"}}}", NULL, true},
        {"{" GENERIC ",\"mask_token\":\"foo\"}", NULL, true},
        {"{" GENERIC "}", NULL, false}};
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nfoo\n##\u2581\n";
        const char *config = cases[i / 2].config, *map = cases[i / 2].map;
        const bool has_json = i % 2 == 0;
        const char *const texts[5] = {has_json ? WITH_ADDED("[]") : NULL, has_json ? NULL : vocab,
                                      config, map};
        struct fixture f;
        if (!has_json && strstr(config, GENERIC))
            continue;
        if (read_folder(&f, texts) != WISP_OK)
            fail_msg("case %zu: %s", i / 2, f.error.message);
        must_open(&f);
        if (cases[i / 2].found)
            CHECK(&f, "afoo foo", 1, 4, 4);
        else
            CHECK(&f, "afoo foo", 1, 4);
        teardown(&f);
    }
}

/* added_tokens_decoder changes how a token of tokenizer.json is found. */
static void test_decoder_counts_before_tokenizer_json(void **state) {
    static const char *const texts[5] = {WITH_ADDED("[" ADDED(4, "foo", false) "]"), NULL,
                                         "{\"added_tokens_decoder\":{\"4\":{\"content\":\"foo\","
                                         "\"single_word\":true,\"special\":true},"
                                         "\"6\":{\"content\":\"new\"}}}"};
    struct fixture f;
    (void)state;
    if (read_folder(&f, texts) != WISP_OK)
        fail_msg("%s", f.error.message);
    must_open(&f);
    CHECK(&f, "afoo", 1);
    CHECK(&f, "afoo foo new", 1, 4, 6);
    teardown(&f);
}

/* A token of two descriptions, of which transformers takes the last. */
static void test_descriptions_that_differ_are_refused(void **state) {
    static const char *const configs[] = {
        "{\"pad_token\":\"foo\",\"mask_token\":{\"content\":\"foo\",\"single_word\":true}}",
        "{\"additional_special_tokens\":[\"foo\"],"
        "\"mask_token\":{\"content\":\"foo\",\"lstrip\":true}}"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *const texts[5] = {WITH_ADDED("[]"), NULL, configs[i]};
        struct fixture f;
        assert_int_equal(read_folder(&f, texts), WISP_ERROR_UNSUPPORTED);
        assert_non_null(strstr(f.error.message, "foo appears twice"));
        teardown(&f);
    }
}

/* transformers follows tokenizer_config.json if both files have a setting. */
static void test_config_overrides(void **state) {
    static const char *const texts[5] = {
        WITH_ADDED("[]"), NULL, "{\"tokenizer_class\":\"BertTokenizer\",\"do_lower_case\":false}"};
    struct fixture f;
    (void)state;
    assert_int_equal(read_folder(&f, texts), WISP_OK);
    must_open(&f);
    CHECK(&f, "foo FOO", 4, 1);
    teardown(&f);
}

static void test_other_steps(void **state) {
    static const char *const bert[5] = {
        TOKENIZER("null", "null", "BertPreTokenizer",
                  "{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",3],\"cls\":[\"[CLS]\",2]}",
                  MODEL),
        NULL, "{\"tokenizer_class\":\"PreTrainedTokenizerFast\"}"};
    static const char *const one[5] = {
        TOKENIZER("[]", "{\"type\":\"Sequence\",\"normalizers\":[" NORMALIZER "]}",
                  "BertPreTokenizer", TEMPLATE, MODEL),
        NULL, "{\"tokenizer_class\":\"BertTokenizerFast\",\"strip_accents\":false}"};
    struct fixture f;
    (void)state;
    assert_int_equal(read_folder(&f, bert), WISP_OK);
    must_open(&f);
    CHECK(&f, "foo FOO foo\x01", 4, 1, 1);
    teardown(&f);
    assert_int_equal(read_folder(&f, one), WISP_OK);
    must_open(&f);
    CHECK(&f, "foo FOO f\u00f3o", 4, 4, 1);
    teardown(&f);
}

static void test_malformed_files(void **state) {
    static const struct {
        const char *texts[5];
        wisp_status status;
        const char *field;
    } faults[] = {
        {{NULL}, WISP_ERROR_NOT_FOUND, ""},
        {{"{"}, WISP_ERROR_FORMAT, ""},
        {{"[]"}, WISP_ERROR_FORMAT, ""},
        {{"{}"}, WISP_ERROR_UNSUPPORTED, "pre_tokenizer"},
        {{TOKENIZER("[]", NORMALIZER, "ByteLevel", TEMPLATE, MODEL)},
         WISP_ERROR_UNSUPPORTED,
         "pre_tokenizer"},
        {{TOKENIZER("[]", "{\"type\":\"NFKC\"}", "BertPreTokenizer", TEMPLATE, MODEL)},
         WISP_ERROR_UNSUPPORTED,
         "normalizer"},
        {{TOKENIZER("[]", "{\"type\":\"BertNormalizer\",\"lowercase\":1}", "BertPreTokenizer",
                    TEMPLATE, MODEL)},
         WISP_ERROR_FORMAT,
         "normalizer.lowercase"},
        {{TOKENIZER("[]", NORMALIZER, "BertPreTokenizer", "null", MODEL)},
         WISP_ERROR_UNSUPPORTED,
         "post_processor"},
        {{TOKENIZER("[]", NORMALIZER, "BertPreTokenizer",
                    "{\"type\":\"TemplateProcessing\",\"single\":[]}", MODEL)},
         WISP_ERROR_UNSUPPORTED,
         "post_processor.single"},
        {{TOKENIZER("[]", NORMALIZER, "BertPreTokenizer",
                    "{\"type\":\"BertProcessing\",\"cls\":[\"[CLS]\",6],\"sep\":[\"[SEP]\",3]}",
                    MODEL)},
         WISP_ERROR_FORMAT,
         "post_processor.cls"},
        {{WITH_MODEL("{\"type\":\"BPE\"}")}, WISP_ERROR_UNSUPPORTED, "model.type"},
        {{WITH_MODEL("{\"unk_token\":\"[UNK]\",\"vocab\":[]}")}, WISP_ERROR_FORMAT, "model.vocab"},
        {{WITH_MODEL("{\"unk_token\":\"[UNK]\",\"vocab\":{}}")}, WISP_ERROR_FORMAT, "model.vocab"},
        {{WITH_MODEL("{\"unk_token\":\"a\",\"vocab\":{\"a\":1}}")},
         WISP_ERROR_FORMAT,
         "model.vocab"},
        {{WITH_MODEL("{\"unk_token\":\"a\",\"vocab\":{\"a\":1.5}}")},
         WISP_ERROR_FORMAT,
         "model.vocab"},
        {{WITH_MODEL("{\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"b\":0}}")},
         WISP_ERROR_FORMAT,
         "model.vocab"},
        {{WITH_MODEL("{\"unk_token\":\"b\",\"vocab\":{\"a\":0}}")},
         WISP_ERROR_FORMAT,
         "model.unk_token"},
        {{WITH_MODEL("{\"vocab\":{\"a\":0}}")}, WISP_ERROR_FORMAT, "model.unk_token"},
        {{WITH_MODEL("{\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"@\",\"vocab\":" VOCAB
                     "}")},
         WISP_ERROR_UNSUPPORTED,
         "model.continuing_subword_prefix"},
        {{WITH_MODEL("{\"unk_token\":\"[UNK]\",\"max_input_chars_per_word\":-1,\"vocab\":" VOCAB
                     "}")},
         WISP_ERROR_FORMAT,
         "model.max_input_chars_per_word"},
        {{WITH_MODEL("{\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"b\":1}}")},
         WISP_ERROR_UNSUPPORTED,
         "post_processor.special_tokens"},
        {{WITH_ADDED("{}")}, WISP_ERROR_FORMAT, "added_tokens"},
        {{WITH_ADDED("[{}]")}, WISP_ERROR_FORMAT, "added_tokens"},
        {{WITH_ADDED("[{\"id\":6,\"content\":\"\"}]")}, WISP_ERROR_FORMAT, "added_tokens"},
        {{WITH_ADDED("[{\"id\":6,\"content\":\"x\",\"lstrip\":2}]")},
         WISP_ERROR_FORMAT,
         "added_tokens"},
        {{WITH_ADDED("[" ADDED(7, "x", false) "]")}, WISP_ERROR_FORMAT, "added_tokens"},
        {{WITH_ADDED("[" ADDED(4, "x", false) "]")}, WISP_ERROR_FORMAT, "added_tokens"},
        {{WITH_ADDED("[" ADDED(6, "foo", false) "]")}, WISP_ERROR_FORMAT, "vocab"},
        {{WITH_ADDED("[" ADDED(4, "foo", false) "," ADDED(4, "foo", false) "]")},
         WISP_ERROR_FORMAT,
         "added_tokens"},
        {{NULL, ""}, WISP_ERROR_FORMAT, ""},
        {{NULL, "[UNK]\n[CLS]\n"}, WISP_ERROR_FORMAT, "sep_token"},
        {{NULL, "[UNK]\n[CLS]\n[SEP]\na\na"}, WISP_ERROR_FORMAT, "vocab"},
        {{NULL, "[UNK]\n[CLS]\n[SEP]\n\xff"}, WISP_ERROR_FORMAT, ""},
        {{NULL, "[UNK]\n[CLS]\n[SEP]\na\rb"}, WISP_ERROR_FORMAT, ""},
        {{NULL, "[UNK]\n[CLS]\n[SEP]", "{\"do_lower_case\":\"no\"}"},
         WISP_ERROR_FORMAT,
         "do_lower_case"},
        {{NULL, "[UNK]\n[CLS]\n[SEP]", "{\"added_tokens_decoder\":[]}"},
         WISP_ERROR_FORMAT,
         "added_tokens_decoder"},
        {{NULL, "[UNK]\n[CLS]\n[SEP]", "{\"added_tokens_decoder\":{\"x\":{}}}"},
         WISP_ERROR_FORMAT,
         "added_tokens_decoder"},
        {{NULL, "[UNK]\n[CLS]\n[SEP]", NULL, NULL, "{\"x\":3}"}, WISP_ERROR_UNSUPPORTED, "x"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct fixture f;
        const wisp_status status = read_folder(&f, faults[i].texts);
        if (status != faults[i].status || strcmp(f.error.field, faults[i].field) != 0)
            fail_msg("fault %zu: status %d, %s", i, (int)status, f.error.message);
        assert_non_null(strstr(f.error.message, "/tmp/wisp-test-"));
        teardown(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokenizer_json),
        cmocka_unit_test(test_vocab_txt),
        cmocka_unit_test(test_config_overrides),
        cmocka_unit_test(test_other_steps),
        cmocka_unit_test(test_malformed_files),
        cmocka_unit_test(test_class_decides_which_file_counts),
        cmocka_unit_test(test_named_tokens_are_special),
        cmocka_unit_test(test_decoder_counts_before_tokenizer_json),
        cmocka_unit_test(test_descriptions_that_differ_are_refused),
    };
    return cmocka_run_group_tests_name("hf tokenizer", tests, NULL, NULL);
}
