/* SPDX-License-Identifier: Apache-2.0
 * Codecs on small vocabularies: what texts are encoded to, that ids decode to the text, and typed
 * errors for malformed metadata. tests/oracle/codecs.py compares larger ones with Hugging Face's.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "support/allocations.h"
#include "support/rng.h"
#include "text/codec.h"
#include "text/nfc.h"
#include "text/pretokenize.h"
#include "text/unicode_classes.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

enum { MAX_TOKENS = 320, MAX_MERGES = 32 };

/* A directory of tokenizer metadata, and the codec that was opened from it. The arrays are the
 * directory's own: a test changes them before it opens the codec. */
struct fixture {
    struct directory dir;
    wisp_text tokens[MAX_TOKENS], merges[MAX_MERGES];
    int32_t types[MAX_TOKENS];
    float scores[MAX_TOKENS];
    char spelled[256][8]; /* of the tokens of bytes */
    size_t count, n_merges;
    wisp_error error;
    struct codec *codec;
};

static void add_token(struct fixture *f, const char *text, int32_t type) {
    assert_true(f->count < MAX_TOKENS);
    f->types[f->count] = type;
    f->scores[f->count] = -(float)f->count;
    f->tokens[f->count++] = wisp_text_of(text);
}

static void put_text(struct fixture *f, const char *key, const char *value) {
    assert_int_equal(directory_put_text(&f->dir, key, wisp_text_of(value), &f->error), WISP_OK);
}

static void put_u32(struct fixture *f, const char *key, uint32_t value) {
    assert_int_equal(directory_put_u32(&f->dir, key, value, &f->error), WISP_OK);
}

static void put_bool(struct fixture *f, const char *key, bool value) {
    assert_int_equal(directory_put_bool(&f->dir, key, value, &f->error), WISP_OK);
}

static struct metadata *entry_of(struct fixture *f, const char *key) {
    for (size_t i = 0; i < f->dir.n_metadata; i++)
        if (strcmp(f->dir.metadata[i].key, key) == 0)
            return &f->dir.metadata[i];
    fail_msg("no metadata of the key %s", key);
    return NULL;
}

static void put_vocabulary(struct fixture *f) {
    assert_int_equal(
        directory_put_texts(&f->dir, "tokenizer.ggml.tokens", f->tokens, f->count, &f->error),
        WISP_OK);
    assert_int_equal(directory_put_numbers(&f->dir, "tokenizer.ggml.token_type", VALUE_I32,
                                           f->types, f->count, &f->error),
                     WISP_OK);
}

/* Puts the arrays of the vocabulary anew, after tokens were added to it. */
static void put_again(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.tokens")->count = f->count;
    entry_of(f, "tokenizer.ggml.token_type")->count = f->count;
    entry_of(f, "tokenizer.ggml.scores")->count = f->count;
}

static void put_array(struct fixture *f, const char *key, enum value_type type, const void *values,
                      size_t count) {
    assert_int_equal(directory_put_numbers(&f->dir, key, type, values, count, &f->error), WISP_OK);
}

static wisp_status open_codec(struct fixture *f) {
    assert_int_equal(directory_finish(&f->dir, &f->error), WISP_OK);
    return codec_open(&f->dir, &f->codec, &f->error);
}

static void must_open(struct fixture *f) {
    if (open_codec(f) != WISP_OK)
        fail_msg("%s", f->error.message);
    /* The codec must not need the directory. */
    memset(f->tokens, 0, sizeof f->tokens);
    memset(f->merges, 0, sizeof f->merges);
    directory_release(&f->dir);
}

static void tear_down(struct fixture *f) {
    codec_close(f->codec);
    directory_release(&f->dir);
}

static void check_ids(const struct fixture *f, wisp_text text, bool begins, const int32_t *ids,
                      size_t count) {
    struct token_list list = {0};
    assert_int_equal(codec_encode(f->codec, text, begins, &list, NULL), WISP_OK);
    assert_int_equal(list.count, count);
    if (count > 0)
        assert_memory_equal(list.ids, ids, count * sizeof *ids);
    free(list.ids);
}

#define CHECK(f, text, ...)                                                                        \
    check_ids(f, (wisp_text){text, sizeof text - 1}, true, (const int32_t[]){__VA_ARGS__},         \
              sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))

/* Checks that the ids of a text decode to `expected`. */
static void check_round_trip(const struct fixture *f, wisp_text text, wisp_text expected) {
    struct token_list list = {0};
    size_t at = 0;
    assert_int_equal(codec_encode(f->codec, text, true, &list, NULL), WISP_OK);
    for (size_t i = 0; i < list.count; i++) {
        assert_in_range(list.ids[i], 0, codec_vocabulary_size(f->codec) - 1);
        const wisp_text piece = codec_decode(f->codec, list.ids[i]);
        assert_true(piece.length <= expected.length - at);
        if (piece.length > 0)
            assert_memory_equal(piece.bytes, expected.bytes + at, piece.length);
        at += piece.length;
    }
    assert_int_equal(at, expected.length);
    free(list.ids);
}

/* Random texts: characters of all lengths, white space, bytes that are no UTF-8. `prefix` is what
 * stands before each decoded text. */
static void check_random_round_trips(const struct fixture *f, const char *prefix) {
    enum { LONGEST = 300 };
    struct rng rng = {rng_seed()};
    char text[LONGEST + 4], expected[3 * LONGEST + 16];
    for (int round = 0; round < 2000; round++) {
        const size_t most = rng_range(&rng, 1, LONGEST);
        size_t length = 0, wanted = strlen(prefix);
        while (length < most) {
            static const uint32_t limits[] = {0x80, 0x80, 0x80, 0x800, 0x2FFF, 0x110000};
            const size_t kind = rng_below(&rng, 8);
            uint32_t c = kind < 6 ? (uint32_t)rng_below(&rng, limits[kind]) : ' ';
            /* No surrogates, and not the character by which SentencePiece spells spaces. */
            if ((c >= 0xD800 && c < 0xE000) || c == 0x2581)
                c = 0xFFFD;
            if (kind == 7)
                text[length++] = (char)rng_bits(&rng);
            else
                length += utf8_encode(c, text + length);
        }
        memcpy(expected, prefix, wanted);
        for (size_t at = 0; at < length;) {
            uint32_t c;
            at += utf8_decode(text + at, length - at, &c);
            wanted += utf8_encode(c == UTF8_INVALID ? 0xFFFD : c, expected + wanted);
        }
        check_round_trip(f, (wisp_text){text, length}, (wisp_text){expected, wanted});
    }
}

/* Checks that encoding and opening fail cleanly when any allocation does. */
static void check_memory(struct fixture *f, const char *text) {
    int32_t kept[] = {1, 2, 3};
    uint64_t calls = 0;
    if (!allocations_are_watched())
        return;
    assert_int_equal(directory_finish(&f->dir, &f->error), WISP_OK);
    for (bool failed = true; failed; calls++) {
        allocations_watch();
        allocations_fail_after(calls, false);
        const wisp_status status = codec_open(&f->dir, &f->codec, &f->error);
        failed = allocations_seen().failed;
        allocations_succeed();
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        if (failed)
            assert_int_equal(allocations_seen().live, 0);
    }
    assert_true(calls > 3);
    calls = 0;
    for (bool failed = true; failed; calls++) {
        struct token_list list = {kept, 3, 3};
        /* A list that cannot grow in place, so that adding to it is an allocation as well. */
        list.ids = malloc(sizeof kept);
        assert_non_null(list.ids);
        memcpy(list.ids, kept, sizeof kept);
        allocations_watch();
        allocations_fail_after(calls, false);
        const wisp_status status =
            codec_encode(f->codec, wisp_text_of(text), true, &list, &f->error);
        failed = allocations_seen().failed;
        allocations_succeed();
        assert_int_equal(status, failed ? WISP_ERROR_MEMORY : WISP_OK);
        assert_true(failed ? list.count == 3 : list.count > 3);
        assert_memory_equal(list.ids, kept, sizeof kept);
        free(list.ids);
    }
    assert_true(calls > 2);
}

/* ---- byte-level BPE ------------------------------------------------------------------------- */

/* Ids after those of the 256 bytes. */
enum { HE = 256, LL, LLO, HELLO, G_HELLO, TWO_SPACES, BC, AB, ABC, N12, N123, N1234, E_ACUTE };
enum { TOOL = E_ACUTE + 1, TOOL_X, THREE_SPACES, END, PAD, RAW, BPE_TOKENS };

#define G "\u0120" /* how a space is spelled */

static void add_merge(struct fixture *f, const char *pair) {
    assert_true(f->n_merges < MAX_MERGES);
    f->merges[f->n_merges++] = wisp_text_of(pair);
}

static void set_up_bpe(struct fixture *f, const char *pre) {
    static const char *const tokens[] = {"he",  "ll",   "llo",         "hello", G "hello",
                                         G G,   "bc",   "ab",          "abc",   "12",
                                         "123", "1234", "\u00c3\u00a9"};
    static const char *const merges[] = {"h e",   "l l",   "ll o",         "he llo", G " hello",
                                         G " " G, "b c",   "a b",          "ab c",   "1 2",
                                         "12 3",  "123 4", "\u00c3 \u00a9"};
    uint32_t others = 0x100;
    *f = (struct fixture){.dir.file = "test.gguf"};
    for (uint32_t b = 0; b < 256; b++) {
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        f->spelled[b][utf8_encode(printable ? b : others++, f->spelled[b])] = 0;
        add_token(f, f->spelled[b], 1);
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        add_token(f, tokens[i], 1);
    add_token(f, "<tool>", 4);
    add_token(f, "<tool>x", 4);
    add_token(f, "   ", 4);
    add_token(f, "<|end|>", 3);
    add_token(f, "[PAD]", 5);
    add_token(f, "\u65e5 \u672c", 1); /* outside the alphabet of bytes */
    assert_int_equal(f->count, BPE_TOKENS);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        add_merge(f, merges[i]);
    put_text(f, "tokenizer.ggml.model", "gpt2");
    put_text(f, "tokenizer.ggml.pre", pre);
    put_vocabulary(f);
    assert_int_equal(
        directory_put_texts(&f->dir, "tokenizer.ggml.merges", f->merges, f->n_merges, &f->error),
        WISP_OK);
    put_u32(f, "tokenizer.ggml.bos_token_id", END);
    put_u32(f, "tokenizer.ggml.eos_token_id", END);
}

static void open_bpe(struct fixture *f, const char *pre) {
    set_up_bpe(f, pre);
    must_open(f);
}

static void test_bpe_merges(void **state) {
    struct fixture f;
    (void)state;
    open_bpe(&f, "gpt-2");
    assert_int_equal(codec_vocabulary_size(f.codec), BPE_TOKENS);
    assert_true(codec_is_end(f.codec, END) && !codec_is_end(f.codec, HE));
    check_ids(&f, (wisp_text){NULL, 0}, true, NULL, 0);
    for (int twice = 0; twice < 2; twice++) { /* the second time, known words are remembered */
        CHECK(&f, "hello", HELLO);
        CHECK(&f, "hello hello", HELLO, G_HELLO);
        CHECK(&f, "hellollo", HELLO, LLO);
        CHECK(&f, "hell", HE, LL);
        CHECK(&f, "lll", LL, 'l'); /* the leftmost pair first */
        CHECK(&f, "llll", LL, LL);
        CHECK(&f, "llllo", LL, LLO);
        CHECK(&f, "abc", 'a', BC); /* "b c" comes before "a b", so no merge leads to "abc" */
        CHECK(&f, "ab", AB);
        CHECK(&f, "12345", N1234, '5');
        CHECK(&f, "  hello", ' ', G_HELLO);
        CHECK(&f, "a  ", 'a', TWO_SPACES);
        CHECK(&f, "\0a", 0, 'a');
        CHECK(&f, "\u00e9", E_ACUTE);
        CHECK(&f, "e\u0301", 'e', 0xCC, 0x81);
    }
    tear_down(&f);
}

static void test_bpe_models(void **state) {
    struct fixture f;
    (void)state;
    open_bpe(&f, "llama-bpe");
    CHECK(&f, "abc", END, ABC); /* merges are ignored where the word is a token */
    CHECK(&f, "xabc", END, 'x', 'a', BC);
    CHECK(&f, "1234512", END, N123, '4', '5', '1', '2');
    check_ids(&f, wisp_text_of("ab"), false, (const int32_t[]){AB}, 1);
    tear_down(&f);
    open_bpe(&f, "qwen2");
    CHECK(&f, "abc", 'a', BC);
    CHECK(&f, "12", '1', '2');
    CHECK(&f, "e\u0301", E_ACUTE);
    tear_down(&f);
    set_up_bpe(&f, "gpt-2");
    put_bool(&f, "tokenizer.ggml.add_bos_token", true);
    must_open(&f);
    CHECK(&f, "ab", END, AB);
    tear_down(&f);
    set_up_bpe(&f, "llama-bpe");
    put_bool(&f, "tokenizer.ggml.add_bos_token", false);
    must_open(&f);
    CHECK(&f, "ab", AB);
    tear_down(&f);
}

static void test_bpe_added_tokens(void **state) {
    struct fixture f;
    (void)state;
    open_bpe(&f, "gpt-2");
    CHECK(&f, "<tool>", TOOL);
    CHECK(&f, "he<tool>xhe", HE, TOOL_X, HE); /* the longest */
    CHECK(&f, "<tool><tool>", TOOL, TOOL);
    CHECK(&f, "ab   ", AB, THREE_SPACES); /* before any cutting */
    CHECK(&f, "ab    ", AB, THREE_SPACES, ' ');
    CHECK(&f, "<too", '<', 't', 'o', 'o');
    CHECK(&f, "<\xc3<tool>", '<', 0xEF, 0xBF, 0xBD, TOOL);
    /* A text cannot spell control tokens, unused ones, or ones outside the alphabet. */
    CHECK(&f, "<|end|>", '<', '|', 'e', 'n', 'd', '|', '>');
    CHECK(&f, "[PAD]", '[', 'P', 'A', 'D', ']');
    CHECK(&f, "\u65e5", 0xE6, 0x97, 0xA5);
    assert_int_equal(codec_decode(f.codec, END).length, 0);
    assert_int_equal(codec_decode(f.codec, TOOL).length, 6);
    const wisp_text raw = codec_decode(f.codec, RAW);
    assert_int_equal(raw.length, 7);
    assert_memory_equal(raw.bytes, "\u65e5 \u672c", 7);
    tear_down(&f);
}

static void test_bpe_ill_formed(void **state) {
    struct fixture f;
    (void)state;
    open_bpe(&f, "llama-bpe");
    CHECK(&f, "\xff", END, 0xEF, 0xBF, 0xBD);
    CHECK(&f, "he\xe2\x82", END, HE, 0xEF, 0xBF, 0xBD);
    check_random_round_trips(&f, "");
    tear_down(&f);
    open_bpe(&f, "gpt-2");
    check_random_round_trips(&f, "");
    tear_down(&f);
}

/* Long words take time n log n; were it n^2, this test would take hours. */
static void test_bpe_long_words(void **state) {
    enum { LENGTH = 1 << 20 };
    char *text = malloc(LENGTH);
    struct fixture f;
    (void)state;
    assert_non_null(text);
    for (const char *c = "lab "; *c; c++) {
        for (size_t i = 0; i < LENGTH; i++)
            text[i] = i % 2 && *c == 'a' ? 'b' : *c;
        open_bpe(&f, *c == 'l' ? "qwen2" : "llama-bpe");
        check_round_trip(&f, (wisp_text){text, LENGTH}, (wisp_text){text, LENGTH});
        tear_down(&f);
    }
    free(text);
}

static void test_bpe_memory(void **state) {
    struct fixture f;
    (void)state;
    set_up_bpe(&f, "qwen2");
    check_memory(&f, "hellox e\u0301 \xff<tool>abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"
                     "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc");
    tear_down(&f);
}

/* ---- the parts of byte-level BPE ------------------------------------------------------------ */

/* Each text has a bar at every place where it is cut. */
static void check_cuts(const char *name, const char *const *texts) {
    const struct pretokenizer *p = pretokenizer_find(name);
    assert_non_null(p);
    for (; *texts; texts++) {
        char plain[256], cut[512];
        size_t length = 0, used = 0;
        for (const char *c = *texts; *c; c++)
            if (*c != '|')
                plain[length++] = *c;
        for (size_t at = 0, taken; at < length; at += taken) {
            taken = p->next(plain + at, plain + length);
            assert_in_range(taken, 1, length - at);
            if (at > 0)
                cut[used++] = '|';
            memcpy(cut + used, plain + at, taken);
            used += taken;
        }
        cut[used] = 0;
        assert_string_equal(cut, *texts);
    }
}

static void test_pretokenizers(void **state) {
    static const char *const all[] = {"Hello| world|!",
                                      "I|'ll| we|'re|'s|'t|'d|'m|'ve",
                                      "a|  | b",
                                      "x|  | y|\n| z",
                                      "a|\r\n\r\n",
                                      "  \n",
                                      "   ",
                                      "a| \t",
                                      " '",
                                      "\U0001d7d8|\U00020000|\U0001f600\U0010ffff",
                                      NULL};
    static const char *const gpt2[] = {"I|'|LL| '|S| '|Re| '|T",
                                       "'|\u017fx| '|\u017f",
                                       "x| \n|\n|y",
                                       "x|\n \n | y",
                                       " 12345|abc| 6",
                                       "\u0663|a\u00aa|\u2167\u00bd",
                                       "!!''|s| ...| \u65e5\u672c|\u3000|a",
                                       "_|a| -|b| .,|c|\n|\n|?|\r\n| x",
                                       "\t|abc|\t|\t|y",
                                       "e|\u0301|x| \u0301",
                                       "a|\u2003|\u2003|b",
                                       "'|l| '|v",
                                       NULL};
    static const char *const modern[] = {"I|'LL| '|S| '|Re| '|T",
                                         "'\u017f|x| '|\u017f",
                                         "x| \n\n|y",
                                         "x|\n \n| | y",
                                         "!!''|s| ...| \u65e5\u672c|\u3000a",
                                         "_a| -|b| .,|c|\n\n|?\r\n| x",
                                         "\tabc|\t|\ty",
                                         "e|\u0301x| \u0301",
                                         "a|\u2003|\u2003b",
                                         "'l| '|v",
                                         NULL};
    static const char *const threes[] = {" |123|45|abc| |6", "123|456|7| |89",
                                         "\u0663|a\u00aa|\u2167\u00bd", NULL};
    static const char *const ones[] = {" |1|2|3|abc| |6", "\u0663|a\u00aa|\u2167|\u00bd", NULL};
    static const char *const names[] = {"gpt-2", "llama-bpe", "lfm2", "qwen2"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        check_cuts(names[i], all);
        check_cuts(names[i], i == 0 ? gpt2 : modern);
    }
    check_cuts("llama-bpe", threes);
    check_cuts("lfm2", threes);
    check_cuts("qwen2", ones);
    assert_null(pretokenizer_find("gpt-4"));
    assert_null(pretokenizer_find(""));
}

/* Compares all code points with a digest of classes that tests/oracle/codecs.py has compared with
 * Hugging Face's. */
static void test_classes(void **state) {
    size_t counts[4] = {0};
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        counts[unicode_class(c)]++;
        digest = (digest ^ (uint64_t)unicode_class(c)) * UINT64_C(0x100000001b3);
    }
    assert_int_equal(counts[UNICODE_LETTER], 141028);
    assert_int_equal(counts[UNICODE_NUMBER], 1911);
    assert_int_equal(counts[UNICODE_BLANK], 25);
    assert_true(digest == UINT64_C(0x48b1698009766d10));
}

static void test_nfc(void **state) {
    static const char *const pairs[][2] = {
        {"plain", "plain"},
        {"\u00e9\u4e2d\U0001f600", "\u00e9\u4e2d\U0001f600"},
        {"e\u0301", "\u00e9"},
        {"xe\u0323\u0301y", "x\u1eb9\u0301y"},
        {"e\u0301\u0323", "\u1eb9\u0301"}, /* marks are put in order */
        {"\u00e9\u0323", "\u1eb9\u0301"},  /* a composed letter is taken apart for that */
        {"a\u0315\u0300\u05ae\u0300b", "\u00e0\u05ae\u0300\u0315b"},
        {"\u0301a\u0301", "\u0301\u00e1"}, /* a mark before any letter */
        {"a\u0301\u0301", "\u00e1\u0301"}, /* a second mark of one class is blocked */
        {"\u212b\u2126\uf900", "\u00c5\u03a9\u8c48"},
        {"\u0958\U0001d15e", "\u0915\u093c\U0001d157\U0001d165"}, /* not composed again */
        {"\u0344", "\u0308\u0301"},
        {"\u01d5u\u0308\u0304", "\u01d5\u01d6"}, /* composed in two steps */
        {"\u1100\u1161\u11a8", "\uac01"},
        {"\uac00\u11a8\u11a8", "\uac01\u11a8"},
        {"\uac01\u1161", "\uac01\u1161"},
        {"\u09c7\u09be", "\u09cb"}, /* the second is no combining character */
        {"\U00011099\U000110ba", "\U0001109a"},
        {"\U0002f800", "\u4e3d"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *copy, *again;
        wisp_text normalized, same;
        assert_int_equal(nfc_normalize(wisp_text_of(pairs[i][0]), &copy, &normalized, NULL),
                         WISP_OK);
        assert_int_equal(normalized.length, strlen(pairs[i][1]));
        assert_memory_equal(normalized.bytes, pairs[i][1], normalized.length);
        assert_int_equal(nfc_normalize(normalized, &again, &same, NULL), WISP_OK);
        assert_int_equal(same.length, normalized.length);
        assert_memory_equal(same.bytes, normalized.bytes, same.length);
        free(copy);
        free(again);
    }
    char *copy;
    wisp_text normalized;
    assert_int_equal(nfc_normalize(wisp_text_of("\u00e9"), &copy, &normalized, NULL), WISP_OK);
    assert_null(copy);
}

/* Very many marks out of order: sorting them takes time n log n. */
static void test_nfc_long(void **state) {
    enum { MARKS = 1 << 20 };
    char *text = malloc(2 * MARKS + 1), *copy;
    wisp_text normalized;
    (void)state;
    assert_non_null(text);
    text[0] = 'x';
    for (size_t i = 0; i < MARKS; i++)
        memcpy(text + 1 + 2 * i, i % 2 ? "\u0323" : "\u0301", 2);
    assert_int_equal(nfc_normalize((wisp_text){text, 2 * MARKS + 1}, &copy, &normalized, NULL),
                     WISP_OK);
    assert_int_equal(normalized.length, 2 * MARKS + 1);
    assert_memory_equal(normalized.bytes, "x\u0323\u0323", 5);
    assert_memory_equal(normalized.bytes + 2 * MARKS - 3, "\u0301\u0301", 4);
    free(copy);
    free(text);
}

/* ---- SentencePiece's BPE -------------------------------------------------------------------- */

enum {
    UNK,
    BOS,
    EOS,
    BYTE_0,
    SPACE = BYTE_0 + 256,
    S_H,
    S_E,
    S_L,
    S_O,
    S_HE,
    S_LL,
    S_LLO,
    S_SPACE_HE
};
enum { S_SPACE_HELLO = S_SPACE_HE + 1, S_E_ACUTE, S_ABC, SPM_TOKENS };

static void set_up_spm(struct fixture *f) {
    static const char *const tokens[] = {"\u2581",   "h",           "e",      "l",
                                         "o",        "he",          "ll",     "llo",
                                         "\u2581he", "\u2581hello", "\u00e9", "abc"};
    *f = (struct fixture){.dir.file = "test.gguf"};
    add_token(f, "<unk>", 2);
    add_token(f, "<s>", 3);
    add_token(f, "</s>", 3);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(f->spelled[b], sizeof f->spelled[b], "<0x%02X>", b);
        add_token(f, f->spelled[b], 6);
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        add_token(f, tokens[i], 1);
    assert_int_equal(f->count, SPM_TOKENS);
    put_text(f, "tokenizer.ggml.model", "llama");
    put_vocabulary(f);
    assert_int_equal(directory_put_numbers(&f->dir, "tokenizer.ggml.scores", VALUE_F32, f->scores,
                                           f->count, &f->error),
                     WISP_OK);
    put_u32(f, "tokenizer.ggml.bos_token_id", BOS);
    put_u32(f, "tokenizer.ggml.eos_token_id", EOS);
}

static void test_spm(void **state) {
    struct fixture f;
    (void)state;
    set_up_spm(&f);
    must_open(&f);
    CHECK(&f, "hello", BOS, S_SPACE_HELLO);
    CHECK(&f, "he", BOS, S_SPACE_HE);
    CHECK(&f, "", BOS);
    CHECK(&f, " ", BOS, SPACE, SPACE);
    check_ids(&f, wisp_text_of("hello"), false, (const int32_t[]){S_HE, S_LLO}, 2);
    check_ids(&f, wisp_text_of("lll"), false, (const int32_t[]){S_LL, S_L}, 2);
    check_ids(&f, wisp_text_of("\u2581he"), false, (const int32_t[]){S_SPACE_HE}, 1);
    /* Characters that are no tokens become bytes; "abc" is a token that no pair leads to. */
    check_ids(&f, wisp_text_of("a\u00e9"), false, (const int32_t[]){BYTE_0 + 'a', S_E_ACUTE}, 2);
    check_ids(&f, wisp_text_of("ab"), false, (const int32_t[]){BYTE_0 + 'a', BYTE_0 + 'b'}, 2);
    check_ids(&f, (wisp_text){"\0\xff", 2}, false,
              (const int32_t[]){BYTE_0, BYTE_0 + 0xEF, BYTE_0 + 0xBF, BYTE_0 + 0xBD}, 4);
    check_ids(&f, wisp_text_of("<s>"), false,
              (const int32_t[]){BYTE_0 + '<', BYTE_0 + 's', BYTE_0 + '>'}, 3);
    check_random_round_trips(&f, " ");
    tear_down(&f);
    set_up_spm(&f);
    put_bool(&f, "tokenizer.ggml.add_space_prefix", false);
    put_bool(&f, "tokenizer.ggml.add_bos_token", false);
    must_open(&f);
    CHECK(&f, "hello", S_HE, S_LLO);
    check_random_round_trips(&f, "");
    tear_down(&f);
}

static void test_spm_memory(void **state) {
    struct fixture f;
    (void)state;
    set_up_spm(&f);
    check_memory(&f,
                 "hello abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"
                 "\xff");
    tear_down(&f);
}

/* User-defined tokens are found before pieces merge: their scores would lose against other merges,
 * and no merge leads to some. Each part after one begins with a space, as in llama.cpp. */
static void test_spm_user_defined(void **state) {
    struct fixture f;
    (void)state;
    set_up_spm(&f);
    add_token(&f, "ello", 4);
    add_token(&f, "\u2581\u2581", 4);
    add_token(&f, "<tool>", 4);
    put_again(&f);
    must_open(&f);
    CHECK(&f, "hello", BOS, SPACE, S_H, SPM_TOKENS);
    CHECK(&f, "hellohe", BOS, SPACE, S_H, SPM_TOKENS, S_SPACE_HE);
    CHECK(&f, "  he", BOS, SPM_TOKENS + 1, S_SPACE_HE);
    CHECK(&f, "<tool>", BOS, SPM_TOKENS + 2);
    check_ids(&f, wisp_text_of("he<tool>he"), false,
              (const int32_t[]){S_HE, SPM_TOKENS + 2, S_SPACE_HE}, 3);
    tear_down(&f);
}

/* Flags of user-defined tokens: stripped white space, words of their own, normalised texts. */
static void test_added_flags(void **state) {
    static const int32_t ids[] = {SPM_TOKENS, SPM_TOKENS + 1, SPM_TOKENS + 2};
    static const uint8_t flags[] = {6, 1, 8};
    struct fixture f;
    (void)state;
    set_up_spm(&f);
    add_token(&f, "<strips>", 4);
    add_token(&f, "word", 4);
    add_token(&f, "oo", 4); /* which in a normalised text has a space before it */
    put_again(&f);
    put_array(&f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 3);
    put_array(&f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 3);
    must_open(&f);
    CHECK(&f, "he \n<strips> \t he", BOS, S_SPACE_HE, SPM_TOKENS, S_SPACE_HE);
    CHECK(&f, "word", BOS, SPM_TOKENS + 1);
    CHECK(&f, "hword", BOS, SPACE, S_H, BYTE_0 + 'w', S_O, BYTE_0 + 'r', BYTE_0 + 'd');
    CHECK(&f, "he oo", BOS, S_SPACE_HE, SPM_TOKENS + 2);
    CHECK(&f, "hoo", BOS, SPACE, S_H, S_O, S_O);
    tear_down(&f);
}

/* Merges, where a file has them, count instead of scores. */
static void test_spm_merges(void **state) {
    static const wisp_text merges[] = {{"l o", 3}, {"l l", 3}, {"h e", 3}, {"\u2581 he", 6}};
    struct fixture f;
    (void)state;
    set_up_spm(&f);
    add_token(&f, "lo", 1);
    put_again(&f);
    assert_int_equal(directory_put_texts(&f.dir, "tokenizer.ggml.merges", merges, 4, &f.error),
                     WISP_OK);
    must_open(&f);
    CHECK(&f, "hello", BOS, S_SPACE_HE, S_L, SPM_TOKENS);
    CHECK(&f, "lll", BOS, SPACE, S_LL, S_L);
    CHECK(&f, "abc", BOS, SPACE, BYTE_0 + 'a', BYTE_0 + 'b', BYTE_0 + 'c');
    check_random_round_trips(&f, " ");
    tear_down(&f);
}

/* Control tokens of known names end a text, beside those that the file names. */
static void test_ends(void **state) {
    static const char *const names[] = {"<|im_end|>",      "<|eot_id|>",    "<|eom_id|>",
                                        "<|end_of_text|>", "<|endoftext|>", "<end_of_turn>"};
    enum { NAMES = sizeof names / sizeof *names };
    static const int32_t listed[] = {S_HE, S_LL};
    struct fixture f;
    (void)state;
    set_up_spm(&f);
    for (size_t i = 0; i < NAMES; i++)
        add_token(&f, names[i], 3);
    add_token(&f, "<|im_start|>", 3);
    put_again(&f);
    entry_of(&f, "tokenizer.ggml.eos_token_id")->as.u = S_H;
    put_u32(&f, "tokenizer.ggml.eot_token_id", S_E);
    put_u32(&f, "tokenizer.ggml.eom_token_id", S_L);
    put_array(&f, "wisp.tokenizer.end_tokens", VALUE_I32, listed, 2);
    must_open(&f);
    for (int32_t id = 0; id < (int32_t)codec_vocabulary_size(f.codec); id++) {
        const bool named = id == S_H || id == S_E || id == S_L || id == S_HE || id == S_LL;
        const bool known = id == EOS || (id >= SPM_TOKENS && id < SPM_TOKENS + NAMES);
        assert_int_equal(codec_is_end(f.codec, id), named || known);
    }
    tear_down(&f);
    set_up_spm(&f);
    add_token(&f, "<|im_end|>", 1); /* which texts may be made of */
    put_again(&f);
    must_open(&f);
    assert_false(codec_is_end(f.codec, SPM_TOKENS));
    tear_down(&f);
}

/* ---- SentencePiece's unigram model ---------------------------------------------------------- */

/* The character map: 'a' becomes "A", "ab" becomes nothing. It has the units that charsmap.c
 * describes. */
static void put_charsmap(struct fixture *f) {
    enum { UNITS = 1024, A = 256 ^ 'a', B = 512 ^ 'b', BYTES = 4 + 4 * UNITS + 3 };
    static unsigned char map[BYTES];
    static uint32_t units[UNITS];
    units[0] = 256u << 10;
    units[A] = (A ^ 512u) << 10 | 1u << 8 | 'a';
    units[512] = 1u << 31;
    units[B] = (B ^ 768u) << 10 | 1u << 8 | 'b';
    units[768] = 1u << 31 | 2;
    for (size_t i = 0; i <= UNITS; i++)
        for (size_t b = 0; b < 4; b++)
            map[4 * i + b] = (unsigned char)((i == 0 ? 4 * UNITS : units[i - 1]) >> 8 * b);
    memcpy(map + 4 + 4 * UNITS, "A\0", 3);
    put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, map, BYTES);
}

static void set_up_unigram(struct fixture *f) {
    set_up_spm(f);
    entry_of(f, "tokenizer.ggml.model")->as.text = wisp_text_of("t5");
    put_u32(f, "tokenizer.ggml.unknown_token_id", UNK);
    for (size_t i = 0; i < f->count; i++)
        f->scores[i] = i < SPACE ? 0 : -1 - (float)f->tokens[i].length / 100;
}

static void test_unigram(void **state) {
    struct fixture f;
    (void)state;
    set_up_unigram(&f);
    must_open(&f);
    CHECK(&f, "hello", S_SPACE_HELLO); /* one token costs less than two */
    CHECK(&f, "hellollo", S_SPACE_HELLO, S_LLO);
    CHECK(&f, "lloll", SPACE, S_LLO, S_LL);
    CHECK(&f, "abcab", SPACE, S_ABC, BYTE_0 + 'a', BYTE_0 + 'b');
    CHECK(&f, "\u00e9", SPACE, S_E_ACUTE);
    CHECK(&f, "</s>", SPACE, BYTE_0 + '<', BYTE_0 + '/', BYTE_0 + 's', BYTE_0 + '>');
    check_ids(&f, (wisp_text){NULL, 0}, true, NULL, 0);
    check_random_round_trips(&f, " ");
    tear_down(&f);
    set_up_unigram(&f);
    for (size_t i = 0; i < f.count; i++)
        f.types[i] = f.types[i] == 6 ? 5 : f.types[i];
    must_open(&f);
    CHECK(&f, "hexy\u65e5he", S_SPACE_HE, UNK, S_HE); /* neighbours are one unknown token */
    tear_down(&f);
}

static void test_unigram_settings(void **state) {
    struct fixture f;
    (void)state;
    set_up_unigram(&f);
    put_charsmap(&f);
    put_bool(&f, "tokenizer.ggml.remove_extra_whitespaces", true);
    must_open(&f);
    CHECK(&f, "  he   he ", S_SPACE_HE, S_SPACE_HE);
    CHECK(&f, "abhe", S_SPACE_HE);
    CHECK(&f, "ahe", SPACE, BYTE_0 + 'A', S_HE);
    check_ids(&f, wisp_text_of("   "), true, NULL, 0);
    tear_down(&f);
    set_up_unigram(&f);
    put_text(&f, "wisp.tokenizer.space_prefix", "first");
    put_bool(&f, "wisp.tokenizer.split_spaces", true);
    f.tokens[S_ABC] = wisp_text_of("e\u2581h"); /* which is never found across a space */
    must_open(&f);
    CHECK(&f, " he h", S_SPACE_HE, SPACE, S_H);
    CHECK(&f, "he", S_SPACE_HE);
    tear_down(&f);
}

/* Time is linear in a text's length: were it quadratic, this test would take hours. */
static void test_unigram_long(void **state) {
    enum { LENGTH = 1 << 21 };
    char *text = malloc(LENGTH + 1);
    struct fixture f;
    (void)state;
    assert_non_null(text);
    set_up_unigram(&f);
    must_open(&f);
    text[0] = ' ';
    for (size_t i = 0; i < LENGTH; i++)
        text[i + 1] = "hello"[i % 5];
    check_round_trip(&f, (wisp_text){text + 1, LENGTH}, (wisp_text){text, LENGTH + 1});
    tear_down(&f);
    free(text);
}

static void test_unigram_memory(void **state) {
    struct fixture f;
    (void)state;
    set_up_unigram(&f);
    put_charsmap(&f);
    check_memory(&f,
                 "hello abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"
                 "\xff");
    tear_down(&f);
}

/* ---- malformed metadata --------------------------------------------------------------------- */

static void spoil_model(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.model")->as.text = wisp_text_of("bert");
}

static void spoil_no_tokens(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.tokens")->key = "other";
}

static void spoil_few_types(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.token_type")->count--;
}

static void spoil_type(struct fixture *f) {
    f->types[300 % f->count] = 7;
}

static void spoil_twin(struct fixture *f) {
    f->tokens[262] = f->tokens[261];
}

static void spoil_bos(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.bos_token_id")->as.u = f->count;
}

static void spoil_add_bos(struct fixture *f) {
    put_u32(f, "tokenizer.ggml.add_bos_token", 1);
}

static void spoil_no_pre(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.pre")->key = "other";
}

static void spoil_pre(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.pre")->as.text = wisp_text_of("tekken");
}

static void spoil_prefix(struct fixture *f) {
    put_bool(f, "tokenizer.ggml.add_space_prefix", true);
}

static void spoil_byte_type(struct fixture *f) {
    f->types[HELLO] = 6;
}

static void spoil_byte(struct fixture *f) {
    f->types['q'] = 5;
}

static void spoil_no_merges(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.merges")->key = "other";
}

static void spoil_merges_type(struct fixture *f) {
    *entry_of(f, "tokenizer.ggml.merges") = (struct metadata){.key = "tokenizer.ggml.merges",
                                                              .type = VALUE_ARRAY,
                                                              .element = VALUE_I32,
                                                              .count = f->count,
                                                              .as.numbers = f->types};
}

static void spoil_single(struct fixture *f) {
    f->merges[3] = wisp_text_of("hello");
}

static void spoil_empty(struct fixture *f) {
    f->merges[3] = wisp_text_of("");
}

static void spoil_triple(struct fixture *f) {
    f->merges[3] = wisp_text_of("he l lo");
}

static void spoil_half(struct fixture *f) {
    f->merges[3] = wisp_text_of("he ");
}

static void spoil_first(struct fixture *f) {
    f->merges[3] = wisp_text_of("hx llo");
}

static void spoil_second(struct fixture *f) {
    f->merges[3] = wisp_text_of("he lxo");
}

static void spoil_alphabet(struct fixture *f) {
    f->merges[3] = wisp_text_of("he \u65e5");
}

static void spoil_result(struct fixture *f) {
    f->merges[3] = wisp_text_of("ll he");
}

static void spoil_long(struct fixture *f) {
    static char text[3000];
    memset(text, 'h', sizeof text);
    text[1500] = ' ';
    f->merges[3] = (wisp_text){text, sizeof text};
}

static void spoil_repeated(struct fixture *f) {
    f->merges[3] = f->merges[1];
}

static void spoil_user_defined(struct fixture *f) {
    f->tokens[TOOL_X] = f->tokens[TOOL];
}

static void spoil_long_user_defined(struct fixture *f) {
    static char text[257];
    memset(text, 'x', sizeof text);
    f->tokens[TOOL] = (wisp_text){text, sizeof text};
}

static void spoil_no_scores(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.scores")->key = "other";
}

static void spoil_few_scores(struct fixture *f) {
    entry_of(f, "tokenizer.ggml.scores")->count--;
}

static void spoil_score(struct fixture *f) {
    f->scores[7] = NAN;
}

static void spoil_byte_spelling(struct fixture *f) {
    f->tokens[BYTE_0 + 10] = wisp_text_of("<0x0a>");
}

static void spoil_byte_token(struct fixture *f) {
    f->types[BYTE_0 + 10] = 5;
}

static void spoil_prefix_name(struct fixture *f) {
    put_text(f, "wisp.tokenizer.space_prefix", "last");
}

static void spoil_charsmap_type(struct fixture *f) {
    put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_I32, f->types, 4);
}

static void spoil_charsmap_size(struct fixture *f) {
    put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, "\x08\0\0\0\0\0\0\0", 9);
}

static void spoil_charsmap_end(struct fixture *f) {
    put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, "\x04\0\0\0\0\0\0\0x", 9);
}

static void spoil_charsmap_text(struct fixture *f) {
    static unsigned char map[9 + 300] = {4};
    memset(map + 8, 'x', 300);
    put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, map, sizeof map);
}

static void spoil_ends(struct fixture *f) {
    static const int32_t ids[] = {1, MAX_TOKENS};
    put_array(f, "wisp.tokenizer.end_tokens", VALUE_I32, ids, 2);
}

static void spoil_ends_type(struct fixture *f) {
    put_text(f, "wisp.tokenizer.end_tokens", "1");
}

static void spoil_eom(struct fixture *f) {
    put_u32(f, "tokenizer.ggml.eom_token_id", MAX_TOKENS);
}

static void spoil_flags(struct fixture *f) {
    put_array(f, "wisp.tokenizer.added_tokens", VALUE_I32, f->types, 2);
    put_array(f, "wisp.tokenizer.added_flags", VALUE_U8, "\1\20", 2);
}

static void spoil_few_flags(struct fixture *f) {
    put_array(f, "wisp.tokenizer.added_tokens", VALUE_I32, f->types, 2);
    put_array(f, "wisp.tokenizer.added_flags", VALUE_U8, "\1", 1);
}

static void spoil_added(struct fixture *f) {
    static const int32_t ids[] = {-1};
    put_array(f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 1);
    put_array(f, "wisp.tokenizer.added_flags", VALUE_U8, "\1", 1);
}

static void spoil_all_pieces(struct fixture *f) {
    for (size_t i = 0; i < f->count; i++)
        f->types[i] = f->types[i] == 1 ? 5 : f->types[i];
}

static void spoil_long_piece(struct fixture *f) {
    static char text[257];
    memset(text, 'x', sizeof text);
    f->tokens[S_ABC] = (wisp_text){text, sizeof text};
}

static void spoil_merge(struct fixture *f) {
    static const wisp_text merges[] = {{"h l", 3}};
    assert_int_equal(directory_put_texts(&f->dir, "tokenizer.ggml.merges", merges, 1, &f->error),
                     WISP_OK);
}

struct fault {
    void (*spoil)(struct fixture *f);
    wisp_status status;
    const char *field, *says;
};

static void check_fault(struct fixture *f, const struct fault *fault) {
    fault->spoil(f);
    const wisp_status status = open_codec(f);
    assert_int_equal(status, fault->status);
    assert_null(f->codec);
    assert_string_equal(f->error.file, "test.gguf");
    assert_string_equal(f->error.field, fault->field);
    if (!strstr(f->error.message, fault->says))
        fail_msg("\"%s\" does not say \"%s\"", f->error.message, fault->says);
    assert_int_equal(codec_open(&f->dir, &f->codec, NULL), fault->status);
    tear_down(f);
}

static void test_malformed(void **state) {
    static const char tokens[] = "tokenizer.ggml.tokens", merges[] = "tokenizer.ggml.merges";
    static const char types[] = "tokenizer.ggml.token_type", scores[] = "tokenizer.ggml.scores";
    static const char map[] = "tokenizer.ggml.precompiled_charsmap";
    static const struct fault both[] = {
        {spoil_model, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.model", "\"bert\""},
        {spoil_no_tokens, WISP_ERROR_NOT_FOUND, tokens, "missing"},
        {spoil_few_types, WISP_ERROR_FORMAT, types, "one for each"},
        {spoil_type, WISP_ERROR_FORMAT, types, "entry "},
        {spoil_twin, WISP_ERROR_FORMAT, tokens, "262"},
        {spoil_bos, WISP_ERROR_FORMAT, "tokenizer.ggml.bos_token_id", "id "},
        {spoil_add_bos, WISP_ERROR_FORMAT, "tokenizer.ggml.add_bos_token", ""},
        {spoil_ends, WISP_ERROR_FORMAT, "wisp.tokenizer.end_tokens", "entry 1"},
        {spoil_ends_type, WISP_ERROR_FORMAT, "wisp.tokenizer.end_tokens", "array"},
        {spoil_eom, WISP_ERROR_FORMAT, "tokenizer.ggml.eom_token_id", "id "},
        {spoil_flags, WISP_ERROR_FORMAT, "wisp.tokenizer.added_flags", "entry 1"},
        {spoil_few_flags, WISP_ERROR_FORMAT, "wisp.tokenizer.added_flags", "one for each"},
        {spoil_added, WISP_ERROR_FORMAT, "wisp.tokenizer.added_tokens", "entry 0"},
    };
    static const struct fault bpe[] = {
        {spoil_no_pre, WISP_ERROR_NOT_FOUND, "tokenizer.ggml.pre", ""},
        {spoil_pre, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.pre", "\"tekken\""},
        {spoil_prefix, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.add_space_prefix", "space"},
        {spoil_byte_type, WISP_ERROR_FORMAT, tokens, "token 259"},
        {spoil_byte, WISP_ERROR_FORMAT, tokens, "byte 113"},
        {spoil_no_merges, WISP_ERROR_NOT_FOUND, merges, "missing"},
        {spoil_merges_type, WISP_ERROR_FORMAT, merges, "strings"},
        {spoil_single, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_empty, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_triple, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_half, WISP_ERROR_FORMAT, merges, "entry 3 is not a pair"},
        {spoil_first, WISP_ERROR_FORMAT, merges, "first part of entry 3"},
        {spoil_second, WISP_ERROR_FORMAT, merges, "second part of entry 3"},
        {spoil_alphabet, WISP_ERROR_FORMAT, merges, "second part of entry 3"},
        {spoil_long, WISP_ERROR_FORMAT, merges, "first part of entry 3"},
        {spoil_result, WISP_ERROR_FORMAT, merges, "entry 3 make no token"},
        {spoil_repeated, WISP_ERROR_FORMAT, merges, "entry 3 repeats"},
        {spoil_user_defined, WISP_ERROR_FORMAT, tokens, "stands there twice"},
        {spoil_long_user_defined, WISP_ERROR_UNSUPPORTED, tokens, "token 269"},
    };
    static const struct fault spm[] = {
        {spoil_no_scores, WISP_ERROR_NOT_FOUND, scores, "floats"},
        {spoil_few_scores, WISP_ERROR_FORMAT, scores, "floats"},
        {spoil_score, WISP_ERROR_FORMAT, scores, "score 7"},
        {spoil_byte_spelling, WISP_ERROR_FORMAT, tokens, "byte token 13"},
        {spoil_byte_token, WISP_ERROR_FORMAT, tokens, "byte 10"},
        {spoil_prefix_name, WISP_ERROR_UNSUPPORTED, "wisp.tokenizer.space_prefix", "last"},
        {spoil_charsmap_type, WISP_ERROR_FORMAT, map, "bytes"},
        {spoil_charsmap_size, WISP_ERROR_FORMAT, map, "8 bytes of a trie"},
        {spoil_charsmap_end, WISP_ERROR_FORMAT, map, "end with a 0"},
        {spoil_charsmap_text, WISP_ERROR_UNSUPPORTED, map, "replacement of 300 bytes"},
        {spoil_merge, WISP_ERROR_FORMAT, merges, "entry 0 make no token"},
    };
    static const struct fault unigram[] = {
        {spoil_no_scores, WISP_ERROR_NOT_FOUND, scores, "floats"},
        {spoil_twin, WISP_ERROR_FORMAT, tokens, "piece 26"},
        {spoil_all_pieces, WISP_ERROR_FORMAT, tokens, "0 pieces"},
        {spoil_long_piece, WISP_ERROR_UNSUPPORTED, tokens, "longer than 256"},
        {spoil_prefix_name, WISP_ERROR_UNSUPPORTED, "wisp.tokenizer.space_prefix", "last"},
    };
    struct fixture f;
    (void)state;
    for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
        set_up_bpe(&f, "gpt-2");
        check_fault(&f, &both[i]);
        set_up_spm(&f);
        check_fault(&f, &both[i]);
    }
    for (size_t i = 0; i < sizeof bpe / sizeof *bpe; i++) {
        set_up_bpe(&f, "llama-bpe");
        check_fault(&f, &bpe[i]);
    }
    for (size_t i = 0; i < sizeof spm / sizeof *spm; i++) {
        set_up_spm(&f);
        check_fault(&f, &spm[i]);
    }
    for (size_t i = 0; i < sizeof unigram / sizeof *unigram; i++) {
        set_up_unigram(&f);
        check_fault(&f, &unigram[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_merges),
        cmocka_unit_test(test_bpe_models),
        cmocka_unit_test(test_bpe_added_tokens),
        cmocka_unit_test(test_bpe_ill_formed),
        cmocka_unit_test(test_bpe_long_words),
        cmocka_unit_test(test_bpe_memory),
        cmocka_unit_test(test_pretokenizers),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_nfc_long),
        cmocka_unit_test(test_spm),
        cmocka_unit_test(test_spm_memory),
        cmocka_unit_test(test_spm_user_defined),
        cmocka_unit_test(test_added_flags),
        cmocka_unit_test(test_spm_merges),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_unigram_settings),
        cmocka_unit_test(test_unigram_long),
        cmocka_unit_test(test_unigram_memory),
        cmocka_unit_test(test_malformed),
    };
    return cmocka_run_group_tests_name("codecs", tests, NULL, NULL);
}
