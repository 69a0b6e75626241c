/* SPDX-License-Identifier: Apache-2.0
 * The parts of a codec, for codec.c, which builds it, and for the kinds, which encode. */
#ifndef WISP_TEXT_CODEC_PARTS_H
#define WISP_TEXT_CODEC_PARTS_H

#include <stdatomic.h>

#include "formats/directory.h"
#include "text/added_tokens.h"
#include "text/merge_table.h"
#include "text/token_list.h"
#include "text/wordpiece.h"

/* The types of tokens, with GGUF's numbers. */
enum codec_token_type {
    CODEC_NORMAL = 1,
    CODEC_UNKNOWN = 2,
    CODEC_CONTROL = 3,
    CODEC_USER_DEFINED = 4,
    CODEC_UNUSED = 5,
    CODEC_BYTE = 6
};

struct codec;
struct pretokenizer;

struct codec_kind {
    const char *model; /* the value of tokenizer.ggml.model */

    /* Sets pieces, texts, byte_ids and the fields that only this kind has. Clears add_bos where a
     * text has no token before it unless the file says so. */
    wisp_status (*open)(struct codec *codec, const struct directory *dir, wisp_error *error);

    /* Appends the ids of a text without a token before it. */
    wisp_status (*encode)(const struct codec *codec, wisp_text text, bool begins,
                          struct token_list *list, wisp_error *error);
};

struct codec {
    const struct codec_kind *kind;
    struct arena arena;      /* owns the memory of the parts below */
    struct wordpiece pieces; /* finds tokens that texts are made of */
    size_t count;
    uint8_t *types;         /* [count]: enum codec_token_type */
    const wisp_text *texts; /* [count]: what codec_decode returns */
    int32_t bos, eos, eot;  /* -1 where there is none */
    bool add_bos;
    int32_t byte_ids[256]; /* the token of each byte, or the unknown token; -1: neither */
    /* SentencePiece: */
    const float *scores;   /* [count] */
    bool add_space_prefix; /* a text is encoded with a space before it */
    /* Byte-level BPE: */
    const struct pretokenizer *pretokenizer;
    struct merge_table merges;
    struct added_tokens raw; /* user-defined tokens, which are found before anything else */
    /* [count]: enum bpe_whole. All threads that encode fill it in as they meet tokens. */
    _Atomic(uint8_t) *whole;
};

extern const struct codec_kind codec_spm;
extern const struct codec_kind codec_bpe;

/* The metadata key of the tokens' spellings. Where the kinds run, it is an array of strings, one
 * for each token. */
#define CODEC_TOKENS "tokenizer.ggml.tokens"

/* Builds codec->pieces of `count` spellings: those of normal tokens, and of user-defined ones if
 * `user_defined`, can be found, except empty ones. */
wisp_status codec_build_pieces(struct codec *codec, const struct directory *dir,
                               const wisp_text *spellings, bool user_defined, wisp_error *error);

#endif
