/* SPDX-License-Identifier: Apache-2.0 */
#include "support/tokenizer_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

/* The spellings of llama.cpp. The constants above are their ids. */
static const char *const PIECES[N_PIECES] = {"[PAD]",
                                             "[UNK]",
                                             "[CLS]",
                                             "[SEP]",
                                             "[MASK]",
                                             "\u2581foo",
                                             "ing",
                                             "\u2581bar",
                                             "\u2581a",
                                             "a",
                                             "\u2581i",
                                             "\u2581k",
                                             "\u2581\u00e9",
                                             "\u2581\u03c3",
                                             "\u03c2",
                                             "\u2581\u65e5",
                                             "\u2581\u65e5\u65e5",
                                             "\u03c4",
                                             "b",
                                             "\u2581,",
                                             "\u2581[",
                                             "\u1b44",
                                             "\u302e",
                                             "new"};
void put_u32(struct fixture *f, const char *key, uint32_t value) {
    assert_int_equal(directory_put_u32(&f->dir, key, value, &f->error), WISP_OK);
}

void put_bool(struct fixture *f, const char *key, bool value) {
    assert_int_equal(directory_put_bool(&f->dir, key, value, &f->error), WISP_OK);
}

void put_numbers(struct fixture *f, const char *key, enum value_type type, const void *numbers,
                 uint64_t count) {
    assert_int_equal(directory_put_numbers(&f->dir, key, type, numbers, count, &f->error), WISP_OK);
}

void setup(struct fixture *f) {
    *f = (struct fixture){.n_tokens = N_PIECES, .n_types = N_PIECES};
    f->dir.file = "test.gguf";
    for (size_t i = 0; i < N_PIECES; i++) {
        f->tokens[i] = wisp_text_of(PIECES[i]);
        f->types[i] = i <= MASK ? 3 : 1;
    }
}

void put_tokens(struct fixture *f) {
    assert_int_equal(
        directory_put_text(&f->dir, "tokenizer.ggml.model", wisp_text_of("bert"), &f->error),
        WISP_OK);
    assert_int_equal(
        directory_put_texts(&f->dir, "tokenizer.ggml.tokens", f->tokens, f->n_tokens, &f->error),
        WISP_OK);
    put_numbers(f, "tokenizer.ggml.token_type", VALUE_I32, f->types, f->n_types);
}

void put_ids(struct fixture *f) {
    put_u32(f, "tokenizer.ggml.unknown_token_id", UNK);
    put_u32(f, "tokenizer.ggml.cls_token_id", CLS);
    put_u32(f, "tokenizer.ggml.seperator_token_id", SEP);
}

void setup_complete(struct fixture *f) {
    setup(f);
    put_tokens(f);
    put_ids(f);
}

wisp_status open_tokenizer(struct fixture *f) {
    assert_int_equal(directory_finish(&f->dir, &f->error), WISP_OK);
    return bert_tokenizer_open(&f->dir, &f->tokenizer, &f->error);
}

void must_open(struct fixture *f) {
    if (open_tokenizer(f) != WISP_OK)
        assert_string_equal(f->error.message, "");
}

void teardown(struct fixture *f) {
    bert_tokenizer_close(f->tokenizer);
    directory_release(&f->dir);
}

void check_bytes(const struct fixture *f, const char *text, size_t length, const int32_t *ids,
                 size_t count) {
    int32_t found[MAX_IDS];
    bool truncated;
    const size_t n =
        bert_tokenizer_encode(f->tokenizer, (wisp_text){text, length}, MAX_IDS, found, &truncated);
    assert_false(truncated);
    assert_int_equal(n, count + 2);
    assert_int_equal(found[0], CLS);
    assert_int_equal(found[n - 1], SEP);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(found[i + 1], ids[i]);
}

void setup_added(struct fixture *f, const int32_t *ids, const uint8_t *flags, size_t count) {
    setup_complete(f);
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, count);
    put_numbers(f, "wisp.tokenizer.added_flags", VALUE_U8, flags, count);
}
