/* SPDX-License-Identifier: Apache-2.0
 * Tokenizer metadata with faults: each is a typed error that names the key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/tokenizer_fixture.h"
#include "tokenizers/added_tokens.h"
#include "tokenizers/bert_tokenizer_parts.h"

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

/* ---- malformed metadata --------------------------------------------------------------------- */

static const int32_t LARGE_ID[] = {N_PIECES}, NEGATIVE_ID[] = {-1}, MASK_ID[] = {MASK};
static const int32_t FOO_IDS[] = {FOO, FOO};
static const uint8_t UNKNOWN_FLAG[] = {16}, TWO_FLAGS[] = {0, 0};
static const float FLOATS[N_PIECES];

static void put_nothing(struct fixture *f) {
    f->dir.n_metadata = 0;
}

static void put_other_model(struct fixture *f) {
    f->dir.metadata[0].as.text = wisp_text_of("gpt2");
}

static void put_model_number(struct fixture *f) {
    f->dir.metadata[0].type = VALUE_U32;
}

static void put_no_tokens(struct fixture *f) {
    f->dir.metadata[1].key = "other";
}

static void put_empty_tokens(struct fixture *f) {
    f->dir.metadata[1].count = 0;
}

static void put_token_numbers(struct fixture *f) {
    f->dir.metadata[1].element = VALUE_I32;
}

static void put_token_string(struct fixture *f) {
    f->dir.metadata[1].type = VALUE_STRING;
    f->dir.metadata[1].as.text = wisp_text_of("");
}

static void put_short_types(struct fixture *f) {
    f->dir.metadata[2].count--;
}

static void put_float_types(struct fixture *f) {
    f->dir.metadata[2].element = VALUE_F32;
    f->dir.metadata[2].as.numbers = FLOATS;
}

static void put_type_zero(struct fixture *f) {
    f->types[FOO] = 0;
}

static void put_type_byte(struct fixture *f) {
    f->types[FOO] = 6;
}

static void put_type_seven(struct fixture *f) {
    f->types[FOO] = 7;
}

static void put_nul(struct fixture *f) {
    f->tokens[FOO] = (wisp_text){"a\0b", 3};
}

static void put_bad_utf8(struct fixture *f) {
    f->tokens[FOO] = wisp_text_of("\xff");
}

static void put_twin(struct fixture *f) {
    f->tokens[FOO] = f->tokens[BAR];
}

static void put_long_piece(struct fixture *f) {
    static char bytes[PIECE_MAX_BYTES + 1];
    memset(bytes, 'a', sizeof bytes);
    f->tokens[FOO] = (wisp_text){bytes, sizeof bytes};
}

static void put_no_unknown(struct fixture *f) {
    f->dir.metadata[3].key = "other";
}

static void put_no_cls(struct fixture *f) {
    f->dir.metadata[4].key = "other";
}

static void put_no_separator(struct fixture *f) {
    f->dir.metadata[5].key = "other";
}

static void put_large_cls(struct fixture *f) {
    f->dir.metadata[4].as.u = N_PIECES;
}

static void put_negative_cls(struct fixture *f) {
    f->dir.metadata[4].type = VALUE_I32;
    f->dir.metadata[4].as.i = -1;
}

static void put_large_mask(struct fixture *f) {
    put_u32(f, "tokenizer.ggml.mask_token_id", UINT32_MAX);
}

static void put_clean_number(struct fixture *f) {
    put_u32(f, "wisp.tokenizer.clean_text", 1);
}

static void put_long_words(struct fixture *f) {
    put_u32(f, "wisp.tokenizer.max_input_chars_per_word", 1001);
}

static void put_large_added(struct fixture *f) {
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, LARGE_ID, 1);
}

static void put_negative_added(struct fixture *f) {
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, NEGATIVE_ID, 1);
}

static void put_added_number(struct fixture *f) {
    put_u32(f, "wisp.tokenizer.added_tokens", MASK);
}

static void put_added_twice(struct fixture *f) {
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, FOO_IDS, 2);
}

static void put_too_many_flags(struct fixture *f) {
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, MASK_ID, 1);
    put_numbers(f, "wisp.tokenizer.added_flags", VALUE_U8, TWO_FLAGS, 2);
}

static void put_unknown_flags(struct fixture *f) {
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, MASK_ID, 1);
    put_numbers(f, "wisp.tokenizer.added_flags", VALUE_U8, UNKNOWN_FLAG, 1);
}

static void put_vanishing_token(struct fixture *f) {
    static const int32_t ids[] = {NEW};
    static const uint8_t flags[] = {NORMALIZED};
    f->tokens[NEW] = wisp_text_of("\u2581\u0301");
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 1);
    put_numbers(f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 1);
}

static void put_blank_token(struct fixture *f) {
    static const int32_t ids[] = {NEW};
    static const uint8_t flags[] = {LSTRIP};
    f->tokens[NEW] = wisp_text_of("\u2581 \t");
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 1);
    put_numbers(f, "wisp.tokenizer.added_flags", VALUE_U8, flags, 1);
}

static void put_long_added(struct fixture *f) {
    static const int32_t ids[] = {NEW};
    static char bytes[257];
    memset(bytes, '-', sizeof bytes);
    f->tokens[NEW] = (wisp_text){bytes, sizeof bytes};
    f->types[NEW] = 3;
    put_u32(f, "wisp.tokenizer.model_tokens", NEW);
    put_numbers(f, "wisp.tokenizer.added_tokens", VALUE_I32, ids, 1);
}

static void put_large_continuation(struct fixture *f) {
    put_numbers(f, "wisp.tokenizer.continuations", VALUE_I32, LARGE_ID, 1);
}

static void put_float_continuations(struct fixture *f) {
    put_numbers(f, "wisp.tokenizer.continuations", VALUE_F32, FLOATS, 1);
}

static void test_malformed_metadata(void **state) {
    static const struct {
        void (*spoil)(struct fixture *f);
        wisp_status status;
        const char *field;
    } faults[] = {
        {put_nothing, WISP_ERROR_NOT_FOUND, "tokenizer.ggml.model"},
        {put_other_model, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.model"},
        {put_model_number, WISP_ERROR_FORMAT, "tokenizer.ggml.model"},
        {put_no_tokens, WISP_ERROR_NOT_FOUND, "tokenizer.ggml.tokens"},
        {put_empty_tokens, WISP_ERROR_FORMAT, "tokenizer.ggml.tokens"},
        {put_token_numbers, WISP_ERROR_FORMAT, "tokenizer.ggml.tokens"},
        {put_token_string, WISP_ERROR_FORMAT, "tokenizer.ggml.tokens"},
        {put_nul, WISP_ERROR_FORMAT, "tokenizer.ggml.tokens"},
        {put_bad_utf8, WISP_ERROR_FORMAT, "tokenizer.ggml.tokens"},
        {put_twin, WISP_ERROR_FORMAT, "tokenizer.ggml.tokens"},
        {put_long_piece, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.tokens"},
        {put_short_types, WISP_ERROR_FORMAT, "tokenizer.ggml.token_type"},
        {put_float_types, WISP_ERROR_FORMAT, "tokenizer.ggml.token_type"},
        {put_type_zero, WISP_ERROR_FORMAT, "tokenizer.ggml.token_type"},
        {put_type_seven, WISP_ERROR_FORMAT, "tokenizer.ggml.token_type"},
        {put_type_byte, WISP_ERROR_UNSUPPORTED, "tokenizer.ggml.token_type"},
        {put_no_unknown, WISP_ERROR_NOT_FOUND, "tokenizer.ggml.unknown_token_id"},
        {put_no_cls, WISP_ERROR_NOT_FOUND, "tokenizer.ggml.cls_token_id"},
        {put_no_separator, WISP_ERROR_NOT_FOUND, "tokenizer.ggml.seperator_token_id"},
        {put_large_cls, WISP_ERROR_FORMAT, "tokenizer.ggml.cls_token_id"},
        {put_negative_cls, WISP_ERROR_FORMAT, "tokenizer.ggml.cls_token_id"},
        {put_large_mask, WISP_ERROR_FORMAT, "tokenizer.ggml.mask_token_id"},
        {put_clean_number, WISP_ERROR_FORMAT, "wisp.tokenizer.clean_text"},
        {put_long_words, WISP_ERROR_UNSUPPORTED, "wisp.tokenizer.max_input_chars_per_word"},
        {put_large_added, WISP_ERROR_FORMAT, "wisp.tokenizer.added_tokens"},
        {put_negative_added, WISP_ERROR_FORMAT, "wisp.tokenizer.added_tokens"},
        {put_added_number, WISP_ERROR_FORMAT, "wisp.tokenizer.added_tokens"},
        {put_added_twice, WISP_ERROR_FORMAT, "wisp.tokenizer.added_tokens"},
        {put_vanishing_token, WISP_ERROR_FORMAT, "wisp.tokenizer.added_tokens"},
        {put_long_added, WISP_ERROR_UNSUPPORTED, "wisp.tokenizer.added_tokens"},
        {put_too_many_flags, WISP_ERROR_FORMAT, "wisp.tokenizer.added_flags"},
        {put_unknown_flags, WISP_ERROR_FORMAT, "wisp.tokenizer.added_flags"},
        {put_blank_token, WISP_ERROR_UNSUPPORTED, "wisp.tokenizer.added_flags"},
        {put_large_continuation, WISP_ERROR_FORMAT, "wisp.tokenizer.continuations"},
        {put_float_continuations, WISP_ERROR_FORMAT, "wisp.tokenizer.continuations"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct fixture f;
        setup_complete(&f);
        faults[i].spoil(&f);
        assert_int_equal(open_tokenizer(&f), faults[i].status);
        assert_null(f.tokenizer);
        assert_int_equal(f.error.status, faults[i].status);
        assert_string_equal(f.error.file, "test.gguf");
        assert_string_equal(f.error.field, faults[i].field);
        assert_int_equal(bert_tokenizer_open(&f.dir, &f.tokenizer, NULL), faults[i].status);
        teardown(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_malformed_metadata),
    };
    return cmocka_run_group_tests_name("tokenizer metadata", tests, NULL, NULL);
}
