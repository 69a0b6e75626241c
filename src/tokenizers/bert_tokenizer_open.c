/* SPDX-License-Identifier: Apache-2.0
 * Builds a tokenizer from metadata. Keys under tokenizer.ggml are those llama.cpp writes for BERT
 * models.
 * Compiled for size in WebAssembly. */
#include <stdlib.h>

#include "base/utf8.h"
#include "formats/schema.h"
#include "formats/tokens.h"
#include "text/unicode.h"
#include "tokenizers/bert_tokenizer.h"
#include "tokenizers/bert_tokenizer_parts.h"

static const char TOKENS[] = KEY_GGML_TOKENS;
static const char TOKEN_TYPE[] = "tokenizer.ggml.token_type";

/* vocab.txt marks pieces that continue a word with "##"; llama.cpp instead marks those that start
 * one with U+2581. */
static const char WORD_START[] = "\xE2\x96\x81", CONTINUATION[] = "##";
enum { WORD_START_LENGTH = 3, CONTINUATION_LENGTH = 2 };

/* A token as vocab.txt would spell it. */
struct token {
    wisp_text text;
    enum token_type type;
    bool continuation; /* the file lists it as one that does not start a word */
};

/* A tokenizer while it is being built. */
struct builder {
    struct bert_tokenizer *tokenizer;
    const struct directory *dir;
    struct arena scratch;
    struct token *tokens;
    size_t count;
    uint32_t model_tokens; /* ids from here on are added tokens, not WordPieces */
    bool typed;            /* the file has token types */
    wisp_error *error;
};

static wisp_status malformed(const struct builder *b, const char *key, const char *what,
                             uint64_t place) {
    return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, key, "%s (entry %llu)", what,
                (unsigned long long)place);
}

static void *scratch(struct builder *b, size_t count, size_t bytes) {
    return count > SIZE_MAX / bytes ? NULL : arena_allocate(&b->scratch, count * bytes);
}

/* ---- tokens --------------------------------------------------------------------------------- */

static bool is_text(wisp_text text) {
    uint32_t code_point;
    for (size_t i = 0; i < text.length;) {
        i += utf8_decode(text.bytes + i, text.length - i, &code_point);
        if (code_point == UTF8_INVALID || code_point == 0)
            return false;
    }
    return true;
}

static bool starts_with(wisp_text text, const char *start, size_t length) {
    return text.length >= length && memcmp(text.bytes, start, length) == 0;
}

static bool is_bracketed(wisp_text text) {
    return text.length >= 2 && text.bytes[0] == '[' && text.bytes[text.length - 1] == ']';
}

/* Spells a token as vocab.txt does. llama.cpp's older versions kept the spelling of all "[...]",
 * newer ones keep that of control tokens only; if this leaves it open which token continues a
 * word, files that wisp writes list it (read_continuations). */
static wisp_status respell(struct builder *b, wisp_text stored, struct token *token) {
    if (token->type != TOKEN_CONTROL && !token->continuation &&
        starts_with(stored, WORD_START, WORD_START_LENGTH)) {
        token->text =
            (wisp_text){stored.bytes + WORD_START_LENGTH, stored.length - WORD_START_LENGTH};
        return WISP_OK;
    }
    if (token->type == TOKEN_CONTROL || (is_bracketed(stored) && !token->continuation)) {
        token->text = stored;
        return WISP_OK;
    }
    char *text = scratch(b, stored.length + CONTINUATION_LENGTH, 1);
    if (!text)
        return fail_memory(b->error, stored.length);
    memcpy(text, CONTINUATION, CONTINUATION_LENGTH);
    if (stored.length)
        memcpy(text + CONTINUATION_LENGTH, stored.bytes, stored.length);
    token->text = (wisp_text){text, stored.length + CONTINUATION_LENGTH};
    return WISP_OK;
}

static wisp_status read_types(struct builder *b) {
    const struct metadata *types = directory_find_metadata(b->dir, TOKEN_TYPE);
    int64_t type;
    for (size_t i = 0; i < b->count; i++)
        b->tokens[i].type = TOKEN_NORMAL;
    if (!types)
        return WISP_OK;
    b->typed = true;
    if (!metadata_is_integers(types) || types->count != b->count)
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, TOKEN_TYPE,
                    "not an array of %zu integers, one for each token", b->count);
    for (size_t i = 0; i < b->count; i++) {
        if (!metadata_array_i64(types, i, &type) || type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return malformed(b, TOKEN_TYPE, "not a token type from 1 to 6", i);
        if (type == TOKEN_BYTE)
            return fail(b->error, WISP_ERROR_UNSUPPORTED, b->dir->file, TOKEN_TYPE,
                        "byte tokens are not supported in a WordPiece vocabulary (entry %zu)", i);
        b->tokens[i].type = (enum token_type)type;
    }
    return WISP_OK;
}

static wisp_status read_continuations(struct builder *b) {
    const struct metadata *ids = directory_find_metadata(b->dir, KEY_TOKENIZER_CONTINUATIONS);
    int64_t id;
    if (!ids)
        return WISP_OK;
    if (!metadata_is_integers(ids))
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, KEY_TOKENIZER_CONTINUATIONS,
                    "not an array of token ids");
    for (uint64_t i = 0; i < ids->count; i++) {
        if (!metadata_array_i64(ids, i, &id) || id < 0 || (uint64_t)id >= b->count)
            return malformed(b, KEY_TOKENIZER_CONTINUATIONS, "not the id of a token", i);
        b->tokens[id].continuation = true;
    }
    return WISP_OK;
}

static wisp_status read_tokens(struct builder *b) {
    const struct metadata *texts = directory_find_metadata(b->dir, TOKENS);
    if (!texts)
        return fail(b->error, WISP_ERROR_NOT_FOUND, b->dir->file, TOKENS,
                    "the metadata key is missing");
    if (texts->type != VALUE_ARRAY || texts->element != VALUE_STRING)
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, TOKENS, "not an array of strings");
    if (texts->count == 0)
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, TOKENS, "no tokens");
    if (texts->count > INT32_MAX / 2)
        return fail(b->error, WISP_ERROR_UNSUPPORTED, b->dir->file, TOKENS, "too many tokens");
    b->count = (size_t)texts->count;
    b->tokens = scratch(b, b->count, sizeof *b->tokens);
    if (!b->tokens)
        return fail_memory(b->error, b->count * sizeof *b->tokens);
    TRY(read_types(b));
    TRY(read_continuations(b));
    for (size_t i = 0; i < b->count; i++) {
        if (!is_text(texts->as.texts[i]))
            return malformed(b, TOKENS, "a token that is not valid UTF-8 text", i);
        TRY(respell(b, texts->as.texts[i], &b->tokens[i]));
    }
    return WISP_OK;
}

/* ---- special ids ---------------------------------------------------------------------------- */

/* Reads the id under a key. */
static wisp_status read_key(struct builder *b, const char *key, int32_t *id) {
    uint32_t value;
    TRY(metadata_u32(b->dir, key, &value, b->error));
    if (value >= b->count)
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, key,
                    "id %lu, but there are %zu tokens", (unsigned long)value, b->count);
    *id = (int32_t)value;
    return WISP_OK;
}

/* Reads the id under the first of `keys` (a list that ends with NULL) that the file has; -1 if
 * it has none. */
static wisp_status read_id(struct builder *b, const char *const *keys, int32_t *id) {
    *id = -1;
    for (; *keys && *id < 0; keys++)
        if (directory_find_metadata(b->dir, *keys))
            TRY(read_key(b, *keys, id));
    return WISP_OK;
}

static wisp_status require_id(struct builder *b, const char *const *keys, int32_t *id) {
    TRY(read_id(b, keys, id));
    if (*id < 0)
        return fail(b->error, WISP_ERROR_NOT_FOUND, b->dir->file, keys[0],
                    "the metadata key is missing");
    return WISP_OK;
}

/* The ids of special tokens by role; -1 if there is none. */
struct special_ids {
    int32_t unknown, cls, separator, padding, mask;
};

static wisp_status read_special_ids(struct builder *b, struct special_ids *ids) {
    /* "seperator" is how llama.cpp spells it. */
    static const char *const unknown[] = {"tokenizer.ggml.unknown_token_id", NULL};
    static const char *const cls[] = {"tokenizer.ggml.cls_token_id", "tokenizer.ggml.bos_token_id",
                                      NULL};
    static const char *const separator[] = {"tokenizer.ggml.seperator_token_id",
                                            "tokenizer.ggml.separator_token_id",
                                            "tokenizer.ggml.eos_token_id", NULL};
    static const char *const padding[] = {"tokenizer.ggml.padding_token_id", NULL};
    static const char *const mask[] = {"tokenizer.ggml.mask_token_id", NULL};
    TRY(require_id(b, unknown, &ids->unknown));
    TRY(require_id(b, cls, &ids->cls));
    TRY(require_id(b, separator, &ids->separator));
    TRY(read_id(b, padding, &ids->padding));
    TRY(read_id(b, mask, &ids->mask));
    b->tokenizer->unknown = ids->unknown;
    b->tokenizer->cls = ids->cls;
    b->tokenizer->separator = ids->separator;
    return WISP_OK;
}

/* ---- settings ------------------------------------------------------------------------------- */

/* Reads a setting that llama.cpp and wisp each have a key for. If a file has both, they must
 * agree. */
static wisp_status read_shared_bool(struct builder *b, const char *ggml, const char *own,
                                    bool *value) {
    TRY(metadata_bool_or(b->dir, ggml, value, b->error));
    const bool given = *value;
    TRY(metadata_bool_or(b->dir, own, value, b->error));
    if (*value != given && directory_find_metadata(b->dir, ggml))
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, own, "%s, but %s is %s",
                    *value ? "true" : "false", ggml, given ? "true" : "false");
    return WISP_OK;
}

static wisp_status read_settings(struct builder *b) {
    const struct directory *dir = b->dir;
    struct bert_tokenizer *t = b->tokenizer;
    struct normalizer *n = &t->normalizer;
    const char *word_limit = KEY_TOKENIZER_MAX_INPUT_CHARS_PER_WORD;
    *n = (struct normalizer){.clean_text = true, .handle_chinese_chars = true, .lowercase = true};
    t->max_word_characters = 100;
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_CLEAN_TEXT, &n->clean_text, b->error));
    TRY(metadata_bool_or(dir, KEY_TOKENIZER_HANDLE_CHINESE_CHARS, &n->handle_chinese_chars,
                         b->error));
    TRY(read_shared_bool(b, KEY_GGML_LOWERCASE, KEY_TOKENIZER_LOWERCASE, &n->lowercase));
    n->strip_accents = n->lowercase;
    TRY(read_shared_bool(b, KEY_GGML_STRIP_ACCENTS, KEY_TOKENIZER_STRIP_ACCENTS,
                         &n->strip_accents));
    TRY(metadata_u32_or(dir, word_limit, &t->max_word_characters, b->error));
    if (t->max_word_characters > WORD_MAX_CHARACTERS)
        return fail(b->error, WISP_ERROR_UNSUPPORTED, dir->file, word_limit,
                    "words of up to %lu characters, but %d are supported",
                    (unsigned long)t->max_word_characters, WORD_MAX_CHARACTERS);
    /* Tokens that were added to a vocabulary follow it, and are not pieces of words. */
    b->model_tokens = (uint32_t)b->count;
    while (b->model_tokens > 0 && b->tokens[b->model_tokens - 1].type != TOKEN_NORMAL)
        b->model_tokens--;
    return metadata_u32_or(dir, KEY_TOKENIZER_MODEL_TOKENS, &b->model_tokens, b->error);
}

static wisp_status check_model(struct builder *b) {
    const char *model;
    TRY(metadata_text(b->dir, "tokenizer.ggml.model", &model, b->error));
    if (strcmp(model, "bert") != 0)
        return fail(b->error, WISP_ERROR_UNSUPPORTED, b->dir->file, "tokenizer.ggml.model",
                    "tokenizers of type \"%.40s\" are not supported, only \"bert\"", model);
    return WISP_OK;
}

/* ---- the vocabulary ------------------------------------------------------------------------- */

static wisp_status build_vocabulary(struct builder *b) {
    struct piece *pieces = scratch(b, b->count, sizeof *pieces);
    if (!pieces)
        return fail_memory(b->error, b->count * sizeof *pieces);
    for (size_t i = 0; i < b->count; i++) {
        const struct token *token = &b->tokens[i];
        const bool goes_on = starts_with(token->text, CONTINUATION, CONTINUATION_LENGTH);
        const size_t skipped = goes_on ? CONTINUATION_LENGTH : 0;
        pieces[i] = (struct piece){token->text.bytes + skipped, token->text.length - skipped,
                                   goes_on ? PIECE_CONTINUATION : PIECE_INITIAL};
        if (token->type == TOKEN_UNUSED || i >= b->model_tokens)
            pieces[i].kind = PIECE_UNUSED;
    }
    return wordpiece_build(&b->tokenizer->vocabulary, &b->tokenizer->arena, pieces, b->count,
                           b->dir->file, TOKENS, b->error);
}

/* ---- added tokens --------------------------------------------------------------------------- */

/* The sink for the text of an added token. */
struct collected {
    struct arena *arena;
    char *bytes;
    size_t characters, length;
};

static void collect(void *context, uint32_t code_point) {
    struct collected *text = context;
    if (text->characters++ < ADDED_MAX_LENGTH)
        text->length += utf8_encode(code_point, text->bytes + text->length);
}

/* Copies the text of an added token into the tokenizer's arena, normalised if the token is
 * matched in normalised text. */
static wisp_status keep_text(struct builder *b, wisp_text source, unsigned flags, wisp_text *kept) {
    static const struct added_tokens none = {0};
    struct bert_tokenizer *t = b->tokenizer;
    char bytes[4 * ADDED_MAX_LENGTH];
    struct collected text = {&t->arena, bytes, 0, 0};
    const struct sink sink = {collect, &text};
    struct segment segment = segment_of(source, &none);
    for (uint32_t c; (c = segment_next(&segment)) != READER_NONE;) {
        if (flags & ADDED_NORMALIZED)
            normalize(&t->normalizer, &segment, c, &sink);
        else
            collect(&text, c);
    }
    if (text.characters > ADDED_MAX_LENGTH)
        return fail(b->error, WISP_ERROR_UNSUPPORTED, b->dir->file, KEY_TOKENIZER_ADDED_TOKENS,
                    "an added token is longer than %d characters", ADDED_MAX_LENGTH);
    *kept = (wisp_text){arena_copy_text(&t->arena, bytes, text.length), text.length};
    return kept->bytes ? WISP_OK : fail_memory(b->error, text.length);
}

static bool is_blank(wisp_text text) {
    struct reader reader = reader_of(text);
    while (!reader_at_end(&reader))
        if (!(unicode_flags(reader_next(&reader)) & UNICODE_SPACE))
            return false;
    return true;
}

static wisp_status add_token(struct builder *b, uint32_t id, unsigned flags) {
    struct bert_tokenizer *t = b->tokenizer;
    struct added_tokens *set = flags & ADDED_NORMALIZED ? &t->normalized : &t->raw;
    wisp_text text;
    TRY(keep_text(b, b->tokens[id].text, flags, &text));
    if (text.length == 0)
        return malformed(b, KEY_TOKENIZER_ADDED_TOKENS, "an added token of which no text is left",
                         id);
    /* Hugging Face tokenizers drops such a token or panics, depending on the text before it. */
    if ((flags & ADDED_STRIP_LEFT) && is_blank(text))
        return fail(b->error, WISP_ERROR_UNSUPPORTED, b->dir->file, KEY_TOKENIZER_ADDED_FLAGS,
                    "token %lu is white space and strips white space", (unsigned long)id);
    set->tokens[set->count++] = (struct added_token){text.bytes, text.length, (int32_t)id, flags};
    return WISP_OK;
}

static wisp_status reserve_added(struct builder *b, size_t count) {
    struct bert_tokenizer *t = b->tokenizer;
    if (count == 0)
        return WISP_OK;
    t->raw.tokens = arena_allocate(&t->arena, count * sizeof *t->raw.tokens);
    t->normalized.tokens = arena_allocate(&t->arena, count * sizeof *t->normalized.tokens);
    return t->raw.tokens && t->normalized.tokens
               ? WISP_OK
               : fail_memory(b->error, count * 2 * sizeof *t->raw.tokens);
}

static wisp_status read_added_tokens(struct builder *b, const struct metadata *ids) {
    const struct metadata *flags = directory_find_metadata(b->dir, KEY_TOKENIZER_ADDED_FLAGS);
    if (!metadata_is_integers(ids) || ids->count > b->count)
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, KEY_TOKENIZER_ADDED_TOKENS,
                    "not an array of at most %zu token ids", b->count);
    if (flags && (!metadata_is_integers(flags) || flags->count != ids->count))
        return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, KEY_TOKENIZER_ADDED_FLAGS,
                    "not an array of %llu integers, one for each added token",
                    (unsigned long long)ids->count);
    TRY(reserve_added(b, (size_t)ids->count));
    for (uint64_t i = 0; i < ids->count; i++) {
        int64_t id = 0, flag = 0;
        if (!metadata_array_i64(ids, i, &id) || id < 0 || (uint64_t)id >= b->count)
            return malformed(b, KEY_TOKENIZER_ADDED_TOKENS, "not the id of a token", i);
        if (flags && (!metadata_array_i64(flags, i, &flag) || flag < 0 || flag > ADDED_ALL_FLAGS))
            return malformed(b, KEY_TOKENIZER_ADDED_FLAGS, "unknown flags", i);
        TRY(add_token(b, (uint32_t)id, (unsigned)flag));
    }
    return WISP_OK;
}

static wisp_status add_special_ids(struct builder *b, const struct special_ids *special) {
    const int32_t ids[] = {special->unknown, special->cls, special->separator, special->padding,
                           special->mask};
    const size_t count = sizeof ids / sizeof *ids;
    TRY(reserve_added(b, count));
    for (size_t i = 0; i < count; i++) {
        bool seen = ids[i] < 0;
        for (size_t j = 0; j < i; j++)
            seen |= ids[j] == ids[i];
        if (!seen)
            TRY(add_token(b, (uint32_t)ids[i], 0));
    }
    return WISP_OK;
}

/* Adds control and user-defined tokens, for files without wisp's keys. Both are matched in raw
 * text, as llama.cpp matches them. */
static wisp_status add_typed_tokens(struct builder *b) {
    size_t count = 0;
    for (size_t i = 0; i < b->count; i++)
        count += b->tokens[i].type == TOKEN_CONTROL || b->tokens[i].type == TOKEN_USER_DEFINED;
    TRY(reserve_added(b, count));
    for (size_t i = 0; i < b->count; i++) {
        if (b->tokens[i].type == TOKEN_CONTROL || b->tokens[i].type == TOKEN_USER_DEFINED)
            TRY(add_token(b, (uint32_t)i, 0));
    }
    return WISP_OK;
}

static wisp_status index_added(struct builder *b, struct added_tokens *set) {
    const struct added_token *twice = added_tokens_index(set);
    if (!twice)
        return WISP_OK;
    return fail(b->error, WISP_ERROR_FORMAT, b->dir->file, KEY_TOKENIZER_ADDED_TOKENS,
                "tokens %ld and %ld have one text: \"%.60s\"", (long)twice[0].id, (long)twice[1].id,
                twice->text);
}

static wisp_status build_added_tokens(struct builder *b, const struct special_ids *special) {
    const struct metadata *ids = directory_find_metadata(b->dir, KEY_TOKENIZER_ADDED_TOKENS);
    if (ids)
        TRY(read_added_tokens(b, ids));
    else if (b->typed)
        TRY(add_typed_tokens(b));
    else
        TRY(add_special_ids(b, special));
    TRY(index_added(b, &b->tokenizer->raw));
    return index_added(b, &b->tokenizer->normalized);
}

/* ---- the table of bytes --------------------------------------------------------------------- */

/* Returns the entry of an ASCII character in the table of bytes, which is BYTE_OTHER if an added
 * token may begin with it. */
static uint8_t byte_action(const struct bert_tokenizer *t, uint32_t c) {
    const unsigned flags = unicode_flags(c);
    uint32_t lower[2];
    unicode_lower(c, lower);
    if (t->normalized.count > 0 || t->raw.starts[c])
        return BYTE_OTHER;
    if (t->normalizer.clean_text && (flags & UNICODE_CONTROL))
        return BYTE_DROPPED;
    if (flags & UNICODE_SPACE)
        return t->raw.strips_left ? BYTE_OTHER : BYTE_SPACE;
    if (flags & UNICODE_PUNCTUATION)
        return BYTE_PUNCTUATION;
    return (uint8_t)(t->normalizer.lowercase ? lower[0] : c);
}

static void fill_bytes(struct bert_tokenizer *t) {
    for (uint32_t c = 0; c < 256; c++)
        t->bytes[c] = c < 0x80 ? byte_action(t, c) : BYTE_OTHER;
}

/* ---- opening -------------------------------------------------------------------------------- */

static wisp_status build(struct builder *b) {
    struct special_ids special;
    TRY(check_model(b));
    TRY(read_tokens(b));
    TRY(read_special_ids(b, &special));
    TRY(read_settings(b));
    TRY(build_vocabulary(b));
    TRY(build_added_tokens(b, &special));
    fill_bytes(b->tokenizer);
    b->tokenizer->vocabulary_size = (uint32_t)b->count;
    return WISP_OK;
}

wisp_status bert_tokenizer_open(const struct directory *dir, struct bert_tokenizer **opened,
                                wisp_error *error) {
    struct bert_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return fail_memory(error, sizeof *tokenizer);
    struct builder b = {.tokenizer = tokenizer, .dir = dir, .error = error};
    const wisp_status status = build(&b);
    arena_release(&b.scratch);
    if (status != WISP_OK) {
        bert_tokenizer_close(tokenizer);
        return status;
    }
    *opened = tokenizer;
    return WISP_OK;
}
