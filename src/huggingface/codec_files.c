/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/codec_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/product.h"
#include "base/utf8.h"
#include "formats/schema.h"
#include "host/file.h"
#include "host/input_file.h"
#include "huggingface/codec_reading.h"
#include "huggingface/codec_sources.h"
#include "huggingface/json_file.h"

static const char JSON_FILE[] = "tokenizer.json", MODEL_FILE[] = "tokenizer.model",
                  DEBERTA_FILE[] = "spm.model", SIGLIP_FILE[] = "spiece.model",
                  CONFIG_FILE[] = "tokenizer_config.json", ADDED_FILE[] = "added_tokens.json",
                  MAP_FILE[] = "special_tokens_map.json", ENDS_FILE[] = "generation_config.json",
                  TEMPLATE_FILE[] = "chat_template.jinja", VOCAB_FILE[] = "vocab.json",
                  TEKKEN_FILE[] = "tekken.json";

/* Reads added_tokens_decoder of tokenizer_config.json. If it `repeats` a tokenizer.json, it must
 * name only tokens of that file: transformers would add others. Elsewhere its tokens are added to
 * those of the other files, and it says which of these are special. */
static wisp_status read_decoder(struct codec_reading *r, const struct json *list, bool repeats) {
    static const char field[] = "added_tokens_decoder";
    if (json_is_absent(list))
        return WISP_OK;
    if (!json_is(list, JSON_OBJECT))
        return codec_fail_format(r, field, "expected an object");
    for (const struct json *entry = list->first; entry; entry = entry->next) {
        const struct json *content = json_get(entry, "content");
        uint64_t id;
        if (!hf_id_of_key(entry, &id))
            return codec_fail_format(r, field, "its keys must be ids");
        if (!repeats) {
            const bool is_piece = id < r->capacity && r->tokens[id].bytes;
            const int32_t before = is_piece ? r->types[id] : TOKEN_NORMAL;
            TRY(codec_add_token(r, entry, id));
            if (before == TOKEN_UNKNOWN || before == TOKEN_BYTE)
                r->types[id] = before;
        } else if (codec_is_beyond(r, entry, id)) {
            continue;
        } else if (id >= r->capacity || !r->tokens[id].bytes ||
                   !json_equals(content, r->tokens[id].bytes)) {
            return codec_fail_unsupported(r, field, content, "tokens that tokenizer.json has too");
        }
    }
    return WISP_OK;
}

/* Reads added_tokens.json, which maps tokens to ids and counts if there is no tokenizer.json.
 * The tokens are added in the order of their ids, as codec_add_token needs them. */
static wisp_status read_added(struct codec_reading *r) {
    const struct json *list;
    TRY(hf_read_json(r->dir, r->folder, ADDED_FILE, false, JSON_OBJECT, &list, r->error));
    if (!list)
        return WISP_OK;
    TRY(codec_name_file(r, ADDED_FILE));
    const struct json **by_id; /* [capacity] */
    ARENA_TAKE(&r->dir->arena, by_id, (size_t)r->capacity, r->error);
    for (const struct json *entry = list->first; entry; entry = entry->next) {
        uint64_t id;
        if (!json_to_u64(entry, &id) || id >= r->capacity || by_id[id])
            return codec_fail_format(r, entry->key, "expected an id of its own below vocab_size");
        by_id[id] = entry;
    }
    for (uint32_t id = 0; id < r->capacity; id++) {
        const struct json entry = {.type = JSON_STRING,
                                   .key = "content",
                                   .key_length = strlen("content"),
                                   .text = by_id[id] ? by_id[id]->key : NULL,
                                   .text_length = by_id[id] ? by_id[id]->key_length : 0};
        const struct json object = {.type = JSON_OBJECT, .count = 1, .first = &entry};
        if (by_id[id] && !r->tokens[id].bytes)
            TRY(codec_add_token(r, &object, id));
    }
    return codec_sort_tokens(r);
}

/* ---- special tokens ------------------------------------------------------------------------- */

struct settings {
    const struct json *tokenizer;  /* tokenizer_config.json; NULL: none */
    const struct json *map;        /* special_tokens_map.json; NULL: none */
    const struct json *generation; /* generation_config.json; NULL: none */
    const struct json *config;     /* config.json */
};

/* Finds the token that a setting names, as a string or as an object with its flags. *id is -1 if
 * the setting is absent, and if the vocabulary has no such token, which is an error if it is
 * `required`. */
static wisp_status find_named(const struct codec_reading *r, const struct settings *s,
                              const char *field, bool required, int32_t *id) {
    const struct json *entry = json_get(s->tokenizer, field);
    if (json_is_absent(entry))
        entry = json_get(s->map, field);
    const struct json *content = json_get(entry, "content"), *text = content ? content : entry;
    *id = -1;
    if (json_is_absent(entry))
        return WISP_OK;
    if (!json_is(text, JSON_STRING))
        return codec_fail_format(r, field, "expected a token");
    *id = codec_find_token(r, json_text(text));
    return *id >= 0 || !required ? WISP_OK
                                 : fail(r->error, WISP_ERROR_FORMAT, r->file, field,
                                        "\"%.60s\" is not in the vocabulary", text->text);
}

/* Reads an id, or a list of ids, of config.json or generation_config.json. */
static wisp_status read_ids(const struct codec_reading *r, const struct json *given,
                            const char *field, int32_t *ids, size_t *count) {
    const struct json *entry = json_is(given, JSON_ARRAY) ? given->first : given;
    *count = 0;
    for (; entry && !json_is_absent(given);
         entry = json_is(given, JSON_ARRAY) ? entry->next : NULL) {
        uint64_t id;
        if (!json_to_u64(entry, &id) || id >= r->capacity)
            return codec_fail_format(r, field, "expected an id of a token, or a list of such");
        ids[(*count)++] = (int32_t)id;
    }
    return WISP_OK;
}

/* Finds the tokens that begin and end a text. The tokens that end one are in
 * generation_config.json, and in config.json if the former does not list them. */
static wisp_status read_ends(struct codec_reading *r, const struct settings *s) {
    static const char field[] = "eos_token_id";
    const bool has_own = !json_is_absent(json_get(s->generation, field));
    const struct json *given = json_get(has_own ? s->generation : s->config, field);
    const struct json *begin = json_get(s->config, "bos_token_id");
    const size_t most = json_is(given, JSON_ARRAY) ? given->count : 1;
    int32_t *ids, named;
    size_t count;
    uint64_t id;
    ARENA_TAKE(&r->dir->arena, ids, most, r->error);
    TRY(codec_name_file(r, has_own ? ENDS_FILE : "config.json"));
    TRY(read_ids(r, given, field, ids, &count));
    TRY(codec_name_file(r, CONFIG_FILE));
    TRY(find_named(r, s, "eos_token", true, &named));
    r->eos = named >= 0 ? named : r->eos >= 0 ? r->eos : count > 0 ? ids[0] : -1;
    TRY(find_named(r, s, "mask_token", false, &r->mask));
    TRY(find_named(r, s, "bos_token", true, &named));
    if (r->bos < 0)
        r->bos = named;
    if (r->bos < 0 && json_to_u64(begin, &id) && id < r->capacity && r->tokens[id].bytes)
        r->bos = (int32_t)id;
    if (count > 1 || (count == 1 && ids[0] != r->eos))
        return directory_put_numbers(r->dir, KEY_TOKENIZER_END_TOKENS, VALUE_I32, ids, count,
                                     r->error);
    return WISP_OK;
}

/* Reads whether tokens are put around a text. tokenizer_config.json counts more than tokenizer.json
 * there. */
static wisp_status read_added_ends(struct codec_reading *r, const struct settings *s) {
    const struct json *first = json_get(s->tokenizer, "add_bos_token");
    const struct json *last = json_get(s->tokenizer, "add_eos_token");
    bool ends;
    if (!json_is_absent(first) && !json_to_bool(first, &r->add_bos))
        return codec_fail_format(r, "add_bos_token", "expected true or false");
    if (json_is_absent(last))
        return WISP_OK;
    if (!json_to_bool(last, &ends))
        return codec_fail_format(r, "add_eos_token", "expected true or false");
    if (ends && !r->embeds)
        return codec_fail_unsupported(r, "add_eos_token", last, "false");
    r->last = ends ? r->eos : -1;
    return WISP_OK;
}

/* ---- chat template -------------------------------------------------------------------------- */

static wisp_status put_template(struct codec_reading *r, const struct json *config) {
    static const char key[] = "tokenizer.chat_template", field[] = "chat_template";
    const struct json *given = json_get(config, field);
    char path[HF_PATH_BYTES];
    struct file_bytes file;
    if (file_exists(hf_path_of(path, r->folder, TEMPLATE_FILE))) {
        TRY(file_read(path, &file, r->error));
        const wisp_status status =
            directory_put_text(r->dir, key, (wisp_text){file.data, file.size}, r->error);
        free(file.data);
        return status;
    }
    if (json_is(given, JSON_ARRAY)) /* several, by their names */
        for (given = given->first; given; given = given->next)
            if (json_equals(json_get(given, "name"), "default")) {
                given = json_get(given, "template");
                break;
            }
    if (!json_is(given, JSON_STRING))
        return WISP_OK;
    return directory_put_text(r->dir, key, json_text(given), r->error);
}

/* ---- metadata ------------------------------------------------------------------------------- */

/* Gives each id that has no token one which no text is encoded to, as llama.cpp's converter does: a
 * model may have more rows than its tokenizer has tokens. */
static wisp_status pad(struct codec_reading *r) {
    for (uint32_t i = 0; i < r->capacity; i++) {
        char name[24];
        if (r->tokens[i].bytes)
            continue;
        const int length = snprintf(name, sizeof name, "[PAD%lu]", (unsigned long)i);
        const char *copy = arena_copy_text(&r->dir->arena, name, (size_t)length);
        if (!copy)
            return fail_memory(r->error, sizeof name);
        r->tokens[i] = (wisp_text){copy, (size_t)length};
        r->types[i] = TOKEN_UNUSED;
    }
    return WISP_OK;
}

/* Returns whether a token is found in texts or templates in another way than as it stands. */
static bool flags_matter(const struct codec_reading *r, uint32_t id) {
    const unsigned strips = ADDED_STRIP_LEFT | ADDED_STRIP_RIGHT;
    return (r->types[id] == TOKEN_USER_DEFINED && r->flags[id] != 0) ||
           (r->types[id] == TOKEN_CONTROL && (r->flags[id] & strips) != 0);
}

static wisp_status put_flags(struct codec_reading *r) {
    int32_t *ids;
    uint8_t *flags;
    size_t count = 0;
    ARENA_TAKE(&r->dir->arena, ids, (size_t)r->capacity, r->error);
    ARENA_TAKE(&r->dir->arena, flags, (size_t)r->capacity, r->error);
    for (uint32_t i = 0; i < r->capacity; i++)
        if (flags_matter(r, i)) {
            ids[count] = (int32_t)i;
            flags[count++] = r->flags[i];
        }
    if (count == 0)
        return WISP_OK;
    TRY(directory_put_numbers(r->dir, KEY_TOKENIZER_ADDED_TOKENS, VALUE_I32, ids, count, r->error));
    return directory_put_numbers(r->dir, KEY_TOKENIZER_ADDED_FLAGS, VALUE_U8, flags, count,
                                 r->error);
}

static wisp_status put_id(struct codec_reading *r, const char *key, int32_t id) {
    return id >= 0 ? directory_put_u32(r->dir, key, (uint32_t)id, r->error) : WISP_OK;
}

static wisp_status put_spaces(struct codec_reading *r) {
    TRY(directory_put_bool(r->dir, "tokenizer.ggml.add_space_prefix", r->adds_space, r->error));
    if (strcmp(r->prefix, "each") != 0)
        TRY(directory_put_text(r->dir, KEY_TOKENIZER_SPACE_PREFIX, wisp_text_of(r->prefix),
                               r->error));
    if (r->model_count < r->capacity)
        TRY(directory_put_u32(r->dir, KEY_TOKENIZER_MODEL_TOKENS, r->model_count, r->error));
    if (r->splits_spaces)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_SPLIT_SPACES, true, r->error));
    if (strcmp(r->model, "t5") == 0)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_WHITE_SPACE, r->white_space, r->error));
    if (r->strips_first)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_STRIPS_FIRST, true, r->error));
    if (r->squeezes_spaces)
        TRY(directory_put_bool(r->dir, "tokenizer.ggml.remove_extra_whitespaces", true, r->error));
    if (READS_CLIP && r->lowers)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_LOWERCASE, true, r->error));
    if (READS_CLIP && r->drops_punctuation)
        TRY(directory_put_bool(r->dir, KEY_TOKENIZER_DROPS_PUNCTUATION, true, r->error));
    if (r->charsmap.length > 0)
        TRY(directory_put_numbers(r->dir, "tokenizer.ggml.precompiled_charsmap", VALUE_U8,
                                  r->charsmap.bytes, r->charsmap.length, r->error));
    return WISP_OK;
}

static wisp_status put_metadata(struct codec_reading *r) {
    TRY(directory_put_text(r->dir, "tokenizer.ggml.model", wisp_text_of(r->model), r->error));
    TRY(directory_put_text(r->dir, "tokenizer.ggml.pre", wisp_text_of(r->pre ? r->pre : "default"),
                           r->error));
    TRY(directory_put_texts(r->dir, "tokenizer.ggml.tokens", r->tokens, r->capacity, r->error));
    TRY(directory_put_numbers(r->dir, "tokenizer.ggml.token_type", VALUE_I32, r->types, r->capacity,
                              r->error));
    if (r->scores)
        TRY(directory_put_numbers(r->dir, "tokenizer.ggml.scores", VALUE_F32, r->scores,
                                  r->capacity, r->error));
    if (r->merges)
        TRY(directory_put_texts(r->dir, "tokenizer.ggml.merges", r->merges, r->n_merges, r->error));
    if (!r->pre)
        TRY(put_spaces(r));
    TRY(put_id(r, "tokenizer.ggml.unknown_token_id", r->unknown));
    TRY(put_id(r, "tokenizer.ggml.bos_token_id", r->bos));
    TRY(put_id(r, "tokenizer.ggml.eos_token_id", r->eos));
    if (r->embeds)
        TRY(put_id(r, "tokenizer.ggml.mask_token_id", r->mask));
    TRY(directory_put_bool(r->dir, "tokenizer.ggml.add_bos_token", r->add_bos, r->error));
    /* llama.cpp ends texts of a unigram model with such a token unless a file says no. */
    TRY(directory_put_bool(r->dir, "tokenizer.ggml.add_eos_token", false, r->error));
    if (r->last >= 0)
        TRY(directory_put_bool(r->dir, "tokenizer.ggml.add_sep_token", true, r->error));
    TRY(put_id(r, "tokenizer.ggml.seperator_token_id", r->last));
    return put_flags(r);
}

/* ---- the folder ----------------------------------------------------------------------------- */

static wisp_status reserve(struct codec_reading *r) {
    struct arena *arena = &r->dir->arena;
    ARENA_TAKE(arena, r->tokens, (size_t)r->capacity, r->error);
    ARENA_TAKE(arena, r->types, (size_t)r->capacity, r->error);
    ARENA_TAKE(arena, r->flags, (size_t)r->capacity, r->error);
    ARENA_TAKE(arena, r->sorted, (size_t)r->capacity, r->error);
    return WISP_OK;
}

/* Reads a model of SentencePiece, and the tokens that other files add to it. */
static wisp_status read_model_file(struct codec_reading *r, const struct settings *s,
                                   const char *file) {
    const struct json *decoder = json_get(s->tokenizer, "added_tokens_decoder");
    TRY(codec_name_file(r, file));
    TRY(codec_read_sentencepiece(r));
    /* If the tokenizer is not a legacy one, transformers puts a space before the text but not after
     * each added token. */
    if (json_is(json_get(s->tokenizer, "legacy"), JSON_FALSE))
        r->prefix = "first";
    if (json_is_absent(decoder))
        return read_added(r);
    TRY(codec_name_file(r, CONFIG_FILE));
    return read_decoder(r, decoder, false);
}

/* Marks a token as special unless it is one character: some models pad with such a token, and it
 * must still be found in texts. */
static void mark_special(struct codec_reading *r, int32_t id) {
    uint32_t code_point;
    if (id >= 0 &&
        utf8_decode(r->tokens[id].bytes, r->tokens[id].length, &code_point) < r->tokens[id].length)
        r->types[id] = TOKEN_CONTROL;
}

/* Reads spm.model of DeBERTa, whose tokenizer puts [CLS] before a text and [SEP] after it. */
static wisp_status read_deberta_file(struct codec_reading *r, const struct settings *s) {
    static const char *const flags[] = {"do_lower_case", "split_by_punct"};
    TRY(codec_name_file(r, CONFIG_FILE));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const struct json *given = json_get(s->tokenizer, flags[i]);
        if (!json_is_absent(given) && !json_is(given, JSON_FALSE))
            return codec_fail_unsupported(r, flags[i], given, "false with spm.model");
    }
    TRY(read_model_file(r, s, DEBERTA_FILE));
    TRY(codec_sort_tokens(r));
    TRY(codec_name_file(r, DEBERTA_FILE));
    mark_special(r, codec_find_token(r, wisp_text_of("[MASK]")));
    r->bos = codec_find_token(r, wisp_text_of("[CLS]"));
    r->last = codec_find_token(r, wisp_text_of("[SEP]"));
    r->add_bos = r->strips_first = r->squeezes_spaces = true; /* as the fast tokenizer does */
    r->prefix = "always";
    return r->bos >= 0 && r->last >= 0
               ? WISP_OK
               : codec_fail_format(r, "pieces", "[CLS] and [SEP] are not among them");
}

/* Returns whether transformers' SiglipTokenizer is the folder's, which reads spiece.model even
 * beside a tokenizer.json. */
static bool has_siglip_file(const struct codec_reading *r, const struct settings *s) {
    const struct json *class = json_get(s->tokenizer, "tokenizer_class");
    char path[HF_PATH_BYTES];
    return (json_is_absent(class) || json_equals(class, "SiglipTokenizer")) &&
           file_exists(hf_path_of(path, r->folder, SIGLIP_FILE));
}

/* Reads spiece.model of SigLIP. Its tokenizer puts texts in lower case, drops punctuation, and puts
 * a space before a text and </s> after it. */
static wisp_status read_siglip_file(struct codec_reading *r, const struct settings *s) {
    static const char last[] = "eos_token", lowers[] = "do_lower_case";
    TRY(codec_name_file(r, CONFIG_FILE));
    r->lowers = r->drops_punctuation = true;
    if (!hf_read_bool(s->tokenizer, lowers, &r->lowers))
        return codec_fail_format(r, lowers, "expected true or false");
    TRY(read_model_file(r, s, SIGLIP_FILE));
    r->prefix = "text";
    r->adds_space = false;
    TRY(codec_sort_tokens(r));
    TRY(codec_name_file(r, CONFIG_FILE));
    TRY(find_named(r, s, last, false, &r->last));
    if (r->last < 0)
        r->last = codec_find_token(r, wisp_text_of("</s>"));
    return r->last >= 0 ? WISP_OK : codec_fail_format(r, last, "the token is missing");
}

/* Checks how texts are filled up: behind their end. */
static wisp_status check_filling(struct codec_reading *r, const struct settings *s,
                                 int32_t padding) {
    static const char *const pads_left[] = {"GemmaTokenizer", "GemmaTokenizerFast",
                                            "Siglip2Tokenizer"};
    static const char field[] = "padding_side";
    const struct json *class = json_get(s->tokenizer, "tokenizer_class");
    const struct json *side = json_get(s->tokenizer, field);
    bool right = json_is_absent(side) || json_equals(side, "right");
    for (size_t i = 0; i < sizeof pads_left / sizeof *pads_left && json_is_absent(side); i++)
        right = right && !json_equals(class, pads_left[i]);
    if (!right)
        return codec_fail_unsupported(r, field, side, "right");
    return padding >= 0 ? WISP_OK
                        : codec_fail_format(r, "pad_token",
                                            "the token is missing, with which "
                                            "texts are filled up");
}

/* Marks the tokens that settings name as special, as transformers does: vocab.json does not say
 * which are. A text ends at "<|endoftext|>" if no setting names another token. */
static wisp_status mark_named(struct codec_reading *r, const struct settings *s) {
    static const char *const fields[] = {"unk_token", "bos_token", "eos_token", "pad_token"};
    static const char list[] = "additional_special_tokens";
    const struct json *more = json_get(s->tokenizer, list);
    int32_t id;
    r->eos = codec_find_token(r, wisp_text_of("<|endoftext|>"));
    mark_special(r, r->eos);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        TRY(find_named(r, s, fields[i], false, &id));
        mark_special(r, id);
    }
    if (json_is_absent(more))
        more = json_get(s->map, list);
    if (!json_is_absent(more) && !json_is(more, JSON_ARRAY))
        return codec_fail_format(r, list, "expected a list of tokens");
    for (more = json_is_absent(more) ? NULL : more->first; more; more = more->next) {
        const struct json *content = json_get(more, "content"), *text = content ? content : more;
        if (!json_is(text, JSON_STRING))
            return codec_fail_format(r, list, "expected a token");
        mark_special(r, codec_find_token(r, json_text(text)));
    }
    return WISP_OK;
}

/* Reads vocab.json and merges.txt, and the tokens that other files add to them. */
static wisp_status read_vocab_file(struct codec_reading *r, const struct settings *s) {
    const struct json *decoder = json_get(s->tokenizer, "added_tokens_decoder"), *vocab;
    TRY(codec_name_file(r, CONFIG_FILE));
    TRY(hf_read_json(r->dir, r->folder, VOCAB_FILE, true, JSON_OBJECT, &vocab, r->error));
    TRY(codec_read_vocab(r, s->tokenizer, s->config, vocab));
    if (json_is_absent(decoder))
        TRY(read_added(r));
    TRY(codec_name_file(r, CONFIG_FILE));
    TRY(read_decoder(r, decoder, false));
    TRY(codec_sort_tokens(r));
    return mark_named(r, s);
}

bool hf_has_only_deberta_file(const char *folder) {
    char path[HF_PATH_BYTES];
    return !file_exists(hf_path_of(path, folder, JSON_FILE)) &&
           file_exists(hf_path_of(path, folder, DEBERTA_FILE));
}

wisp_status hf_read_codec(struct directory *dir, const char *folder, const struct hf_config *config,
                          uint32_t vocabulary_size, bool embeds, wisp_error *error) {
    struct codec_reading r = {.dir = dir,
                              .folder = folder,
                              .error = error,
                              .capacity = vocabulary_size,
                              .unknown = -1,
                              .bos = -1,
                              .mask = -1,
                              .eos = -1,
                              .embeds = embeds,
                              .last = -1};
    /* SiglipTextConfig's ids of the first token and the last are not its tokenizer's. */
    struct settings s = {.config = READS_CLIP && config->fills ? NULL : config->root};
    const struct json *root;
    char path[HF_PATH_BYTES];
    int32_t padding;
    TRY(hf_read_json(dir, folder, CONFIG_FILE, false, JSON_OBJECT, &s.tokenizer, error));
    TRY(hf_read_json(dir, folder, MAP_FILE, false, JSON_OBJECT, &s.map, error));
    TRY(hf_read_json(dir, folder, ENDS_FILE, false, JSON_OBJECT, &s.generation, error));
    TRY(reserve(&r));
    const bool has_json = file_exists(hf_path_of(path, folder, JSON_FILE));
    if (READS_CLIP && config->fills && has_siglip_file(&r, &s)) {
        TRY(read_siglip_file(&r, &s));
    } else if (!has_json && file_exists(hf_path_of(path, folder, MODEL_FILE))) {
        TRY(read_model_file(&r, &s, MODEL_FILE));
    } else if (hf_has_only_deberta_file(folder)) {
        TRY(read_deberta_file(&r, &s));
    } else if (!has_json && file_exists(hf_path_of(path, folder, VOCAB_FILE))) {
        TRY(read_vocab_file(&r, &s));
    } else if (!IS_MODULE && !has_json && file_exists(hf_path_of(path, folder, TEKKEN_FILE))) {
        TRY(hf_read_json(dir, folder, TEKKEN_FILE, true, JSON_OBJECT, &root, error));
        TRY(codec_name_file(&r, TEKKEN_FILE));
        TRY(codec_read_tekken(&r, root));
    } else {
        TRY(hf_read_json(dir, folder, JSON_FILE, true, JSON_OBJECT, &root, error));
        TRY(codec_name_file(&r, JSON_FILE));
        TRY(codec_read_json(&r, root));
        TRY(codec_name_file(&r, CONFIG_FILE));
        TRY(read_decoder(&r, json_get(s.tokenizer, "added_tokens_decoder"), true));
        r.lowers |=
            READS_CLIP && json_equals(json_get(s.tokenizer, "tokenizer_class"), "Siglip2Tokenizer");
    }
    TRY(codec_sort_tokens(&r));
    TRY(codec_name_file(&r, CONFIG_FILE));
    TRY(find_named(&r, &s, "pad_token", false, &padding));
    TRY(put_id(&r, "tokenizer.ggml.padding_token_id", padding));
    if (READS_CLIP && config->fills)
        TRY(check_filling(&r, &s, padding));
    TRY(put_template(&r, s.tokenizer));
    TRY(read_ends(&r, &s));
    TRY(read_added_ends(&r, &s));
    TRY(pad(&r));
    return put_metadata(&r);
}
