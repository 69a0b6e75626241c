/* SPDX-License-Identifier: Apache-2.0
 * Long texts, and vocabularies made to be slow. Each test ends in seconds if the tokenizer's
 * time is proportional to the length of the text; if it is not, in minutes to days. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/tokenizer_fixture.h"
#include "tokenizers/wordpiece.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { LARGE = 1000 * 1000, VAST = 10 * LARGE };

/* ---- pieces chosen to collide ---------------------------------------------------------------- */

enum { TWINS = 100, TWIN_BYTES = 8 };

/* The slot, of 256, that tokenizers/wordpiece.c tries first for an initial piece. */
static unsigned first_slot(const char *bytes) {
    uint64_t hash = UINT64_C(0xD1B54A32D192ED03);
    for (size_t i = 0; i < TWIN_BYTES; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (unsigned)(hash >> 56);
}

static void test_colliding_pieces(void **state) {
    static char bytes[TWINS][TWIN_BYTES + 1];
    struct piece pieces[TWINS];
    struct arena arena = {0};
    struct wordpiece vocabulary = {0};
    wisp_error error;
    unsigned number = 0;
    (void)state;
    for (size_t i = 0; i < TWINS; i++) {
        do {
            snprintf(bytes[i], sizeof bytes[i], "%08u", number++);
        } while (first_slot(bytes[i]) != 7);
        pieces[i] = (struct piece){bytes[i], TWIN_BYTES, PIECE_INITIAL};
    }
    assert_int_equal(wordpiece_build(&vocabulary, &arena, pieces, TWINS, "f", "k", &error),
                     WISP_OK);
    for (int32_t i = 0; i < TWINS; i++) {
        int32_t id = -1;
        assert_int_equal(wordpiece_split(&vocabulary, bytes[i], TWIN_BYTES, &id, 1), 1);
        assert_int_equal(id, i);
    }
    assert_int_not_equal(vocabulary.seed, UINT64_C(0xD1B54A32D192ED03)); /* another was needed */
    arena_release(&arena);
}

/* ---- large texts ---------------------------------------------------------------------------- */

/* Repeats `pattern` up to `bytes` bytes. */
static wisp_text repeat(const char *pattern, size_t bytes) {
    const size_t length = strlen(pattern), times = bytes / length;
    char *text = malloc(times * length);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * length, pattern, length);
    return (wisp_text){text, times * length};
}

/* Checks that a long text has so many tokens for each repetition of the pattern, and so many more.
 */
static void check_repeated(const struct fixture *f, const char *pattern, size_t bytes,
                           size_t ids_each, size_t ids_more) {
    const wisp_text text = repeat(pattern, bytes);
    const size_t expected = text.length / strlen(pattern) * ids_each + ids_more + 2;
    int32_t *ids = malloc((expected + 1) * sizeof *ids);
    bool truncated;
    assert_non_null(ids);
    assert_int_equal(bert_tokenizer_encode(f->tokenizer, text, expected + 1, ids, &truncated),
                     expected);
    assert_false(truncated);
    bert_tokenizer_encode(f->tokenizer, text, 2, ids, &truncated);
    assert_int_equal(truncated, expected > 2);
    free(ids);
    free((void *)(uintptr_t)text.bytes);
}

static void check_large(const struct fixture *f, const char *pattern, size_t ids_each,
                        size_t ids_more) {
    check_repeated(f, pattern, LARGE, ids_each, ids_more);
}

/* Classes in falling order. */
static const char WORST_ORDER[] = "\U0001e000\u302e\U0001d165\u1b44\u0316";

static void check_large_texts(const struct fixture *f) {
    check_large(f, " ", 0, 0);
    check_large(f, "\xff", 0, 0);
    check_large(f, "\u0301", 0, 0);
    check_large(f, WORST_ORDER, 0, 1);
    check_large(f, "\u0301\U0001e000\u200d\u1b44 ", 1, 0);
    check_large(f, "[MASK]", 1, 0);
    check_large(f, "  [MASK] \t[MAS", 3, 0);
    check_large(f, "\u03a3", 0, 1);
    check_large(f, "\u03a3.", 2, 0);
    check_large(f, "\u00ad", 0, 0);
    check_large(f, "a\u03a3\u00ad\u00ad\u00ad\u00ad\u00ad\u00ad", 0, 1);
    check_large(f, "\u65e5", 1, 0);
    check_large(f, "\uac00 ", 1, 0);
    check_large(f, "abababababababababababababababababababababababababababababababababababab ", 72,
                0);
}

static void check_vast_texts(const struct fixture *f) {
    check_repeated(f, "a", VAST, 0, 1);
    check_repeated(f, "[", VAST, 1, 0);
    check_repeated(f, "[MAS", VAST, 2, 0);
    check_repeated(f, WORST_ORDER, VAST, 0, 1);
}

static void test_large_texts(void **state) {
    struct fixture f;
    (void)state;
    setup_complete(&f);
    must_open(&f);
    check_large_texts(&f);
    check_vast_texts(&f);
    teardown(&f);
}

static void test_large_texts_with_added_tokens(void **state) {
    static const int32_t ids[] = {MASK, NEW, SEP};
    static const uint8_t flags[] = {SINGLE_WORD | LSTRIP | RSTRIP, NORMALIZED | SINGLE_WORD,
                                    LSTRIP};
    static char token[256];
    struct fixture f;
    (void)state;
    memset(token, '[', sizeof token);
    memcpy(token, "\u2581", 3);
    setup(&f);
    f.tokens[NEW] = (wisp_text){token, sizeof token};
    put_tokens(&f);
    put_ids(&f);
    put_numbers(&f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 3);
    put_numbers(&f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 3);
    must_open(&f);
    check_large(&f, "a", 0, 1);
    check_large(&f, "[a", 2, 0);
    check_large(&f, " \t", 0, 0);
    check_large(&f, "   [MASK] ", 1, 0);
    check_large(&f, "   [MASK]a", 4, 0);
    teardown(&f);
}

/* At each character of these words the tokenizer looks for pieces of every length up to the longest
 * that a file may hold, and finds one of a single character. */
static void test_large_words_of_small_pieces(void **state) {
    enum { WORD = 999 };
    static char word[WORD + 2], token[PIECE_MAX_BYTES];
    struct fixture f;
    (void)state;
    memset(word, 'a', WORD);
    word[WORD] = ' ';
    memset(token, 'a', sizeof token);
    token[sizeof token - 1] = 'b';
    setup(&f);
    f.tokens[NEW] = (wisp_text){token, sizeof token};
    put_tokens(&f);
    put_ids(&f);
    put_u32(&f, "wisp.tokenizer.max_input_chars_per_word", WORD);
    must_open(&f);
    check_large(&f, word, WORD, 0);
    teardown(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colliding_pieces),
        cmocka_unit_test(test_large_texts),
        cmocka_unit_test(test_large_texts_with_added_tokens),
        cmocka_unit_test(test_large_words_of_small_pieces),
    };
    return cmocka_run_group_tests_name("tokenizer_time", tests, NULL, NULL);
}
