/* SPDX-License-Identifier: Apache-2.0
 * vocab.json and merges.txt, which folders of byte-level BPE have if there is no tokenizer.json.
 * They do not say how a text is normalised and cut: the tokenizer's class does.
 * */
#include <stdlib.h>
#include <string.h>

#include "base/product.h"
#include "host/input_file.h"
#include "huggingface/codec_sources.h"
#include "huggingface/json_file.h"

/* The classes of transformers, the models that have each by default, and the pre-tokenizers. */
static const struct {
    const char *class, *fast_class;
    const char *model_types[3];
    const char *pre; /* tokenizer.ggml.pre */
} classes[] = {
    {"GPT2Tokenizer", "GPT2TokenizerFast", {"gpt2"}, "gpt-2"},
    {"Qwen2Tokenizer", "Qwen2TokenizerFast", {"qwen2", "qwen3"}, "qwen2"},
#ifndef __wasm__ /* whose modules do not read CLIP */
    {"CLIPTokenizer", "CLIPTokenizerFast", {"clip", "clip_text_model"}, "clip"},
#endif
};

static wisp_status find_class(struct codec_reading *r, const struct json *tokenizer,
                              const struct json *config) {
    static const char field[] = "tokenizer_class";
    const struct json *given = json_get(tokenizer, field), *type = json_get(config, "model_type");
    const struct json *prefix = json_get(tokenizer, "add_prefix_space");
    if (!json_is_absent(prefix) && !json_is(prefix, JSON_FALSE))
        return codec_fail_unsupported(r, "add_prefix_space", prefix, "false");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        bool is_usual = false;
        for (const char *const *known = classes[i].model_types; *known; known++)
            is_usual = is_usual || json_equals(type, *known);
        if (json_is_absent(given) ? is_usual
                                  : json_equals(given, classes[i].class) ||
                                        json_equals(given, classes[i].fast_class)) {
            r->model = "gpt2";
            r->pre = classes[i].pre;
            return WISP_OK;
        }
    }
    return codec_fail_unsupported(
        r, field, given,
        READS_CLIP ? "GPT2Tokenizer, Qwen2Tokenizer and CLIPTokenizer with vocab.json and no "
                     "tokenizer.json"
                   : "GPT2Tokenizer and Qwen2Tokenizer with vocab.json and no tokenizer.json");
}

/* ---- vocab.json ----------------------------------------------------------------------------- */

/* Each id from 0 to the last must belong to exactly one token. */
static wisp_status read_vocabulary(struct codec_reading *r, const struct json *vocab) {
    if (vocab->count == 0)
        return codec_fail_format(r, NULL, "there are no tokens");
    for (const struct json *entry = vocab->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(entry, &id) || id >= vocab->count)
            return fail(r->error, WISP_ERROR_FORMAT, r->file, "vocab",
                        "the id of \"%.60s\" is %.32s, which is not one of 0 to %lu", entry->key,
                        hf_shown(entry), (unsigned long)vocab->count - 1);
        TRY(codec_put_token(r, id, (wisp_text){entry->key, entry->key_length}));
    }
    r->next_id = r->model_count = vocab->count;
    return codec_sort_tokens(r);
}

/* Finds the tokens that CLIP's tokenizer puts around each text. */
static wisp_status find_ends(struct codec_reading *r) {
    static const char first[] = "<|startoftext|>", last[] = "<|endoftext|>";
    r->bos = codec_find_token(r, wisp_text_of(first));
    r->last = codec_find_token(r, wisp_text_of(last));
    r->add_bos = true;
    return r->bos >= 0 && r->last >= 0
               ? WISP_OK
               : codec_fail_format(r, r->bos < 0 ? first : last, "the token is missing");
}

/* ---- merges.txt ----------------------------------------------------------------------------- */

static wisp_status bad_line(const struct codec_reading *r, size_t number, wisp_text line,
                            const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, r->file, "merges", "line %zu, \"%.*s\": %s", number,
                (int)(line.length < 60 ? line.length : 60), line.bytes, what);
}

/* Checks a line "left right": both and their joined text must be tokens of the vocabulary. `joined`
 * is scratch space for as many bytes as the line has. */
static wisp_status check_merge(const struct codec_reading *r, size_t number, wisp_text line,
                               char *joined) {
    const char *space = line.length > 0 ? memchr(line.bytes, ' ', line.length) : NULL;
    const size_t left = space ? (size_t)(space - line.bytes) : 0;
    const size_t right = space ? line.length - left - 1 : 0;
    if (left == 0 || right == 0 || memchr(space + 1, ' ', right))
        return bad_line(r, number, line, "expected two tokens with a space between them");
    memcpy(joined, line.bytes, left);
    memcpy(joined + left, space + 1, right);
    if (codec_find_token(r, (wisp_text){line.bytes, left}) < 0 ||
        codec_find_token(r, (wisp_text){space + 1, right}) < 0 ||
        codec_find_token(r, (wisp_text){joined, left + right}) < 0)
        return bad_line(r, number, line, "one of the two, or what they make, is not in vocab.json");
    return WISP_OK;
}

/* Reads the merges. Version 4 of transformers skips the first line whatever it is, and version 5
 * only if it begins with "#version". A file that begins with a merge, which the two read
 * differently, is refused. */
static wisp_status read_lines(struct codec_reading *r, const char *text, size_t length) {
    static const char header[] = "#version";
    size_t lines = 0, number = 1;
    char *joined;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n' || i + 1 == length;
    if (length < sizeof header - 1 || memcmp(text, header, sizeof header - 1) != 0)
        return codec_fail_format(r, "merges", "line 1 does not begin with \"#version\"");
    ARENA_TAKE(&r->dir->arena, r->merges, lines, r->error);
    ARENA_TAKE(&r->dir->arena, joined, length, r->error);
    for (size_t at = 0; at < length; number++) {
        const char *end = memchr(text + at, '\n', length - at);
        const wisp_text line = {text + at, end ? (size_t)(end - text) - at : length - at};
        at += line.length + 1;
        if (number == 1)
            continue;
        TRY(check_merge(r, number, line, joined));
        r->merges[r->n_merges++] = line;
    }
    return WISP_OK;
}

wisp_status codec_read_vocab(struct codec_reading *r, const struct json *tokenizer,
                             const struct json *config, const struct json *vocab) {
    struct file_bytes file;
    TRY(find_class(r, tokenizer, config));
    TRY(codec_name_file(r, "vocab.json"));
    TRY(read_vocabulary(r, vocab));
    if (READS_CLIP && strcmp(r->pre, "clip") == 0)
        TRY(find_ends(r));
    TRY(codec_name_file(r, "merges.txt"));
    TRY(file_read(r->file, &file, r->error));
    const char *text = arena_copy_text(&r->dir->arena, file.data, file.size);
    const wisp_status status =
        text ? read_lines(r, text, file.size) : fail_memory(r->error, file.size);
    free(file.data);
    return status;
}
