/* SPDX-License-Identifier: Apache-2.0
 * The parts of a codec, for codec.c, which builds it, and for the kinds, which encode. */
#ifndef WISP_TEXT_CODEC_PARTS_H
#define WISP_TEXT_CODEC_PARTS_H

#include "formats/directory.h"
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

struct codec_kind {
    const char *model; /* the value of tokenizer.ggml.model */

    /* Sets the fields of `codec` that only this kind has. */
    wisp_status (*open)(struct codec *codec, const struct directory *dir, wisp_error *error);

    /* Appends the ids of a text without a token before it. */
    wisp_status (*encode)(const struct codec *codec, wisp_text text, bool begins,
                          struct token_list *list, wisp_error *error);
};

struct codec {
    const struct codec_kind *kind;
    struct arena arena;      /* owns the memory of the parts below */
    struct wordpiece pieces; /* finds normal and user-defined tokens by their spelling */
    size_t count;
    uint8_t *types;         /* [count]: enum codec_token_type */
    const wisp_text *texts; /* [count]: what codec_decode returns */
    int32_t bos, eos, eot;  /* -1 where there is none */
    bool add_bos;
    /* SentencePiece: */
    const float *scores;   /* [count] */
    int32_t byte_ids[256]; /* the token of each byte, or the unknown token; -1: neither */
    bool add_space_prefix; /* a text is encoded with a space before it */
};

extern const struct codec_kind codec_spm;

#endif
