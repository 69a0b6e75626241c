/* SPDX-License-Identifier: Apache-2.0
 * SentencePiece's models on a small vocabulary: its BPE and its unigram model.
 * tests/oracle/codecs.py compares larger ones with Hugging Face's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/codec_fixture.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

/* ---- SentencePiece's BPE -------------------------------------------------------------------- */

static void test_spm(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    fixture_must_open(&f);
    CHECK(&f, "hello", BOS, S_SPACE_HELLO);
    CHECK(&f, "he", BOS, S_SPACE_HE);
    CHECK(&f, "", BOS);
    CHECK(&f, " ", BOS, SPACE, SPACE);
    check_codec_ids(&f, wisp_text_of("hello"), false, (const int32_t[]){S_HE, S_LLO}, 2);
    check_codec_ids(&f, wisp_text_of("lll"), false, (const int32_t[]){S_LL, S_L}, 2);
    check_codec_ids(&f, wisp_text_of("\u2581he"), false, (const int32_t[]){S_SPACE_HE}, 1);
    /* Characters that are not tokens become bytes; "abc" is a token that no pair leads to. */
    check_codec_ids(&f, wisp_text_of("a\u00e9"), false, (const int32_t[]){BYTE_0 + 'a', S_E_ACUTE},
                    2);
    check_codec_ids(&f, wisp_text_of("ab"), false, (const int32_t[]){BYTE_0 + 'a', BYTE_0 + 'b'},
                    2);
    check_codec_ids(&f, (wisp_text){"\0\xff", 2}, false,
                    (const int32_t[]){BYTE_0, BYTE_0 + 0xEF, BYTE_0 + 0xBF, BYTE_0 + 0xBD}, 4);
    check_codec_ids(&f, wisp_text_of("<s>"), false,
                    (const int32_t[]){BYTE_0 + '<', BYTE_0 + 's', BYTE_0 + '>'}, 3);
    check_random_round_trips(&f, " ");
    fixture_tear_down(&f);
    fixture_of_spm(&f);
    fixture_put_bool(&f, "tokenizer.ggml.add_space_prefix", false);
    fixture_put_bool(&f, "tokenizer.ggml.add_bos_token", false);
    fixture_must_open(&f);
    CHECK(&f, "hello", S_HE, S_LLO);
    check_random_round_trips(&f, "");
    fixture_tear_down(&f);
}

static void test_spm_memory(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    check_codec_memory(
        &f, "hello abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"
            "\xff");
    fixture_tear_down(&f);
}

/* User-defined tokens are found before pieces merge: their scores would lose against other merges,
 * and no merge leads to some. Each part after one begins with a space, as in llama.cpp. */
static void test_spm_user_defined(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    fixture_add_token(&f, "ello", 4);
    fixture_add_token(&f, "\u2581\u2581", 4);
    fixture_add_token(&f, "<tool>", 4);
    fixture_put_again(&f);
    fixture_must_open(&f);
    CHECK(&f, "hello", BOS, SPACE, S_H, SPM_TOKENS);
    CHECK(&f, "hellohe", BOS, SPACE, S_H, SPM_TOKENS, S_SPACE_HE);
    CHECK(&f, "  he", BOS, SPM_TOKENS + 1, S_SPACE_HE);
    CHECK(&f, "<tool>", BOS, SPM_TOKENS + 2);
    check_codec_ids(&f, wisp_text_of("he<tool>he"), false,
                    (const int32_t[]){S_HE, SPM_TOKENS + 2, S_SPACE_HE}, 3);
    fixture_tear_down(&f);
}

/* Flags of user-defined tokens: stripped white space, words of their own, normalised texts. */
static void test_added_flags(void **state) {
    static const int32_t ids[] = {SPM_TOKENS, SPM_TOKENS + 1, SPM_TOKENS + 2};
    static const uint8_t flags[] = {6, 1, 8};
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    fixture_add_token(&f, "<strips>", 4);
    fixture_add_token(&f, "word", 4);
    fixture_add_token(&f, "oo", 4); /* which in a normalised text has a space before it */
    fixture_put_again(&f);
    fixture_put_array(&f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 3);
    fixture_put_array(&f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 3);
    fixture_must_open(&f);
    CHECK(&f, "he \n<strips> \t he", BOS, S_SPACE_HE, SPM_TOKENS, S_SPACE_HE);
    CHECK(&f, "word", BOS, SPM_TOKENS + 1);
    CHECK(&f, "hword", BOS, SPACE, S_H, BYTE_0 + 'w', S_O, BYTE_0 + 'r', BYTE_0 + 'd');
    CHECK(&f, "he oo", BOS, S_SPACE_HE, SPM_TOKENS + 2);
    CHECK(&f, "hoo", BOS, SPACE, S_H, S_O, S_O);
    fixture_tear_down(&f);
}

/* Merges, if a file has them, count instead of scores. */
static void test_spm_merges(void **state) {
    static const wisp_text merges[] = {{"l o", 3}, {"l l", 3}, {"h e", 3}, {"\u2581 he", 6}};
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    fixture_add_token(&f, "lo", 1);
    fixture_put_again(&f);
    assert_int_equal(directory_put_texts(&f.dir, "tokenizer.ggml.merges", merges, 4, &f.error),
                     WISP_OK);
    fixture_must_open(&f);
    CHECK(&f, "hello", BOS, S_SPACE_HE, S_L, SPM_TOKENS);
    CHECK(&f, "lll", BOS, SPACE, S_LL, S_L);
    CHECK(&f, "abc", BOS, SPACE, BYTE_0 + 'a', BYTE_0 + 'b', BYTE_0 + 'c');
    check_random_round_trips(&f, " ");
    fixture_tear_down(&f);
}

/* Words are encoded one by one, and those that are tokens are looked up when they come again, but
 * not if a piece reaches from one word into the next. */
static void test_spm_words(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    fixture_add_token(&f, "\u2581\u2581", 1);
    f.scores[SPM_TOKENS] = 100;
    fixture_put_again(&f);
    fixture_must_open(&f);
    for (int i = 0; i < 2; i++) {
        CHECK(&f, "he he  he", BOS, S_SPACE_HE, S_SPACE_HE, SPM_TOKENS, S_HE);
        CHECK(&f, "he   he ", BOS, S_SPACE_HE, SPM_TOKENS, S_SPACE_HE, SPACE);
    }
    fixture_tear_down(&f);
    fixture_of_spm(&f);
    fixture_add_token(&f, "o\u2581", 1);
    f.scores[SPM_TOKENS] = 100;
    fixture_put_again(&f);
    fixture_must_open(&f);
    CHECK(&f, "lo he", BOS, SPACE, S_L, SPM_TOKENS, S_HE);
    fixture_tear_down(&f);
}

/* Characters that are unknown become one token, also if they spell a piece. */
static void test_spm_unknown_words(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_spm(&f);
    for (size_t i = 0; i < 256; i++)
        f.types[BYTE_0 + i] = 1; /* so there are no bytes */
    fixture_add_token(&f, "xyw", 1);
    fixture_put_again(&f);
    fixture_put_u32(&f, "tokenizer.ggml.unknown_token_id", UNK);
    fixture_put_bool(&f, "tokenizer.ggml.add_space_prefix", false);
    fixture_must_open(&f);
    for (int i = 0; i < 2; i++) {
        CHECK(&f, "xyw", BOS, UNK);
        CHECK(&f, "wx yy", BOS, UNK, SPACE, UNK);
    }
    fixture_tear_down(&f);
}

/* ---- SentencePiece's unigram model ---------------------------------------------------------- */

static void test_unigram(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_unigram(&f);
    fixture_must_open(&f);
    CHECK(&f, "hello", S_SPACE_HELLO); /* one token costs less than two */
    CHECK(&f, "hellollo", S_SPACE_HELLO, S_LLO);
    CHECK(&f, "lloll", SPACE, S_LLO, S_LL);
    CHECK(&f, "abcab", SPACE, S_ABC, BYTE_0 + 'a', BYTE_0 + 'b');
    CHECK(&f, "\u00e9", SPACE, S_E_ACUTE);
    CHECK(&f, "</s>", SPACE, BYTE_0 + '<', BYTE_0 + '/', BYTE_0 + 's', BYTE_0 + '>');
    check_codec_ids(&f, (wisp_text){NULL, 0}, true, NULL, 0);
    check_random_round_trips(&f, " ");
    fixture_tear_down(&f);
    fixture_of_unigram(&f);
    for (size_t i = 0; i < f.count; i++)
        f.types[i] = f.types[i] == 6 ? 5 : f.types[i];
    fixture_must_open(&f);
    CHECK(&f, "hexy\u65e5he", S_SPACE_HE, UNK, S_HE); /* neighbours are one unknown token */
    fixture_tear_down(&f);
}

static void test_unigram_settings(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_unigram(&f);
    fixture_put_charsmap(&f, "A");
    fixture_put_bool(&f, "tokenizer.ggml.remove_extra_whitespaces", true);
    fixture_must_open(&f);
    CHECK(&f, "  he   he ", S_SPACE_HE, S_SPACE_HE);
    CHECK(&f, "abhe", S_SPACE_HE);
    CHECK(&f, "ahe", SPACE, BYTE_0 + 'A', S_HE);
    check_codec_ids(&f, wisp_text_of("   "), true, NULL, 0);
    fixture_tear_down(&f);
    fixture_of_unigram(&f);
    fixture_put_text(&f, "wisp.tokenizer.space_prefix", "first");
    fixture_put_bool(&f, "wisp.tokenizer.split_spaces", true);
    f.tokens[S_ABC] = wisp_text_of("e\u2581h"); /* which is never found across a space */
    fixture_must_open(&f);
    CHECK(&f, " he h", S_SPACE_HE, SPACE, S_H);
    CHECK(&f, "he", S_SPACE_HE);
    fixture_tear_down(&f);
}

/* Time is linear in a text's length: were it quadratic, this test would take hours. */
static void test_unigram_long(void **state) {
    enum { LENGTH = 1 << 21 };
    char *text = malloc(LENGTH + 1);
    struct codec_fixture f;
    (void)state;
    assert_non_null(text);
    fixture_of_unigram(&f);
    fixture_must_open(&f);
    text[0] = ' ';
    for (size_t i = 0; i < LENGTH; i++)
        text[i + 1] = "hello"[i % 5];
    check_round_trip(&f, (wisp_text){text + 1, LENGTH}, (wisp_text){text, LENGTH + 1});
    fixture_tear_down(&f);
    free(text);
}

/* Each 'a' leads on to another: were a search not bounded, this test would take hours. */
static void test_circular_charsmap(void **state) {
    enum { LENGTH = 1 << 20, UNITS = 512, A = 256 ^ 'a', BYTES = 4 + 4 * UNITS + 1 };
    static unsigned char map[BYTES];
    static uint32_t units[UNITS];
    char *text = malloc(LENGTH);
    struct codec_fixture f;
    struct token_list list = {0};
    (void)state;
    assert_non_null(text);
    memset(text, 'a', LENGTH);
    units[0] = 256u << 10;
    units[A] = (uint32_t)'a' << 10 | 'a'; /* back to 256 */
    for (size_t i = 0; i <= UNITS; i++)
        for (size_t b = 0; b < 4; b++)
            map[4 * i + b] = (unsigned char)((i == 0 ? 4 * UNITS : units[i - 1]) >> 8 * b);
    fixture_of_unigram(&f);
    fixture_put_array(&f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, map, BYTES);
    fixture_must_open(&f);
    assert_int_equal(codec_encode(f.codec, (wisp_text){text, LENGTH}, true, &list, NULL), WISP_OK);
    assert_int_equal(list.count, LENGTH + 1);
    free(list.ids);
    free(text);
    fixture_tear_down(&f);
}

static void test_unigram_memory(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_unigram(&f);
    fixture_put_charsmap(&f, "A");
    check_codec_memory(
        &f, "hello abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"
            "\xff");
    fixture_tear_down(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spm),
        cmocka_unit_test(test_spm_memory),
        cmocka_unit_test(test_spm_user_defined),
        cmocka_unit_test(test_added_flags),
        cmocka_unit_test(test_spm_merges),
        cmocka_unit_test(test_spm_words),
        cmocka_unit_test(test_spm_unknown_words),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_unigram_settings),
        cmocka_unit_test(test_unigram_long),
        cmocka_unit_test(test_circular_charsmap),
        cmocka_unit_test(test_unigram_memory),
    };
    return cmocka_run_group_tests_name("SentencePiece's models", tests, NULL, NULL);
}
