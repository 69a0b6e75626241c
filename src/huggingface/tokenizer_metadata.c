/* SPDX-License-Identifier: Apache-2.0
 * A tokenizer's vocabulary and settings under GGUF's keys. */
#include "huggingface/tokenizer.h"

#include <string.h>

#include "formats/schema.h"

static const char WORD_START[] = "\xE2\x96\x81"; /* U+2581 */
enum { WORD_START_LENGTH = 3 };

static void *allocate(const struct reading *r, size_t count, size_t bytes) {
    return arena_allocate(&r->dir->arena, count * bytes);
}

static bool starts_with(wisp_text text, const char *start, size_t length) {
    return text.length >= length && memcmp(text.bytes, start, length) == 0;
}

static bool is_bracketed(const char *text, size_t length) {
    return length >= 2 && text[0] == '[' && text[length - 1] == ']';
}

/* Spells a token as llama.cpp does: control tokens as they are, others without "##" if they
 * continue a word and with U+2581 if they start one. Sets *unclear if a token that continues
 * a word could be taken for one that starts one. */
static wisp_status spell(struct reading *r, size_t id, wisp_text *stored, bool *unclear) {
    const wisp_text token = r->tokens[id];
    *unclear = false;
    *stored = token;
    if (r->types[id] == TOKEN_CONTROL)
        return WISP_OK;
    if (starts_with(token, HF_CONTINUATION_PREFIX, 2)) {
        *stored = (wisp_text){token.bytes + 2, token.length - 2};
        *unclear = starts_with(*stored, WORD_START, WORD_START_LENGTH) ||
                   is_bracketed(stored->bytes, stored->length);
        return WISP_OK;
    }
    char *text = allocate(r, token.length + WORD_START_LENGTH + 1, 1);
    if (!text)
        return fail_memory(r->error, token.length);
    memcpy(text, WORD_START, WORD_START_LENGTH);
    memcpy(text + WORD_START_LENGTH, token.bytes, token.length);
    *stored = (wisp_text){text, token.length + WORD_START_LENGTH};
    return WISP_OK;
}

static wisp_status put_tokens(struct reading *r) {
    wisp_text *stored = allocate(r, r->count, sizeof *stored);
    int32_t *unclear = allocate(r, r->count, sizeof *unclear);
    size_t n_unclear = 0;
    if (!stored || !unclear)
        return fail_memory(r->error, r->count * sizeof *stored);
    for (size_t i = 0; i < r->count; i++) {
        bool is_unclear;
        TRY(spell(r, i, &stored[i], &is_unclear));
        if (is_unclear)
            unclear[n_unclear++] = (int32_t)i;
    }
    TRY(directory_put_texts(r->dir, "tokenizer.ggml.tokens", stored, r->count, r->error));
    TRY(directory_put_numbers(r->dir, "tokenizer.ggml.token_type", VALUE_I32, r->types, r->count,
                              r->error));
    if (n_unclear == 0)
        return WISP_OK;
    return directory_put_numbers(r->dir, KEY_TOKENIZER_CONTINUATIONS, VALUE_I32, unclear, n_unclear,
                                 r->error);
}

static wisp_status put_ids(struct reading *r) {
    static const char *const keys[ROLES] = {[ROLE_UNKNOWN] = "tokenizer.ggml.unknown_token_id",
                                            [ROLE_CLS] = "tokenizer.ggml.cls_token_id",
                                            [ROLE_SEPARATOR] = "tokenizer.ggml.seperator_token_id",
                                            [ROLE_PADDING] = "tokenizer.ggml.padding_token_id",
                                            [ROLE_MASK] = "tokenizer.ggml.mask_token_id"};
    for (size_t i = 0; i < ROLES; i++)
        if (r->ids[i] >= 0)
            TRY(directory_put_u32(r->dir, keys[i], (uint32_t)r->ids[i], r->error));
    return WISP_OK;
}

/* Adds the settings of the normalizer. A Lowercase before BertNormalizer gives what its own
 * lower-casing gives for every code point (tests/oracle/tokenizer.py compares them), but only the
 * latter also strips accents. */
static wisp_status put_settings(struct reading *r) {
    const bool strip = r->strip_accents_given ? r->strip_accents : r->lowercase;
    const bool lowercase = r->lowercase || r->lowercase_first;
    TRY(directory_put_bool(r->dir, KEY_TOKENIZER_CLEAN_TEXT, r->clean_text, r->error));
    TRY(directory_put_bool(r->dir, KEY_TOKENIZER_HANDLE_CHINESE_CHARS, r->handle_chinese_chars,
                           r->error));
    TRY(directory_put_bool(r->dir, KEY_TOKENIZER_STRIP_ACCENTS, strip, r->error));
    TRY(directory_put_bool(r->dir, KEY_TOKENIZER_LOWERCASE, lowercase, r->error));
    TRY(directory_put_u32(r->dir, KEY_TOKENIZER_MAX_INPUT_CHARS_PER_WORD, r->word_limit, r->error));
    if (r->model_count < r->count)
        TRY(directory_put_u32(r->dir, KEY_TOKENIZER_MODEL_TOKENS, (uint32_t)r->model_count,
                              r->error));
    TRY(directory_put_numbers(r->dir, KEY_TOKENIZER_ADDED_TOKENS, VALUE_I32, r->added,
                              r->added_count, r->error));
    return directory_put_numbers(r->dir, KEY_TOKENIZER_ADDED_FLAGS, VALUE_U8, r->flags,
                                 r->added_count, r->error);
}

wisp_status hf_put_tokenizer(struct reading *r) {
    TRY(directory_put_text(r->dir, "tokenizer.ggml.model", wisp_text_of("bert"), r->error));
    TRY(put_tokens(r));
    TRY(put_ids(r));
    return put_settings(r);
}
