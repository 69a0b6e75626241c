/* SPDX-License-Identifier: Apache-2.0
 * tekken.json, the vocabulary of Mistral's models: byte-level BPE whose tokens are in the order in
 * which they are merged, as tiktoken has it. The ids of special tokens come first.
 * Source: mistral_common, tokens/tokenizers/tekken.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "formats/pretokenizers.h"
#include "huggingface/base64.h"
#include "huggingface/codec_sources.h"
#include "huggingface/json_file.h"

enum { BOS = 1, EOS = 2 };

/* The special tokens of files that do not list them, by their ids. */
static const char usual[] =
    "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] "
    "[/TOOL_RESULTS] [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX] "
    "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT]";

/* Reads a number of config, from `least` to the number of tokens of the model. */
static wisp_status read_count(const struct codec_reading *r, const struct json *config,
                              const char *field, uint64_t least, uint32_t *count) {
    const struct json *given = json_get(config, field);
    uint64_t value;
    if (!json_to_u64(given, &value) || value < least || value > r->capacity)
        return fail(r->error, WISP_ERROR_FORMAT, r->file, field,
                    "%.32s is not a number from %llu to %lu, the vocab_size of config.json",
                    hf_shown(given), (unsigned long long)least, (unsigned long)r->capacity);
    *count = (uint32_t)value;
    return WISP_OK;
}

/* ---- special tokens ------------------------------------------------------------------------- */

static wisp_status put_special(struct codec_reading *r, uint64_t id, const char *text,
                               size_t length) {
    const char *copy = arena_copy_text(&r->dir->arena, text, length);
    if (!copy)
        return fail_memory(r->error, length);
    TRY(codec_put_token(r, id, (wisp_text){copy, length}));
    r->types[id] = TOKEN_CONTROL;
    return WISP_OK;
}

/* Puts the tokens that the file lists, or the usual ones, and gives the other ids below `count` a
 * name. */
static wisp_status read_special(struct codec_reading *r, const struct json *list, uint32_t count) {
    static const char field[] = "special_tokens";
    if (json_is_absent(list)) {
        size_t length;
        const char *name = usual;
        for (uint32_t id = 0; id < count && *name; id++, name += length + (name[length] == ' ')) {
            length = strcspn(name, " ");
            TRY(put_special(r, id, name, length));
        }
    } else if (!json_is(list, JSON_ARRAY)) {
        return codec_fail_format(r, field, "expected a list of tokens");
    } else {
        for (const struct json *entry = list->first; entry; entry = entry->next) {
            const struct json *text = json_get(entry, "token_str");
            uint64_t id;
            if (!json_to_u64(json_get(entry, "rank"), &id) || id >= count ||
                !json_is(text, JSON_STRING))
                return codec_fail_format(r, field,
                                         "expected tokens with a rank below "
                                         "default_num_special_tokens and a token_str");
            TRY(put_special(r, id, text->text, text->text_length));
        }
    }
    for (uint32_t id = 0; id < count; id++) {
        char name[32];
        const int length = snprintf(name, sizeof name, "<SPECIAL_%lu>", (unsigned long)id);
        if (!r->tokens[id].bytes)
            TRY(put_special(r, id, name, (size_t)length));
    }
    return WISP_OK;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Writes the character that spells a byte in byte-level BPE (tokenizers/bpe.c) and returns its
 * length, 1 or 2: bytes that are printable in Latin-1 are themselves, the others follow U+0100 in
 * their order. */
static size_t spell_byte(unsigned char byte, char *spelled) {
    if ((byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD))
        return utf8_encode(byte, spelled);
    const unsigned before = byte <= 0x20 ? byte : byte == 0xAD ? 67 : byte - 0x7Fu + 33;
    return utf8_encode(0x100 + before, spelled);
}

/* Reads a token: its bytes in base64, spelled in the alphabet of byte-level BPE. */
static wisp_status read_token(struct codec_reading *r, const struct json *entry, uint32_t id) {
    const struct json *given = json_get(entry, "token_bytes");
    wisp_text bytes = {0};
    if (!json_is(given, JSON_STRING) ||
        !hf_base64_decode(&r->dir->arena, json_text(given), &bytes) || bytes.length == 0)
        return codec_fail_format(r, "vocab", "expected tokens with token_bytes in base64");
    char *spelled = bytes.bytes ? arena_allocate(&r->dir->arena, 2 * bytes.length + 1) : NULL;
    size_t length = 0;
    if (!spelled)
        return fail_memory(r->error, 2 * bytes.length);
    for (size_t i = 0; i < bytes.length; i++)
        length += spell_byte((unsigned char)bytes.bytes[i], spelled + length);
    spelled[length] = '\0';
    return codec_put_token(r, id, (wisp_text){spelled, length});
}

/* Reads the tokens of ids from `first` to `end`, which are in the order of their ranks. The file
 * may have more. */
static wisp_status read_tokens(struct codec_reading *r, const struct json *vocab, uint32_t first,
                               uint32_t end) {
    const struct json *entry = json_is(vocab, JSON_ARRAY) ? vocab->first : NULL;
    for (uint32_t id = first; id < end; id++, entry = entry->next) {
        uint64_t rank;
        if (!entry || !json_to_u64(json_get(entry, "rank"), &rank) || rank != id - first)
            return fail(r->error, WISP_ERROR_FORMAT, r->file, "vocab",
                        "the token of rank %lu is not there, where tokens are in the order of "
                        "their ranks",
                        (unsigned long)(id - first));
        TRY(read_token(r, entry, id));
    }
    return WISP_OK;
}

/* ---- merges --------------------------------------------------------------------------------- */

/* Adds a merge "left right" for each pair of tokens that a token can be cut into. */
static wisp_status cut_token(struct codec_reading *r, wisp_text token) {
    for (size_t at = 1; at < token.length; at++) {
        if (((unsigned char)token.bytes[at] & 0xC0) == 0x80 || /* within a character */
            codec_find_token(r, (wisp_text){token.bytes, at}) < 0 ||
            codec_find_token(r, (wisp_text){token.bytes + at, token.length - at}) < 0)
            continue;
        char *text = arena_allocate(&r->dir->arena, token.length + 2);
        if (!text)
            return fail_memory(r->error, token.length + 2);
        memcpy(text, token.bytes, at);
        text[at] = ' ';
        memcpy(text + at + 1, token.bytes + at, token.length - at);
        text[token.length + 1] = '\0';
        r->merges[r->n_merges++] = (wisp_text){text, token.length + 1};
    }
    return WISP_OK;
}

/* tiktoken merges two tokens if what they make is a token, the first of these first. So each pair
 * that makes a token is a merge, in the order of the tokens made. */
static wisp_status make_merges(struct codec_reading *r, uint32_t first, uint32_t end) {
    size_t most = 0;
    for (uint32_t id = first; id < end; id++)
        most += r->tokens[id].length;
    ARENA_TAKE(&r->dir->arena, r->merges, most, r->error);
    for (uint32_t id = first; id < end; id++)
        TRY(cut_token(r, r->tokens[id]));
    return WISP_OK;
}

wisp_status codec_read_tekken(struct codec_reading *r, const struct json *root) {
    const struct json *config = json_get(root, "config"), *pattern = json_get(config, "pattern");
    const char *regex = json_is(pattern, JSON_STRING) ? pattern->text : "";
    const struct pretokenizer *found = pretokenizer_with(&regex, 1, PRE_WHOLE);
    uint32_t special, end;
    if (!found || !(found->flags & PRE_WHOLE))
        return codec_fail_unsupported(r, "config.pattern", pattern,
                                      "the pattern of Mistral's models");
    TRY(read_count(r, config, "default_num_special_tokens", EOS + 1, &special));
    TRY(read_count(r, config, "default_vocab_size", special, &end));
    TRY(read_special(r, json_get(root, "special_tokens"), special));
    TRY(read_tokens(r, json_get(root, "vocab"), special, end));
    TRY(codec_cut_by(r, found));
    r->next_id = r->model_count = end;
    r->bos = BOS;
    r->eos = EOS;
    r->add_bos = true;
    TRY(codec_sort_tokens(r));
    return make_merges(r, special, end);
}
