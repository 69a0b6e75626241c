/* SPDX-License-Identifier: Apache-2.0
 * GGUF files with one fault each in the keys of the tokenizer, numbered as in opening.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef fail /* base/status.h has another */

#include "formats/directory.h"
#include "support/malformed_gguf.h"

static const char TOKENS[] = "tokenizer.ggml.tokens", TYPES[] = "tokenizer.ggml.token_type";

static void set_tokenizer_model(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_set_text(file, "tokenizer.ggml.model", "rwkv");
}

static void set_tokens_of_numbers(struct gguf *file, uint64_t value) {
    int32_t numbers[TINY_TOKENS] = {(int32_t)value};
    gguf_set_i32s(file, TOKENS, numbers, TINY_TOKENS);
}

static void set_types_of_texts(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_set_texts(file, TYPES, tiny_tokens, TINY_TOKENS);
}

static void set_types_element(struct gguf *file, uint64_t element) {
    static const unsigned char raw[12 + 8 * TINY_TOKENS];
    gguf_set(file, TYPES, VALUE_ARRAY, raw,
             12 + value_type_bytes((enum value_type)element) * TINY_TOKENS);
    bytes_set_u32(&gguf_key(file, TYPES)->value, 0, (uint32_t)element);
    bytes_set_u64(&gguf_key(file, TYPES)->value, 4, TINY_TOKENS);
}

static void set_types_length(struct gguf *file, uint64_t count) {
    static const int32_t types[TINY_TOKENS + 1] = {1};
    gguf_set_i32s(file, TYPES, types, (size_t)count);
}

static void set_one_type(struct gguf *file, uint64_t type) {
    bytes_set_u32(&gguf_key(file, TYPES)->value, 12 + 4 * 7, (uint32_t)type);
}

static void drop_tokens(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_drop_key(file, TOKENS);
}

static void empty_tokens(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_set_texts(file, TOKENS, NULL, 0);
}

/* Token 7 becomes these bytes, up to the first zero byte after the first byte. */
static void set_token(struct gguf *file, const char *text, size_t length) {
    struct bytes raw = {0};
    bytes_put_u32(&raw, VALUE_STRING);
    bytes_put_u64(&raw, TINY_TOKENS);
    for (size_t i = 0; i < TINY_TOKENS; i++) {
        const char *token = i == 7 ? text : tiny_tokens[i];
        const size_t size = i == 7 ? length : strlen(token);
        bytes_put_u64(&raw, size);
        bytes_put(&raw, token, size);
    }
    gguf_set(file, TOKENS, VALUE_ARRAY, raw.data, raw.size);
    bytes_release(&raw);
}

static void set_token_bytes(struct gguf *file, uint64_t value) {
    char bytes[8];
    size_t length = 0;
    for (uint64_t left = value; length == 0 || left; left >>= 8)
        bytes[length++] = (char)(left & 0xFF);
    set_token(file, bytes, length);
}

static void set_long_token(struct gguf *file, uint64_t value) {
    char *text = malloc((size_t)value);
    assert_non_null(text);
    memset(text, 'x', (size_t)value);
    set_token(file, text, (size_t)value);
    free(text);
}

static void set_same_token(struct gguf *file, uint64_t value) {
    (void)value;
    set_token(file, tiny_tokens[5], strlen(tiny_tokens[5]));
}

static void set_unknown_id(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "tokenizer.ggml.unknown_token_id", (uint32_t)value);
}

static void drop_unknown_id(struct gguf *file, uint64_t value) {
    (void)value;
    gguf_drop_key(file, "tokenizer.ggml.unknown_token_id");
}

static void set_mask_id(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "tokenizer.ggml.mask_token_id", (uint32_t)value);
}

static void set_added_id(struct gguf *file, uint64_t value) {
    const int32_t ids[TINY_SPECIAL] = {0, 1, 2, 3, (int32_t)value};
    gguf_set_i32s(file, "wisp.tokenizer.added_tokens", ids, TINY_SPECIAL);
}

static void set_added_flag(struct gguf *file, uint64_t value) {
    const int32_t flags[TINY_SPECIAL] = {0, 0, 0, 0, (int32_t)value};
    gguf_set_i32s(file, "wisp.tokenizer.added_flags", flags, TINY_SPECIAL);
}

static void set_added_flags_length(struct gguf *file, uint64_t count) {
    static const int32_t flags[TINY_SPECIAL + 1] = {0};
    gguf_set_i32s(file, "wisp.tokenizer.added_flags", flags, (size_t)count);
}

static void set_continuation(struct gguf *file, uint64_t value) {
    const int32_t id = (int32_t)value;
    gguf_set_i32s(file, "wisp.tokenizer.continuations", &id, 1);
}

static void set_word_limit(struct gguf *file, uint64_t value) {
    gguf_set_u32(file, "wisp.tokenizer.max_input_chars_per_word", (uint32_t)value);
}

static const struct malformed cases[] = {
    {"30: no tokens", drop_tokens, 0, NOT_FOUND, TOKENS, "missing"},
    {"30: an empty array of tokens", empty_tokens, 0, FORMAT, TOKENS, "no tokens"},
    {"30: tokens that are numbers", set_tokens_of_numbers, 0, FORMAT, TOKENS, "strings"},
    {"30: token types that are strings", set_types_of_texts, 0, FORMAT, TYPES, "32 integers"},
    {"30: token types of type f32", set_types_element, VALUE_F32, FORMAT, TYPES, NULL},
    {"30: token types of type u64", set_types_element, VALUE_U64, FORMAT, TYPES, NULL},
    {"30: a token type too few", set_types_length, TINY_TOKENS - 1, FORMAT, TYPES, "32 integers"},
    {"30: a token type too many", set_types_length, TINY_TOKENS + 1, FORMAT, TYPES, NULL},
    {"30: no token types", set_types_length, 0, FORMAT, TYPES, NULL},
    {"30: token type 0", set_one_type, 0, FORMAT, TYPES, "entry 7"},
    {"30: token type 7", set_one_type, 7, FORMAT, TYPES, "entry 7"},
    {"30: token type -1", set_one_type, UINT32_MAX, FORMAT, TYPES, "entry 7"},
    {"30: a tokenizer of another kind", set_tokenizer_model, 0, UNSUPPORTED, "tokenizer.ggml.model",
     "rwkv"},
    {"30: flags for fewer added tokens", set_added_flags_length, TINY_SPECIAL - 1, FORMAT,
     "wisp.tokenizer.added_flags", NULL},
    {"30: flags for more added tokens", set_added_flags_length, TINY_SPECIAL + 1, FORMAT,
     "wisp.tokenizer.added_flags", NULL},
    {"30: unknown flags", set_added_flag, 16, FORMAT, "wisp.tokenizer.added_flags", NULL},
    {"30: a token twice", set_same_token, 0, FORMAT, TOKENS, "twice"},
    {"30: a token of 513 bytes", set_long_token, 513, UNSUPPORTED, TOKENS, NULL},
    {"30: words of 2^31 characters", set_word_limit, TWO_TO_THE(31), UNSUPPORTED,
     "wisp.tokenizer.max_input_chars_per_word", "2147483648"},
    {"31: a byte token", set_one_type, 6, UNSUPPORTED, TYPES, "byte tokens"},
    {"31: an id past the vocabulary", set_unknown_id, TINY_TOKENS, FORMAT,
     "tokenizer.ggml.unknown_token_id", "32"},
    {"31: id -1", set_mask_id, UINT32_MAX, FORMAT, "tokenizer.ggml.mask_token_id", "4294967295"},
    {"31: no id of the unknown token", drop_unknown_id, 0, NOT_FOUND,
     "tokenizer.ggml.unknown_token_id", "missing"},
    {"31: an added token past the vocabulary", set_added_id, TINY_TOKENS, FORMAT,
     "wisp.tokenizer.added_tokens", NULL},
    {"31: added token -1", set_added_id, UINT32_MAX, FORMAT, "wisp.tokenizer.added_tokens", NULL},
    {"31: an added token twice", set_added_id, 3, FORMAT, "wisp.tokenizer.added_tokens", NULL},
    {"31: a continuation past the vocabulary", set_continuation, TINY_TOKENS, FORMAT,
     "wisp.tokenizer.continuations", NULL},
    {"32: a token of a stray byte", set_token_bytes, 0x80, FORMAT, TOKENS, "entry 7"},
    {"32: a token of half a character", set_token_bytes, 0xA9E2, FORMAT, TOKENS, "entry 7"},
    {"32: an overlong character", set_token_bytes, 0x80C0, FORMAT, TOKENS, "entry 7"},
    {"32: a surrogate", set_token_bytes, 0x80A0ED, FORMAT, TOKENS, "entry 7"},
    {"32: a token with a NUL", set_token_bytes, 0x780078, FORMAT, TOKENS, "entry 7"},
    {"32: a token that is NUL", set_token_bytes, 0, FORMAT, TOKENS, "entry 7"},
};

int main(void) {
    return run_malformed("the tokenizer of a GGUF file", cases, sizeof cases / sizeof *cases);
}
