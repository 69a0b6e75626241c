/* SPDX-License-Identifier: Apache-2.0 */
#include "support/codec_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "support/allocations.h"
#include "support/rng.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

void fixture_add_token(struct codec_fixture *f, const char *text, int32_t type) {
    assert_true(f->count < MAX_TOKENS);
    f->types[f->count] = type;
    f->scores[f->count] = -(float)f->count;
    f->tokens[f->count++] = wisp_text_of(text);
}

void fixture_put_text(struct codec_fixture *f, const char *key, const char *value) {
    assert_int_equal(directory_put_text(&f->dir, key, wisp_text_of(value), &f->error), WISP_OK);
}

void fixture_put_u32(struct codec_fixture *f, const char *key, uint32_t value) {
    assert_int_equal(directory_put_u32(&f->dir, key, value, &f->error), WISP_OK);
}

void fixture_put_bool(struct codec_fixture *f, const char *key, bool value) {
    assert_int_equal(directory_put_bool(&f->dir, key, value, &f->error), WISP_OK);
}

struct metadata *fixture_entry(struct codec_fixture *f, const char *key) {
    for (size_t i = 0; i < f->dir.n_metadata; i++)
        if (strcmp(f->dir.metadata[i].key, key) == 0)
            return &f->dir.metadata[i];
    fail_msg("no metadata of the key %s", key);
    return NULL;
}

static void put_vocabulary(struct codec_fixture *f) {
    assert_int_equal(
        directory_put_texts(&f->dir, "tokenizer.ggml.tokens", f->tokens, f->count, &f->error),
        WISP_OK);
    assert_int_equal(directory_put_numbers(&f->dir, "tokenizer.ggml.token_type", VALUE_I32,
                                           f->types, f->count, &f->error),
                     WISP_OK);
}

void fixture_put_again(struct codec_fixture *f) {
    fixture_entry(f, "tokenizer.ggml.tokens")->count = f->count;
    fixture_entry(f, "tokenizer.ggml.token_type")->count = f->count;
    fixture_entry(f, "tokenizer.ggml.scores")->count = f->count;
}

void fixture_put_array(struct codec_fixture *f, const char *key, enum value_type type,
                       const void *values, size_t count) {
    assert_int_equal(directory_put_numbers(&f->dir, key, type, values, count, &f->error), WISP_OK);
}

wisp_status fixture_open(struct codec_fixture *f) {
    assert_int_equal(directory_finish(&f->dir, &f->error), WISP_OK);
    return codec_open(&f->dir, &f->codec, &f->error);
}

void fixture_must_open(struct codec_fixture *f) {
    if (fixture_open(f) != WISP_OK)
        fail_msg("%s", f->error.message);
    memset(f->tokens, 0, sizeof f->tokens);
    memset(f->merges, 0, sizeof f->merges);
    directory_release(&f->dir);
}

void fixture_tear_down(struct codec_fixture *f) {
    codec_close(f->codec);
    directory_release(&f->dir);
}

void check_codec_ids(const struct codec_fixture *f, wisp_text text, bool begins, const int32_t *ids,
                     size_t count) {
    struct token_list list = {0};
    assert_int_equal(codec_encode(f->codec, text, begins, &list, NULL), WISP_OK);
    assert_int_equal(list.count, count);
    if (count > 0)
        assert_memory_equal(list.ids, ids, count * sizeof *ids);
    free(list.ids);
}

void check_round_trip(const struct codec_fixture *f, wisp_text text, wisp_text expected) {
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

void check_random_round_trips(const struct codec_fixture *f, const char *prefix) {
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

void check_codec_memory(struct codec_fixture *f, const char *text) {
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
        struct token_list list = {.ids = kept, .count = 3, .capacity = 3};
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

/* ---- vocabularies ---------------------------------------------------------------------------- */

#define G "\u0120" /* how byte-level BPE spells a space */

static void add_merge(struct codec_fixture *f, const char *pair) {
    assert_true(f->n_merges < MAX_MERGES);
    f->merges[f->n_merges++] = wisp_text_of(pair);
}

void fixture_of_bpe(struct codec_fixture *f, const char *pre) {
    static const char *const tokens[] = {"he",  "ll",   "llo",         "hello", G "hello",
                                         G G,   "bc",   "ab",          "abc",   "12",
                                         "123", "1234", "\u00c3\u00a9"};
    static const char *const merges[] = {"h e",   "l l",   "ll o",         "he llo", G " hello",
                                         G " " G, "b c",   "a b",          "ab c",   "1 2",
                                         "12 3",  "123 4", "\u00c3 \u00a9"};
    uint32_t others = 0x100;
    *f = (struct codec_fixture){.dir.file = "test.gguf"};
    for (uint32_t b = 0; b < 256; b++) {
        const bool printable = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
        f->spelled[b][utf8_encode(printable ? b : others++, f->spelled[b])] = 0;
        fixture_add_token(f, f->spelled[b], 1);
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        fixture_add_token(f, tokens[i], 1);
    fixture_add_token(f, "<tool>", 4);
    fixture_add_token(f, "<tool>x", 4);
    fixture_add_token(f, "   ", 4);
    fixture_add_token(f, "<|end|>", 3);
    fixture_add_token(f, "[PAD]", 5);
    fixture_add_token(f, "\u65e5 \u672c", 1); /* outside the alphabet of bytes */
    assert_int_equal(f->count, BPE_TOKENS);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        add_merge(f, merges[i]);
    fixture_put_text(f, "tokenizer.ggml.model", "gpt2");
    fixture_put_text(f, "tokenizer.ggml.pre", pre);
    put_vocabulary(f);
    assert_int_equal(
        directory_put_texts(&f->dir, "tokenizer.ggml.merges", f->merges, f->n_merges, &f->error),
        WISP_OK);
    fixture_put_u32(f, "tokenizer.ggml.bos_token_id", END);
    fixture_put_u32(f, "tokenizer.ggml.eos_token_id", END);
}

void fixture_of_spm(struct codec_fixture *f) {
    static const char *const tokens[] = {"\u2581",   "h",           "e",      "l",
                                         "o",        "he",          "ll",     "llo",
                                         "\u2581he", "\u2581hello", "\u00e9", "abc"};
    *f = (struct codec_fixture){.dir.file = "test.gguf"};
    fixture_add_token(f, "<unk>", 2);
    fixture_add_token(f, "<s>", 3);
    fixture_add_token(f, "</s>", 3);
    for (unsigned b = 0; b < 256; b++) {
        snprintf(f->spelled[b], sizeof f->spelled[b], "<0x%02X>", b);
        fixture_add_token(f, f->spelled[b], 6);
    }
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        fixture_add_token(f, tokens[i], 1);
    assert_int_equal(f->count, SPM_TOKENS);
    fixture_put_text(f, "tokenizer.ggml.model", "llama");
    put_vocabulary(f);
    assert_int_equal(directory_put_numbers(&f->dir, "tokenizer.ggml.scores", VALUE_F32, f->scores,
                                           f->count, &f->error),
                     WISP_OK);
    fixture_put_u32(f, "tokenizer.ggml.bos_token_id", BOS);
    fixture_put_u32(f, "tokenizer.ggml.eos_token_id", EOS);
}

void fixture_of_unigram(struct codec_fixture *f) {
    fixture_of_spm(f);
    fixture_entry(f, "tokenizer.ggml.model")->as.text = wisp_text_of("t5");
    fixture_put_u32(f, "tokenizer.ggml.unknown_token_id", UNK);
    for (size_t i = 0; i < f->count; i++)
        f->scores[i] = i < SPACE ? 0 : -1 - (float)f->tokens[i].length / 100;
}

void fixture_put_charsmap(struct codec_fixture *f, const char *text) {
    enum { UNITS = 1024, A = 256 ^ 'a', B = 512 ^ 'b', ROOM = 4 + 4 * UNITS + 32 };
    static unsigned char map[ROOM];
    static uint32_t units[UNITS];
    const size_t length = strlen(text), bytes = 4 + 4 * UNITS + length + 2;
    assert_true(bytes <= ROOM);
    units[0] = 256u << 10;
    units[A] = (A ^ 512u) << 10 | 1u << 8 | 'a';
    units[512] = 1u << 31;
    units[B] = (B ^ 768u) << 10 | 1u << 8 | 'b';
    units[768] = 1u << 31 | (uint32_t)(length + 1);
    for (size_t i = 0; i <= UNITS; i++)
        for (size_t b = 0; b < 4; b++)
            map[4 * i + b] = (unsigned char)((i == 0 ? 4 * UNITS : units[i - 1]) >> 8 * b);
    memset(map + 4 + 4 * UNITS, 0, length + 2);
    memcpy(map + 4 + 4 * UNITS, text, length);
    fixture_put_array(f, "tokenizer.ggml.precompiled_charsmap", VALUE_U8, map, bytes);
}
