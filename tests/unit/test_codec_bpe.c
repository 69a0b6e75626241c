/* SPDX-License-Identifier: Apache-2.0
 * Byte-level BPE on a small vocabulary, and its parts: pre-tokenizers, classes of characters, NFC.
 * tests/oracle/codecs.py compares larger ones with Hugging Face's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "support/codec_fixture.h"
#include "text/nfc.h"
#include "text/unicode_classes.h"
#include "tokenizers/pattern.h"
#include "tokenizers/pattern_compile.h"
#include "tokenizers/pretokenize.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

static void open_bpe(struct codec_fixture *f, const char *pre) {
    fixture_of_bpe(f, pre);
    fixture_must_open(f);
}

static void test_bpe_merges(void **state) {
    struct codec_fixture f;
    (void)state;
    open_bpe(&f, "gpt-2");
    assert_int_equal(codec_vocabulary_size(f.codec), BPE_TOKENS);
    assert_true(codec_is_end(f.codec, END) && !codec_is_end(f.codec, HE));
    check_codec_ids(&f, (wisp_text){NULL, 0}, true, NULL, 0);
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
    fixture_tear_down(&f);
}

static void test_bpe_models(void **state) {
    struct codec_fixture f;
    (void)state;
    open_bpe(&f, "llama-bpe");
    CHECK(&f, "abc", END, ABC); /* merges are ignored if the word is a token */
    CHECK(&f, "xabc", END, 'x', 'a', BC);
    CHECK(&f, "1234512", END, N123, '4', '5', '1', '2');
    check_codec_ids(&f, wisp_text_of("ab"), false, (const int32_t[]){AB}, 1);
    fixture_tear_down(&f);
    open_bpe(&f, "qwen2");
    CHECK(&f, "abc", 'a', BC);
    CHECK(&f, "12", '1', '2');
    CHECK(&f, "e\u0301", E_ACUTE);
    fixture_tear_down(&f);
    fixture_of_bpe(&f, "gpt-2");
    fixture_put_bool(&f, "tokenizer.ggml.add_bos_token", true);
    fixture_must_open(&f);
    CHECK(&f, "ab", END, AB);
    fixture_tear_down(&f);
    fixture_of_bpe(&f, "llama-bpe");
    fixture_put_bool(&f, "tokenizer.ggml.add_bos_token", false);
    fixture_must_open(&f);
    CHECK(&f, "ab", AB);
    fixture_tear_down(&f);
}

static void test_bpe_added_tokens(void **state) {
    struct codec_fixture f;
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
    fixture_tear_down(&f);
}

static void test_bpe_ill_formed(void **state) {
    struct codec_fixture f;
    (void)state;
    open_bpe(&f, "llama-bpe");
    CHECK(&f, "\xff", END, 0xEF, 0xBF, 0xBD);
    CHECK(&f, "he\xe2\x82", END, HE, 0xEF, 0xBF, 0xBD);
    check_random_round_trips(&f, "");
    fixture_tear_down(&f);
    open_bpe(&f, "gpt-2");
    check_random_round_trips(&f, "");
    fixture_tear_down(&f);
}

/* Long words take time n log n; were it n^2, this test would take hours. */
static void test_bpe_long_words(void **state) {
    enum { LENGTH = 1 << 20 };
    char *text = malloc(LENGTH);
    struct codec_fixture f;
    (void)state;
    assert_non_null(text);
    for (const char *c = "lab "; *c; c++) {
        for (size_t i = 0; i < LENGTH; i++)
            text[i] = i % 2 && *c == 'a' ? 'b' : *c;
        open_bpe(&f, *c == 'l' ? "qwen2" : "llama-bpe");
        check_round_trip(&f, (wisp_text){text, LENGTH}, (wisp_text){text, LENGTH});
        fixture_tear_down(&f);
    }
    free(text);
}

static void test_bpe_memory(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_bpe(&f, "qwen2");
    check_codec_memory(
        &f, "hellox e\u0301 \xff<tool>abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"
            "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc");
    fixture_tear_down(&f);
}

/* ---- the parts of byte-level BPE ------------------------------------------------------------ */

/* A text with a bar at every place where it is cut. */
struct cuts {
    char text[1024];
    size_t used;
};

static wisp_status add_cut(void *context, const char *bytes, size_t length, wisp_error *error) {
    struct cuts *cuts = context;
    (void)error;
    assert_in_range(length, 1, sizeof cuts->text - cuts->used - 2);
    if (cuts->used > 0)
        cuts->text[cuts->used++] = '|';
    memcpy(cuts->text + cuts->used, bytes, length);
    cuts->used += length;
    return WISP_OK;
}

/* Each text has a bar at every place where it is cut. */
static void check_cuts(const char *name, const char *const *texts) {
    const struct pretokenizer *p = pretokenizer_find(name);
    struct arena arena = {0};
    struct cutter cutter = {0};
    assert_non_null(p);
    assert_int_equal(cutter_open(&cutter, &arena, p, NULL), WISP_OK);
    for (; *texts; texts++) {
        char plain[512];
        size_t length = 0;
        struct cuts cuts = {.used = 0};
        for (const char *c = *texts; *c; c++)
            if (*c != '|')
                plain[length++] = *c;
        assert_int_equal(cutter_each(&cutter, (wisp_text){plain, length}, add_cut, &cuts, NULL),
                         WISP_OK);
        cuts.text[cuts.used] = 0;
        assert_string_equal(cuts.text, *texts);
    }
    arena_release(&arena);
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
    assert_null(pretokenizer_find("gpt-2 phi-2"));
    assert_null(pretokenizer_find(""));
}

/* Cuts that distinguish the patterns of other models. */
static void test_patterns(void **state) {
    static const struct {
        const char *name, *texts[4];
    } cuts[] = {
        {"smollm", {"a|  |1|2|b| |3", "x| '|s| y|\u00bd", "  |1"}},
        {"gpt-4o", {"camel|Case|HTTPServer's| x", "123|4|a|!?\n/|b", "\u00c9t\u00e9e\u0301| A"}},
        {"tekken", {"1|2|a|'s| B|.\n\n|c", "ABc|De"}},
        {"qwen35", {"e\u0301x| |1|2", "\u0301a|'Ll|!\n"}},
        {"deepseek-v3", {"123|4|\u65e5\u672c|.word| $|x", " \u00e9\u0301|\n|a"}},
        {"deepseek-llm", {"a| b|\n|  |1|2|\uff01\uff01| |\u65e5|  ", "x|  | y|   "}},
        {"deepseek-coder", {" a|\r|\n| .,|1|2|\u65e5"}},
        {"falcon", {"a|123|4| b|...|x|$", " |((| 12"}},
        {"bloom", {"Hi|,| there|!?| x", " (|a|)"}},
        {"superbpe", {"a b |1|234|567| c|12"}},
        {"tiny_aya", {"1|234|567| x|123|4|ab|.|12|345"}},
        {"kimi-k2", {"\u65e5\u672c|Abc|DEf's|123|4| ,"}},
        {"jais-2", {"a|    |  | b|\n\n| "}},
        {"exaone-moe", {"a b c|1|2| d e|.\n|\n|x"}},
        {"bailingmoe", {"I|'ll| x|\n\n|..\n\n|1|2"}},
        {"seed-coder", {"..|\n\n|a"}},
        {"chameleon", {"<|sentinel|:|1|2|>|a|IMGIMGABCZ|    |\n|1|!|!|  "}},
        {"afmoe", {"a|12|345|\u65e5\u672c|.x"}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        check_cuts(cuts[i].name, cuts[i].texts);
}

static const char *const PRE_NAMES[] = {
    "kimi-k2",
    "default",
    "minicpm5",
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
    "deepseek-llm",
    "deepseek-coder",
    "deepseek-v3",
    "spark2_5",
    "youtu",
    "falcon",
    "mpt",
    "starcoder",
    "gpt-2",
    "phi-2",
    "jina-es",
    "jina-de",
    "gigachat",
    "jina-v2-es",
    "jina-v2-de",
    "a.x-4.0",
    "mellum",
    "modern-bert",
    "jais-2",
    "jina-v1-en",
    "jina-v2-code",
    "roberta-bpe",
    "refact",
    "command-r",
    "qwen2",
    "deepseek-r1-qwen",
    "kormo",
    "f2llmv2",
    "qwen35",
    "stablelm2",
    "olmo",
    "dbrx",
    "smaug-bpe",
    "poro-chat",
    "chatglm-bpe",
    "glm4",
    "glm5",
    "viking",
    "jais",
    "tekken",
    "smollm",
    "codeshell",
    "bloom",
    "gpt3-finnish",
    "exaone",
    "exaone4",
    "exaone-moe",
    "chameleon",
    "minerva-7b",
    "megrez",
    "gpt-4o",
    "llama4",
    "kanana2",
    "talkie",
    "granite-embed-multi-97m",
    "tiny_aya",
    "cohere2moe",
    "superbpe",
    "trillion",
    "granite-docling",
    "bailingmoe",
    "bailingmoe2",
    "llada-moe",
    "seed-coder",
    "hunyuan",
    "hunyuan-dense",
    "hy_v4",
    "joyai-llm",
    "ufakzeka",
    "grok-2",
    "afmoe",
    "laguna",
    "minimax-m2",
    "solar-open",
    "mellum2",
};

enum { PRE_COUNT = sizeof PRE_NAMES / sizeof *PRE_NAMES };

static wisp_status count_bytes(void *context, const char *bytes, size_t length, wisp_error *error) {
    size_t *total = context;
    (void)bytes;
    (void)error;
    assert_true(length > 0);
    *total += length;
    return WISP_OK;
}

/* Every pattern that llama.cpp has a name for compiles, loses nothing of a text, and takes linear
 * time: if it were quadratic, this test would take hours. */
static void test_all_patterns(void **state) {
    static const char *const units[] = {" ",      "a",  "A",  "1", "\n", "\u65e5", " \t",
                                        "\u0301", "Ab", "1 ", "'", "/",  "!"};
    enum { LENGTH = 1 << 17 };
    char *text = malloc(LENGTH + 4);
    (void)state;
    assert_non_null(text);
    for (size_t n = 0; n < PRE_COUNT; n++) {
        const struct pretokenizer *p = pretokenizer_find(PRE_NAMES[n]);
        struct arena arena = {0};
        struct cutter cutter = {0};
        wisp_error error;
        assert_non_null(p);
        if (cutter_open(&cutter, &arena, p, &error) != WISP_OK)
            fail_msg("%s: %s", PRE_NAMES[n], error.message);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            const size_t unit = strlen(units[u]);
            size_t length = 0, total = 0;
            for (; length + unit <= LENGTH; length += unit)
                memcpy(text + length, units[u], unit);
            text[length++] = 'x';
            assert_int_equal(
                cutter_each(&cutter, (wisp_text){text, length}, count_bytes, &total, NULL),
                WISP_OK);
            assert_int_equal(total, length);
        }
        arena_release(&arena);
    }
    free(text);
}

/* The functions that stand for common expressions find what the expressions match. */
static void test_fast_patterns(void **state) {
    static const char *const pieces[] = {"'s", "'LL",    "'\u017f", "a", "B",      "\u00e9",
                                         "1",  "\u0663", "\u00bd",  " ", "  ",     "\t",
                                         "\n", "\r",     "\u3000",  ".", "\u65e5", "\u0301"};
    static const char *const names[] = {"gpt-2", "llama-bpe", "qwen2"};
    struct arena arena = {0};
    uint32_t random = 1;
    (void)state;
    for (size_t n = 0; n < 3; n++) {
        const struct pretokenizer *p = pretokenizer_find(names[n]);
        struct cutter cutter = {0};
        const char *refused;
        const struct pattern *pattern = pattern_compile(&arena, p->regexes[0], &refused);
        assert_non_null(pattern);
        assert_int_equal(cutter_open(&cutter, &arena, p, NULL), WISP_OK);
        for (int i = 0; i < 20000; i++) {
            char text[128];
            const char *end = text, *fast;
            for (int k = 0; k < 12; k++) {
                random = random * 1664525 + 1013904223;
                const char *piece = pieces[(random >> 16) % (sizeof pieces / sizeof *pieces)];
                memcpy(text + (end - text), piece, strlen(piece));
                end += strlen(piece);
            }
            assert_ptr_equal(cutter.step[0].find(&cutter.step[0], text, end, &fast), text);
            assert_ptr_equal(pattern_match(pattern, text, end), fast);
        }
    }
    arena_release(&arena);
}

static void test_malformed_patterns(void **state) {
    static const char *const regexes[] = {"[a",    "a)",  "(a", "(?<=a)", "a+?",
                                          "[b-a]", "\\q", "a{", "\\p{X}", "[a\\"};
    struct arena arena = {0};
    (void)state;
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++) {
        const char *refused = NULL;
        assert_null(pattern_compile(&arena, regexes[i], &refused));
        assert_non_null(refused);
    }
    arena_release(&arena);
}

/* Bytes without tokens are dropped before others merge, as Hugging Face tokenizers do it. */
static void test_dropped_bytes(void **state) {
    struct codec_fixture f;
    (void)state;
    fixture_of_bpe(&f, "gpt-2");
    f.types['q'] = 5; /* no text is made of it */
    fixture_must_open(&f);
    CHECK(&f, "hqe", HE);
    CHECK(&f, "qhelloq", HELLO);
    check_codec_ids(&f, wisp_text_of("qqq"), true, NULL, 0);
    fixture_tear_down(&f);
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
        {"\u09c7\u09be", "\u09cb"}, /* the second is not a combining character */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_merges),
        cmocka_unit_test(test_bpe_models),
        cmocka_unit_test(test_bpe_added_tokens),
        cmocka_unit_test(test_bpe_ill_formed),
        cmocka_unit_test(test_bpe_long_words),
        cmocka_unit_test(test_bpe_memory),
        cmocka_unit_test(test_pretokenizers),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_all_patterns),
        cmocka_unit_test(test_fast_patterns),
        cmocka_unit_test(test_malformed_patterns),
        cmocka_unit_test(test_dropped_bytes),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_nfc),
        cmocka_unit_test(test_nfc_long),
    };
    return cmocka_run_group_tests_name("byte-level BPE", tests, NULL, NULL);
}
