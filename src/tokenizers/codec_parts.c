/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/codec_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/schema.h"
#include "tokenizers/segment.h"

/* ---- the file's tokens ---------------------------------------------------------------------- */

int32_t codec_spelled(const struct directory *dir, const char *spelling) {
    const struct metadata *tokens = directory_find_metadata(dir, CODEC_TOKENS);
    const size_t length = strlen(spelling);
    for (size_t id = 0; id < tokens->count; id++)
        if (tokens->as.texts[id].length == length &&
            memcmp(tokens->as.texts[id].bytes, spelling, length) == 0)
            return (int32_t)id;
    return -1;
}

/* ---- user-defined tokens -------------------------------------------------------------------- */

wisp_status codec_read_flags(const struct codec *codec, const struct directory *dir, uint8_t *flags,
                             wisp_error *error) {
    const struct metadata *ids = directory_find_metadata(dir, KEY_TOKENIZER_ADDED_TOKENS);
    const struct metadata *values = directory_find_metadata(dir, KEY_TOKENIZER_ADDED_FLAGS);
    if (!ids && !values)
        return WISP_OK;
    if (!ids || !values || ids->type != VALUE_ARRAY || values->type != VALUE_ARRAY ||
        ids->count != values->count)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENIZER_ADDED_FLAGS,
                    "not an array of integers, one for each id of " KEY_TOKENIZER_ADDED_TOKENS);
    for (uint64_t i = 0; i < ids->count; i++) {
        int64_t id, value;
        if (!metadata_array_i64(ids, i, &id) || id < 0 || (uint64_t)id >= codec->count)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENIZER_ADDED_TOKENS,
                        "entry %llu is not an id of a token", (unsigned long long)i);
        if (!metadata_array_i64(values, i, &value) || value < 0 || value > ADDED_ALL_FLAGS)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENIZER_ADDED_FLAGS,
                        "entry %llu is not a number from 0 to %d", (unsigned long long)i,
                        ADDED_ALL_FLAGS);
        flags[id] = (uint8_t)value;
    }
    return WISP_OK;
}

/* Adds a token to codec->normalized, spelled as it is in a normalised text. */
static wisp_status add_normalized(struct codec *codec, struct added_token token,
                                  codec_normalize normalize, wisp_error *error) {
    struct added_tokens *set = &codec->normalized;
    wisp_text text;
    char *copy;
    TRY(normalize(codec, (wisp_text){token.text, token.length}, &copy, &text, error));
    token.text = arena_copy_text(&codec->arena, text.bytes, text.length);
    token.length = text.length;
    free(copy);
    if (!token.text)
        return fail_memory(error, token.length);
    if (token.length > 0)
        set->tokens[set->count++] = token;
    return WISP_OK;
}

static wisp_status index_set(struct added_tokens *set, const struct directory *dir,
                             wisp_error *error) {
    const struct added_token *twin = added_tokens_index(set);
    if (twin)
        return fail(error, WISP_ERROR_FORMAT, dir->file, CODEC_TOKENS,
                    "the user-defined token %ld appears twice", (long)twin->id);
    return WISP_OK;
}

/* Sets *text to what a user-defined token is found as. If pieces are spelled with U+2581 and
 * reached by merges or as a whole, Hugging Face's tokenizers find a token with U+2581, such as
 * Gemma's runs of spaces, if a text itself has that character. */
static wisp_status find_text(struct codec *codec, const struct directory *dir, size_t id,
                             wisp_text *text, wisp_error *error) {
    const wisp_text spelling = directory_find_metadata(dir, CODEC_TOKENS)->as.texts[id];
    *text = codec->texts[id];
    if (!codec->finds_spellings || spelling.length == text->length)
        return WISP_OK;
    *text = (wisp_text){arena_copy_text(&codec->arena, spelling.bytes, spelling.length),
                        spelling.length};
    return text->bytes ? WISP_OK : fail_memory(error, spelling.length);
}

wisp_status codec_index_added(struct codec *codec, const struct directory *dir,
                              codec_normalize normalize, wisp_error *error) {
    uint8_t *flags;
    ARENA_TAKE(&codec->arena, flags, codec->count, error);
    ARENA_TAKE(&codec->arena, codec->raw.tokens, codec->count, error);
    TRY(codec_read_flags(codec, dir, flags, error));
    for (size_t i = 0; i < codec->count; i++) {
        wisp_text text;
        if (codec->types[i] != TOKEN_USER_DEFINED || codec->texts[i].length == 0)
            continue;
        TRY(find_text(codec, dir, i, &text, error));
        struct added_token token = {text.bytes, text.length, (int32_t)i, flags[i]};
        if (text.length > ADDED_MAX_LENGTH)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, CODEC_TOKENS,
                        "the user-defined token %zu is longer than %d bytes", i, ADDED_MAX_LENGTH);
        if (!(token.flags & ADDED_NORMALIZED)) {
            codec->raw.tokens[codec->raw.count++] = token;
            continue;
        }
        if (!codec->normalized.tokens)
            ARENA_TAKE(&codec->arena, codec->normalized.tokens, codec->count, error);
        TRY(add_normalized(codec, token, normalize, error));
    }
    TRY(index_set(&codec->raw, dir, error));
    return index_set(&codec->normalized, dir, error);
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Returns how many bytes a text has once its ill-formed parts are U+FFFD. Sets *whole to whether it
 * has no such part. */
static size_t measure(wisp_text text, bool *whole) {
    size_t bytes = 0;
    *whole = true;
    for (size_t at = 0; at < text.length;) {
        uint32_t c;
        const size_t taken = utf8_decode(text.bytes + at, text.length - at, &c);
        *whole &= c != UTF8_INVALID;
        bytes += c == UTF8_INVALID ? 3 : taken;
        at += taken;
    }
    return bytes;
}

wisp_status codec_repair(wisp_text text, char **copy, wisp_text *repaired, wisp_error *error) {
    bool whole;
    const size_t bytes = measure(text, &whole);
    *copy = NULL;
    *repaired = text;
    if (whole)
        return WISP_OK;
    *copy = malloc(bytes);
    if (!*copy)
        return fail_memory(error, bytes);
    size_t length = 0;
    for (struct reader reader = reader_of(text); !reader_at_end(&reader);)
        length += utf8_encode(reader_next(&reader), *copy + length);
    *repaired = (wisp_text){*copy, length};
    return WISP_OK;
}

/* Returns the first place from `at` on where a token, or white space that one strips, may begin. */
static const char *skip(const struct added_tokens *set, const char *at, const char *end) {
    for (; at < end; at++) {
        const unsigned char byte = (unsigned char)*at;
        const bool blank = set->strips_left && (byte >= 0x80 || byte <= ' ');
        if (blank || (byte < 0x80 ? set->starts[byte] : set->starts_non_ascii))
            break;
    }
    return at;
}

wisp_status codec_each_part(const struct added_tokens *set, wisp_text text, struct token_list *list,
                            codec_encode_part encode, void *context, wisp_error *error) {
    struct segment segment = segment_of(text, set);
    const char *start = segment.reader.begin;
    bool first = true;
    if (set->count == 0)
        return text.length > 0 ? encode(context, text, true, error) : WISP_OK;
    for (uint32_t c = 0; c != READER_NONE;) {
        const char *here = skip(set, segment.reader.at, segment.reader.end);
        segment.reader.at = here;
        c = segment_next(&segment); /* which moves past white space that a token strips */
        if (c != SEGMENT_MATCH && c != READER_NONE)
            continue;
        const wisp_text part = {start, (size_t)(here - start)};
        if (part.length > 0)
            TRY(encode(context, part, first, error));
        first = false;
        if (c == READER_NONE)
            break;
        TRY(token_list_add(list, segment.match->id, error));
        segment_resume(&segment);
        start = segment.reader.at;
    }
    return WISP_OK;
}
