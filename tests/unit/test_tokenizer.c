/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer on a small vocabulary and on reference results. tests/oracle/tokenizer.py compares
 * it with Hugging Face tokenizers at large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "huggingface/folder.h"
#include "huggingface/json_file.h"
#include "support/golden.h"
#include "support/tokenizer_fixture.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

/* ---- words ---------------------------------------------------------------------------------- */

static void test_words(void **state) {
    struct fixture f;
    (void)state;
    setup_complete(&f);
    must_open(&f);
    check_bytes(&f, "", 0, NULL, 0);
    check_bytes(&f, NULL, 0, NULL, 0);
    check_bytes(&f, " \t\u3000\x01\xe2\x80\x8b", 9, NULL, 0);
    CHECK(&f, "foo", FOO);
    CHECK(&f, "FOOing, fooab", FOO, ING, COMMA, FOO, CONT_A, CONT_B);
    CHECK(&f, "foo\x01ing f\u00f3o", FOO, ING, FOO);
    CHECK(&f, "ing foox bar", UNK, UNK, BAR);
    CHECK(&f, "foo,,bar", FOO, COMMA, COMMA, BAR);
    CHECK(&f, "a\u65e5\u65e5\u65e5k", A, SUN, SUN, SUN, K);
    CHECK(&f, "\u0130", I);           /* its dot is an accent */
    CHECK(&f, "\u212a \u1e30", K, K); /* the Kelvin sign; K with an acute */
    CHECK(&f, "\u2f800 \u0301 a\u0301", UNK, A);
    assert_int_equal(bert_tokenizer_vocabulary_size(f.tokenizer), N_PIECES);
    teardown(&f);
}

static void test_malformed_utf8(void **state) {
    struct fixture f;
    (void)state;
    setup_complete(&f);
    must_open(&f);
    CHECK(&f, "fo\xffo \xed\xa0\x80 foo\xe2\x82", FOO, FOO); /* U+FFFD is cleaned away */
    teardown(&f);
    setup_complete(&f);
    put_bool(&f, "wisp.tokenizer.clean_text", false);
    must_open(&f);
    CHECK(&f, "fo\xffo \xed\xa0\x80 foo", UNK, UNK, FOO);
    CHECK(&f, "foo\0ing", UNK);
    teardown(&f);
}

static void test_canonical_order(void **state) {
    struct fixture f;
    (void)state;
    setup_complete(&f);
    must_open(&f);
    /* Marks of class 9 come before those of class 224, with accents, controls and removed bytes in
     * between. */
    CHECK(&f, "a\u302e\u1b44", A, VIRAMA, TONE);
    CHECK(&f, "a\u302e\u0301\u200d\xff\u302e\u0f75\u1b44", A, VIRAMA, TONE, TONE);
    CHECK(&f, "a\u302e,\u1b44", A, TONE, COMMA, UNK);
    CHECK(&f, "a\u302e[SEP]\u1b44", A, TONE, SEP, UNK);
    teardown(&f);
}

static void test_settings(void **state) {
    struct fixture f;
    (void)state;
    setup_complete(&f);
    put_bool(&f, "wisp.tokenizer.lowercase", false);
    must_open(&f);
    CHECK(&f, "foo FOO \u00e9", FOO, UNK, E_ACUTE);
    teardown(&f);
    setup_complete(&f);
    put_bool(&f, "wisp.tokenizer.strip_accents", false);
    put_bool(&f, "wisp.tokenizer.handle_chinese_chars", false);
    put_u32(&f, "wisp.tokenizer.max_input_chars_per_word", 5);
    must_open(&f);
    CHECK(&f, "FOO \u00c9 \u65e5\u65e5", FOO, E_ACUTE, SUNS);
    CHECK(&f, "fooab fooaba", FOO, CONT_A, CONT_B, UNK);
    teardown(&f);
    setup_complete(&f);
    put_bool(&f, "wisp.tokenizer.lowercase", false);
    put_bool(&f, "wisp.tokenizer.strip_accents", true);
    must_open(&f);
    CHECK(&f, "f\u00f3o FOO \u00e1\u1b44", FOO, UNK, A, VIRAMA);
    teardown(&f);
}

/* ---- truncation ----------------------------------------------------------------------------- */

static void test_truncation(void **state) {
    static const char text[] = "foo fooab , foox";
    static const int32_t all[] = {CLS, FOO, FOO, CONT_A, CONT_B, COMMA, UNK, SEP};
    enum { COUNT = sizeof all / sizeof *all };
    struct fixture f;
    (void)state;
    setup_complete(&f);
    must_open(&f);
    for (size_t max = 2; max <= COUNT + 1; max++) {
        int32_t *ids = malloc(max * sizeof *ids); /* on the heap, so that sanitizers see its end */
        bool truncated;
        const size_t count =
            bert_tokenizer_encode(f.tokenizer, wisp_text_of(text), max, ids, &truncated);
        assert_int_equal(count, max < COUNT ? max : COUNT);
        assert_int_equal(truncated, max < COUNT);
        for (size_t i = 0; i + 1 < count; i++)
            assert_int_equal(ids[i], all[i]);
        assert_int_equal(ids[count - 1], SEP);
        assert_int_equal(bert_tokenizer_encode(f.tokenizer, wisp_text_of(text), max, ids, NULL),
                         count);
        assert_int_equal(
            bert_tokenizer_encode(f.tokenizer, wisp_text_of(text), max, NULL, &truncated), count);
        assert_int_equal(truncated, max < COUNT);
        free(ids);
    }
    assert_int_equal(bert_tokenizer_encode(f.tokenizer, wisp_text_of(text), SIZE_MAX, NULL, NULL),
                     COUNT);
    teardown(&f);
}

static void test_truncation_leaves_nothing_out(void **state) {
    int32_t ids[3];
    bool truncated;
    struct fixture f;
    (void)state;
    setup_complete(&f);
    must_open(&f);
    bert_tokenizer_encode(f.tokenizer, wisp_text_of("foo \x01\t \u0301 "), 3, ids, &truncated);
    assert_false(truncated);
    bert_tokenizer_encode(f.tokenizer, wisp_text_of("foo [SEP]"), 3, ids, &truncated);
    assert_true(truncated);
    bert_tokenizer_encode(f.tokenizer, wisp_text_of("  "), 2, ids, &truncated);
    assert_false(truncated);
    /* A word that begins with pieces but is unknown as a whole takes one place. */
    bert_tokenizer_encode(f.tokenizer, wisp_text_of("fooax"), 3, ids, &truncated);
    assert_false(truncated);
    assert_int_equal(ids[1], UNK);
    teardown(&f);
}

/* ---- added tokens --------------------------------------------------------------------------- */

static void test_special_tokens(void **state) {
    struct fixture f;
    (void)state;
    setup_complete(&f);
    must_open(&f);
    CHECK(&f, "[CLS] foo[SEP]ing[MASK]bar[PAD]", CLS, FOO, SEP, UNK, MASK, BAR, PAD);
    CHECK(&f, "[cls] [[SEP] [MASK", BRACKET, UNK, UNK, BRACKET, SEP, BRACKET, UNK);
    CHECK(&f, "foo[UNK]", FOO, UNK);
    teardown(&f);
}

static void test_single_word(void **state) {
    static const int32_t ids[] = {MASK, BAR};
    static const uint8_t flags[] = {SINGLE_WORD, SINGLE_WORD | NORMALIZED};
    struct fixture f;
    (void)state;
    setup_added(&f, ids, flags, 2);
    must_open(&f);
    CHECK(&f, "[MASK] ,[MASK], [MASK]", MASK, COMMA, MASK, COMMA, MASK);
    CHECK(&f, "foo[MASK]", FOO, BRACKET, UNK, UNK);
    CHECK(&f, "[MASK]\u0301", BRACKET, UNK, UNK);
    CHECK(&f, "bar ,BAR, bar", BAR, COMMA, BAR, COMMA, BAR);
    CHECK(&f, "foobar bara", UNK, BAR, CONT_A);
    CHECK(&f, "\xe2\x82[MASK] \xcf\x83[MASK] \x80\x80\x80\x80\x80[MASK]", MASK, SIGMA, BRACKET, UNK,
          UNK, MASK);
    teardown(&f);
}

static void test_strip(void **state) {
    static const int32_t ids[] = {MASK, SEP, NEW};
    static const uint8_t flags[] = {LSTRIP, RSTRIP, NORMALIZED};
    struct fixture f;
    (void)state;
    setup(&f);
    f.tokens[NEW] = wisp_text_of("\u2581 \u65e5 "); /* shows what was stripped */
    put_tokens(&f);
    put_ids(&f);
    put_numbers(&f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 3);
    put_numbers(&f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 3);
    put_bool(&f, "wisp.tokenizer.handle_chinese_chars", false);
    must_open(&f);
    CHECK(&f, "a \u65e5 ,", A, NEW, COMMA);
    CHECK(&f, "a \u65e5 [MASK]", A, SUN, MASK);
    CHECK(&f, "a \u65e5 \t\u3000 [MASK]", A, SUN, MASK);
    CHECK(&f, "a \u65e5 [SEP]", A, NEW, SEP);
    CHECK(&f, "[SEP] \u65e5 ,", SEP, SUN, COMMA);
    CHECK(&f, "[SEP]  \t[MASK] \u65e5 ", SEP, MASK, NEW);
    teardown(&f);
}

static void test_normalized_tokens(void **state) {
    static const int32_t ids[] = {MASK, NEW};
    static const uint8_t flags[] = {0, NORMALIZED};
    struct fixture f;
    (void)state;
    setup(&f);
    f.tokens[NEW] = wisp_text_of("\u2581F\u00d3O a");
    put_tokens(&f);
    put_ids(&f);
    put_numbers(&f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 2);
    put_numbers(&f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 2);
    must_open(&f);
    CHECK(&f, "foo a Foo\u3000Ab fo\u0301o a", NEW, NEW, UNK, NEW);
    CHECK(&f, "foo [MASK]a foo", FOO, MASK, A, FOO);
    CHECK(&f, "foo foo a foo", FOO, NEW, FOO);
    teardown(&f);
}

static void test_tokens_past_the_vocabulary(void **state) {
    static const int32_t ids[] = {NEW};
    static const uint8_t flags[] = {SINGLE_WORD};
    struct fixture f;
    (void)state;
    setup(&f);
    f.tokens[NEW] = wisp_text_of("\u2581new");
    put_tokens(&f);
    put_ids(&f);
    put_u32(&f, "wisp.tokenizer.model_tokens", NEW);
    put_numbers(&f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 1);
    put_numbers(&f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 1);
    must_open(&f);
    CHECK(&f, "new ,new new_", NEW, COMMA, NEW, UNK, UNK);
    teardown(&f);
}

/* ---- spellings ------------------------------------------------------------------------------ */

static void test_old_spelling(void **state) {
    struct fixture f;
    (void)state;
    setup(&f);
    put_tokens(&f);
    f.dir.n_metadata--; /* no types */
    put_u32(&f, "tokenizer.ggml.unknown_token_id", UNK);
    put_u32(&f, "tokenizer.ggml.bos_token_id", CLS);
    put_u32(&f, "tokenizer.ggml.eos_token_id", SEP);
    put_u32(&f, "tokenizer.ggml.mask_token_id", MASK);
    must_open(&f);
    CHECK(&f, "foo[MASK]", FOO, MASK);
    CHECK(&f, "[PAD] fooing", BRACKET, UNK, UNK, FOO, ING); /* [PAD] has no role */
    teardown(&f);
}

static void test_token_types(void **state) {
    static const int32_t continuations[] = {NEW};
    struct fixture f;
    (void)state;
    setup(&f);
    f.types[BAR] = 5;                       /* unused */
    f.types[K] = 4;                         /* defined by the user */
    f.tokens[NEW] = wisp_text_of("\u2581"); /* "##" and U+2581, not "" */
    put_tokens(&f);
    put_ids(&f);
    put_numbers(&f, "wisp.tokenizer.continuations", VALUE_I32, continuations, 1);
    must_open(&f);
    CHECK(&f, "bar", UNK);
    CHECK(&f, "fookfoo fooKfoo k K", FOO, K, FOO, UNK, K, K); /* a piece too, so "K" is one */
    CHECK(&f, "foo\u2581 \u2581", FOO, NEW, UNK);
    teardown(&f);
}

/* Tokens of llama.cpp's files that were added to the vocabulary are found in raw text, and are no
 * pieces of words. */
static void test_user_defined_tokens(void **state) {
    struct fixture f;
    (void)state;
    setup(&f);
    f.tokens[NEW] = wisp_text_of("\u2581Tok");
    f.types[NEW] = 4;
    put_tokens(&f);
    put_ids(&f);
    must_open(&f);
    CHECK(&f, "Tok fooTokfoo", NEW, FOO, NEW, FOO);
    CHECK(&f, "tok TOK foo", UNK, UNK, FOO);
    teardown(&f);
    setup(&f);
    f.tokens[NEW] = wisp_text_of("\u2581tok");
    f.types[NEW] = 4;
    put_tokens(&f);
    put_ids(&f);
    must_open(&f);
    CHECK(&f, "tok TOK foo", NEW, UNK, FOO);
    teardown(&f);
}

/* llama.cpp's keys for case and accents. */
static void test_normalizer_keys(void **state) {
    static const char lowercase[] = "tokenizer.ggml.normalizer.lowercase",
                      accents[] = "tokenizer.ggml.normalizer.strip_accents";
    struct fixture f;
    (void)state;
    setup_complete(&f);
    put_bool(&f, lowercase, false); /* accents stay too */
    must_open(&f);
    CHECK(&f, "foo Foo f\u00f3o \u00e9 e\u0301", FOO, UNK, UNK, E_ACUTE, UNK);
    teardown(&f);
    setup_complete(&f);
    put_bool(&f, lowercase, false);
    put_bool(&f, accents, true);
    must_open(&f);
    CHECK(&f, "foo Foo f\u00f3o", FOO, UNK, FOO);
    teardown(&f);
    setup_complete(&f);
    put_bool(&f, lowercase, true);
    put_bool(&f, accents, false);
    must_open(&f);
    CHECK(&f, "FOO f\u00f3o \u00c9", FOO, UNK, E_ACUTE);
    teardown(&f);
}

/* ---- reference results ---------------------------------------------------------------------- */

static void check_golden(const struct fixture *f, const struct json *text, const struct json *ids) {
    int32_t found[256];
    const wisp_text whole = {text->text, text->text_length};
    assert_true(json_is(text, JSON_STRING) && json_is(ids, JSON_ARRAY));
    assert_int_equal(bert_tokenizer_encode(f->tokenizer, whole, 256, found, NULL), ids->count);
    size_t i = 0;
    for (const struct json *id = ids->first; id; id = id->next) {
        int64_t expected;
        assert_true(json_to_i64(id, &expected));
        assert_int_equal(found[i++], expected);
    }
}

static void test_goldens(void **state) {
    char golden[GOLDEN_PATH_BYTES], model[GOLDEN_PATH_BYTES];
    const struct json *texts, *ids;
    struct fixture f = {0};
    (void)state;
    if (!shared_is_there())
        skip();
    shared_path("golden/all-MiniLM-L6-v2", golden);
    shared_path("models/all-MiniLM-L6-v2", model);
    f.dir.file = model;
    assert_int_equal(hf_read_json(&f.dir, golden, "texts.json", true, JSON_ARRAY, &texts, &f.error),
                     WISP_OK);
    assert_int_equal(hf_read_json(&f.dir, golden, "ids.json", true, JSON_ARRAY, &ids, &f.error),
                     WISP_OK);
    assert_int_equal(hf_read_tokenizer(&f.dir, model, false, &f.error), WISP_OK);
    must_open(&f);
    assert_int_equal(bert_tokenizer_vocabulary_size(f.tokenizer), 30522);
    assert_in_range(bert_tokenizer_resident_bytes(f.tokenizer), 1, 2 * 1000 * 1000);
    assert_int_equal(texts->count, ids->count);
    const struct json *expected = ids->first;
    for (const struct json *text = texts->first; text; text = text->next) {
        check_golden(&f, text, expected);
        expected = expected->next;
    }
    teardown(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_malformed_utf8),
        cmocka_unit_test(test_canonical_order),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_truncation_leaves_nothing_out),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_single_word),
        cmocka_unit_test(test_strip),
        cmocka_unit_test(test_normalized_tokens),
        cmocka_unit_test(test_tokens_past_the_vocabulary),
        cmocka_unit_test(test_old_spelling),
        cmocka_unit_test(test_token_types),
        cmocka_unit_test(test_user_defined_tokens),
        cmocka_unit_test(test_normalizer_keys),
        cmocka_unit_test(test_goldens),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
