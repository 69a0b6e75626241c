/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "tokenizers/codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/product.h"
#include "formats/schema.h"
#include "tokenizers/codec_parts.h"

static const char TYPES[] = "tokenizer.ggml.token_type", MODEL[] = "tokenizer.ggml.model";

/* How files name the kinds. Some tokenizers that files call byte-level BPE spell spaces as U+2581
 * and merge characters, as SentencePiece's do. */
static const struct {
    const char *model; /* the value of tokenizer.ggml.model */
    const char *pre;   /* that of tokenizer.ggml.pre; NULL: any other */
    const struct codec_kind *kind;
    bool adds_space; /* the defaults of settings: a text begins with a space, */
    bool cuts_words; /* and after added tokens too, and no token reaches past a space */
} names[] = {
    {"gpt2", "gemma4", &codec_spm, false, false},
    {"gpt2", "granite-embed-multi-311m", &codec_spm, false, false},
    {"gpt2", "sarvam-moe", &codec_spm, false, false},
    {"gpt2", "mmbert", &codec_spm, true, true},
    {"gemma4", NULL, &codec_spm, false, false},
    {"gpt2", NULL, &codec_bpe, false, false},
    {"t5", NULL, &codec_unigram, true, false},
    {"llama", NULL, &codec_spm, true, false},
};

enum { NAMES = sizeof names / sizeof *names };

static wisp_status find_kind(struct codec *codec, const struct directory *dir, wisp_error *error) {
    const char *model, *pre = "";
    TRY(metadata_text(dir, MODEL, &model, error));
    TRY(metadata_text_or(dir, "tokenizer.ggml.pre", &pre, error));
    for (size_t i = 0; i < NAMES && !codec->kind; i++)
        if (strcmp(model, names[i].model) == 0 &&
            (!names[i].pre || strcmp(pre, names[i].pre) == 0)) {
            codec->kind = names[i].kind;
            codec->add_space_prefix = names[i].adds_space;
            codec->splits_spaces = names[i].cuts_words;
            codec->prefix = names[i].cuts_words ? PREFIX_ALWAYS : PREFIX_EACH;
        }
    if (!codec->kind)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, MODEL,
                    "tokenizers of type \"%.40s\" are not supported for generating, only "
                    "\"llama\", \"gpt2\", \"t5\" and \"gemma4\"",
                    model);
    return WISP_OK;
}

static wisp_status read_types(struct codec *codec, const struct directory *dir, wisp_error *error) {
    const struct metadata *types = directory_find_metadata(dir, TYPES);
    ARENA_TAKE(&codec->arena, codec->types, codec->count, error);
    memset(codec->types, TOKEN_NORMAL, codec->count);
    if (!types)
        return WISP_OK;
    if (types->type != VALUE_ARRAY || types->count != codec->count)
        return fail(error, WISP_ERROR_FORMAT, dir->file, TYPES,
                    "not an array of %zu integers, one for each token", codec->count);
    if (!metadata_is_integers(types))
        return fail(error, WISP_ERROR_FORMAT, dir->file, TYPES,
                    "an array of type %s; expected integers", value_type_name(types->element));
    for (size_t i = 0; i < codec->count; i++) {
        int64_t type;
        if (!metadata_array_i64(types, i, &type) || type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return fail(error, WISP_ERROR_FORMAT, dir->file, TYPES,
                        "not a token type from 1 to 6 (entry %zu)", i);
        codec->types[i] = (uint8_t)type;
    }
    return WISP_OK;
}

static wisp_status read_tokens(struct codec *codec, const struct directory *dir,
                               wisp_error *error) {
    const struct metadata *tokens = directory_find_metadata(dir, CODEC_TOKENS);
    if (!tokens)
        return fail(error, WISP_ERROR_NOT_FOUND, dir->file, CODEC_TOKENS,
                    "the metadata key is missing");
    if (tokens->type != VALUE_ARRAY || tokens->element != VALUE_STRING || tokens->count == 0)
        return fail(error, WISP_ERROR_FORMAT, dir->file, CODEC_TOKENS, "not an array of strings");
    if (tokens->count > INT32_MAX / 2)
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, CODEC_TOKENS, "too many tokens");
    codec->count = (size_t)tokens->count;
    return read_types(codec, dir, error);
}

wisp_status codec_build_pieces(struct codec *codec, const struct directory *dir,
                               const wisp_text *spellings, bool user_defined, wisp_error *error) {
    struct piece *pieces = calloc(codec->count, sizeof *pieces);
    if (!pieces)
        return fail_memory(error, codec->count * sizeof *pieces);
    for (size_t i = 0; i < codec->count; i++) {
        const bool found =
            codec->types[i] == TOKEN_NORMAL || (user_defined && codec_is_piece(codec, i));
        pieces[i] = (struct piece){spellings[i].bytes, spellings[i].length,
                                   found ? PIECE_INITIAL : PIECE_UNUSED};
    }
    const wisp_status status = wordpiece_build(&codec->pieces, &codec->arena, pieces, codec->count,
                                               dir->file, CODEC_TOKENS, error);
    free(pieces);
    return status;
}

static wisp_status read_id(const struct codec *codec, const struct directory *dir, const char *key,
                           int32_t *id, wisp_error *error) {
    uint32_t value;
    *id = -1;
    if (!directory_find_metadata(dir, key))
        return WISP_OK;
    TRY(metadata_u32(dir, key, &value, error));
    if (value >= codec->count)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key, "id %u, but there are %zu tokens",
                    value, codec->count);
    *id = (int32_t)value;
    return WISP_OK;
}

/* The control tokens by which models end a text or their turn in a conversation. A file names one
 * or two of them, and models end with others too. llama.cpp knows them by the same names. */
static bool is_end_name(wisp_text name) {
    static const char *const ends[] = {"<|im_end|>",    "<|eot_id|>",      "<|eom_id|>",   "</s>",
                                       "<end_of_turn>", "<|end_of_text|>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (name.length == strlen(ends[i]) && memcmp(name.bytes, ends[i], name.length) == 0)
            return true;
    return false;
}

static wisp_status find_ends(struct codec *codec, const struct directory *dir, wisp_error *error) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const wisp_text *spellings = directory_find_metadata(dir, CODEC_TOKENS)->as.texts;
    const struct metadata *listed = directory_find_metadata(dir, KEY_TOKENIZER_END_TOKENS);
    ARENA_TAKE(&codec->arena, codec->ends, codec->count, error);
    for (size_t i = 0; i < codec->count; i++)
        codec->ends[i] = codec->types[i] == TOKEN_CONTROL && is_end_name(spellings[i]);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int32_t id;
        TRY(read_id(codec, dir, keys[i], &id, error));
        if (id >= 0)
            codec->ends[id] = true;
    }
    if (listed && listed->type != VALUE_ARRAY)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENIZER_END_TOKENS,
                    "not an array of ids");
    for (uint64_t i = 0; listed && i < listed->count; i++) {
        int64_t id;
        if (!metadata_array_i64(listed, i, &id) || id < 0 || (uint64_t)id >= codec->count)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_TOKENIZER_END_TOKENS,
                        "entry %llu is not an id of a token", (unsigned long long)i);
        codec->ends[id] = true;
    }
    return WISP_OK;
}

/* Finds the token after a text that is embedded. llama.cpp has two keys for it: files of encoders
 * name the token by which they separate texts, others the one that ends a text. */
static wisp_status read_last(struct codec *codec, const struct directory *dir, wisp_error *error) {
    static const char *const keys[] = {"tokenizer.ggml.seperator_token_id",
                                       "tokenizer.ggml.separator_token_id",
                                       "tokenizer.ggml.eos_token_id"};
    bool separates = codec->add_last;
    bool ends = separates;
    codec->last = -1;
    TRY(metadata_bool_or(dir, "tokenizer.ggml.add_sep_token", &separates, error));
    TRY(metadata_bool_or(dir, "tokenizer.ggml.add_eos_token", &ends, error));
    for (size_t i = separates ? 0 : 2; i < 3 && (separates || ends) && codec->last < 0; i++)
        TRY(read_id(codec, dir, keys[i], &codec->last, error));
    return WISP_OK;
}

/* Reads whether texts are filled up, and with which token. */
static wisp_status read_filling(struct codec *codec, const struct directory *dir,
                                wisp_error *error) {
    static const char key[] = "tokenizer.ggml.padding_token_id";
    TRY(metadata_u32_or(dir, KEY_TOKENIZER_FILLS, &codec->fills, error));
    TRY(read_id(codec, dir, key, &codec->padding, error));
    return codec->fills == 0 || codec->padding >= 0
               ? WISP_OK
               : fail(error, WISP_ERROR_NOT_FOUND, dir->file, key,
                      "there is no token to fill texts up with");
}

static wisp_status build(struct codec *codec, const struct directory *dir, wisp_error *error) {
    TRY(find_kind(codec, dir, error));
    TRY(read_tokens(codec, dir, error));
    TRY(find_ends(codec, dir, error));
    TRY(read_id(codec, dir, "tokenizer.ggml.bos_token_id", &codec->bos, error));
    if (codec->bos < 0)
        TRY(read_id(codec, dir, "tokenizer.ggml.cls_token_id", &codec->bos, error));
    TRY(read_id(codec, dir, "tokenizer.ggml.unknown_token_id", &codec->unknown, error));
    codec->add_bos = true;
    codec->model_tokens = (uint32_t)codec->count;
    TRY(metadata_u32_or(dir, KEY_TOKENIZER_MODEL_TOKENS, &codec->model_tokens, error));
    TRY(codec->kind->open(codec, dir, error));
    TRY(metadata_bool_or(dir, "tokenizer.ggml.add_bos_token", &codec->add_bos, error));
    codec->add_bos = codec->add_bos && codec->bos >= 0;
    if (READS_CLIP)
        TRY(read_filling(codec, dir, error));
    return read_last(codec, dir, error);
}

wisp_status codec_open(const struct directory *dir, struct codec **opened, wisp_error *error) {
    struct codec *codec = calloc(1, sizeof *codec);
    if (!codec)
        return fail_memory(error, sizeof *codec);
    const wisp_status status = build(codec, dir, error);
    if (status == WISP_OK)
        *opened = codec;
    else
        codec_close(codec);
    return status;
}

void codec_close(struct codec *codec) {
    if (!codec)
        return;
    arena_release(&codec->arena);
    free(codec);
}

size_t codec_vocabulary_size(const struct codec *codec) {
    return codec->count;
}

size_t codec_resident_bytes(const struct codec *codec) {
    return sizeof *codec + codec->arena.total;
}

wisp_status codec_encode_text(const struct codec *codec, wisp_text text, bool begins,
                              struct token_list *list, wisp_error *error) {
    enum { TOKEN_BYTES = 16 }; /* more than tokens have on average in any language */
    if (list->most > 0 && text.length / TOKEN_BYTES > list->most) {
        const size_t before = list->count;
        const wisp_text beginning = {text.bytes, list->most * TOKEN_BYTES};
        TRY(codec->kind->encode(codec, beginning, begins, list, error));
        list->count = before;
    }
    return codec->kind->encode(codec, text, begins, list, error);
}

wisp_status codec_encode(const struct codec *codec, wisp_text text, bool begins,
                         struct token_list *list, wisp_error *error) {
    const size_t before = list->count;
    wisp_status status = WISP_OK;
    if (begins && codec->add_bos)
        status = token_list_add(list, codec->bos, error);
    if (status == WISP_OK)
        status = codec_encode_text(codec, text, begins, list, error);
    if (status != WISP_OK)
        list->count = before;
    return status;
}

int32_t codec_first_token(const struct codec *codec) {
    return codec->add_bos ? codec->bos : -1;
}

int32_t codec_last_token(const struct codec *codec) {
    return codec->last;
}

uint32_t codec_fills(const struct codec *codec, int32_t *padding) {
    *padding = codec->padding;
    return codec->fills;
}

wisp_text codec_decode(const struct codec *codec, int32_t id) {
    return codec->texts[id];
}

bool codec_adds_space(const struct codec *codec) {
    return codec->add_space_prefix;
}

bool codec_is_end(const struct codec *codec, int32_t id) {
    return id >= 0 && codec->ends[id];
}
