/* SPDX-License-Identifier: Apache-2.0
 * A tokenizer that becomes a codec, while it is read: what the readers of its files share
 * (huggingface/codec_sources.h). codec_files.c adds it to a directory as metadata. */
#ifndef WISP_HUGGINGFACE_CODEC_READING_H
#define WISP_HUGGINGFACE_CODEC_READING_H

#include "base/json.h"
#include "formats/directory.h"
#include "formats/pretokenizers.h"
#include "formats/tokens.h"

struct codec_reading {
    struct directory *dir;
    const char *folder;
    const char *file; /* the one being read, in errors */
    wisp_error *error;
    uint32_t capacity;        /* vocab_size of config.json */
    wisp_text *tokens;        /* [capacity], by id; bytes is NULL if there is no token of an id */
    int32_t *types;           /* [capacity]: enum token_type */
    uint8_t *flags;           /* [capacity]: enum added_flag of the tokens that were added */
    uint32_t next_id;         /* of the next token that is added to the vocabulary */
    const wisp_text **sorted; /* all tokens by their text */
    size_t n_sorted;
    const char *model; /* tokenizer.ggml.model */
    const char *pre;   /* tokenizer.ggml.pre; NULL: none */
    float *scores;     /* [capacity]; NULL: none */
    wisp_text *merges; /* [n_merges]; NULL: none */
    size_t n_merges;
    wisp_text charsmap;   /* SentencePiece's character map; empty: none */
    const char *prefix;   /* wisp.tokenizer.space_prefix */
    bool adds_space;      /* texts have a space before them */
    uint32_t model_count; /* tokens from this id on were added to the model's own */
    bool splits_spaces, squeezes_spaces;
    /* The keys wisp.tokenizer. of these names: */
    bool white_space, strips_first, lowers, drops_punctuation;
    int32_t unknown, bos, eos, mask; /* -1: none */
    bool add_bos;
    bool embeds;  /* the model embeds, so that a token may follow each text: */
    int32_t last; /* -1: none */
};

/* Report an error of r->file: WISP_ERROR_FORMAT with `what`, or WISP_ERROR_UNSUPPORTED with
 * "`value` is not supported, only `wanted`". */
wisp_status codec_fail_format(const struct codec_reading *r, const char *field, const char *what);
wisp_status codec_fail_unsupported(const struct codec_reading *r, const char *field,
                                   const struct json *value, const char *wanted);

/* Makes the tokenizer byte-level BPE behind a pre-tokenizer. */
wisp_status codec_cut_by(struct codec_reading *r, const struct pretokenizer *found);

/* Makes errors name this file of the folder. */
wisp_status codec_name_file(struct codec_reading *r, const char *name);

/* Puts a token at an id that has none, with the type TOKEN_NORMAL. The text must be terminated and
 * live in the arena. */
wisp_status codec_put_token(struct codec_reading *r, uint64_t id, wisp_text text);

/* Sorts the tokens by their texts, for codec_find_token. Two equal texts are a format error. */
wisp_status codec_sort_tokens(struct codec_reading *r);

/* Returns the id of a token among those that were sorted, or -1. */
int32_t codec_find_token(const struct codec_reading *r, wisp_text text);

/* Returns whether the entry of an added token describes a special token that the model has no
 * embedding of, such as the one for pictures in models of Gemma 3 that read only text. No text is
 * encoded to it, so it is left out.
 * */
bool codec_is_beyond(const struct codec_reading *r, const struct json *entry, uint64_t id);

/* Reads the entry of a token that was added to the vocabulary. Its id must be that of its content
 * in the sorted vocabulary or, if its content is not there, the next free one. */
wisp_status codec_add_token(struct codec_reading *r, const struct json *entry, uint64_t id);

#endif
