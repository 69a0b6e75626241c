/* SPDX-License-Identifier: Apache-2.0
 * The parts of a codec, for codec.c, which builds it, and for the kinds, which encode. */
#ifndef WISP_TOKENIZERS_CODEC_PARTS_H
#define WISP_TOKENIZERS_CODEC_PARTS_H

#include <stdatomic.h>

#include "formats/directory.h"
#include "formats/tokens.h"
#include "tokenizers/added_tokens.h"
#include "tokenizers/charsmap.h"
#include "tokenizers/merge_table.h"
#include "tokenizers/piece_trie.h"
#include "tokenizers/pretokenize.h"
#include "tokenizers/token_list.h"
#include "tokenizers/wordpiece.h"

/* Where SentencePiece puts the space before a text. */
enum codec_prefix {
    PREFIX_EACH,   /* before the text, and again after each added token */
    PREFIX_FIRST,  /* before the text, unless that begins with a space */
    PREFIX_ALWAYS, /* if PREFIX_EACH has it, unless there is a space */
    PREFIX_TEXT    /* before the text, even if that begins with a space */
};

struct codec;

struct codec_kind {
    /* Sets pieces, texts, byte_ids and the fields that only this kind has. Clears add_bos if a
     * text has no token before it unless the file says so, and sets add_last if it has one
     * after it. */
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
    uint8_t *types;                      /* [count]: enum token_type */
    uint32_t model_tokens;               /* tokens from this id on were added to the model's own */
    const wisp_text *texts;              /* [count]: what codec_decode returns */
    int32_t bos, unknown;                /* -1 if there is none */
    int32_t last;                        /* after a text that is embedded; -1: none */
    bool add_bos, add_last;              /* add_last: unless the file says otherwise */
    uint32_t fills;                      /* texts are filled up to so many tokens, */
    int32_t padding;                     /* with this one; -1: there is none */
    bool *ends;                          /* [count]: the tokens that end a text */
    int32_t byte_ids[256];               /* the token of each byte; -1 if there is none */
    struct added_tokens raw, normalized; /* user-defined tokens: found before a text is
                                            normalised, and after */
    /* SentencePiece: */
    const float *scores;      /* [count] */
    bool add_space_prefix;    /* a text is encoded with a space before it, */
    enum codec_prefix prefix; /* at these places */
    bool splits_spaces;       /* no token reaches past a space, which begins a word */
    bool white_space;         /* all of it counts as spaces when they are squeezed */
    bool strips_first; /* white space at the ends is dropped, before the character map is applied */
    bool squeezes_spaces; /* spaces at the ends are dropped, and others become one */
    bool has_merges;      /* merges say what is merged, and not scores */
    bool finds_spellings; /* user-defined tokens are found in texts by their spellings */
    bool cuts_at_spaces;  /* nothing is merged across the beginning of a run of spaces */
    bool lowers, drops_punctuation, marks_texts; /* canonical.h; the last is PREFIX_TEXT */
    struct charsmap charsmap;
    struct piece_trie trie;
    double unknown_score; /* of a character that is not a token */
    /* Byte-level BPE: */
    struct cutter cutter;
    bool composes;        /* texts are brought into normalization form C */
    bool ignores_merges;  /* a word that is a token becomes it, whatever the merges say */
    bool ends_words;      /* PRE_WORDS (formats/pretokenizers.h) */
    int32_t end_ids[256]; /* of ends_words: the token of each byte that ends a word; -1: none */
    struct merge_table merges;
    /* [count]: enum bpe_whole. The threads that encode fill it in as they meet tokens. */
    _Atomic(uint8_t) *whole;
};

/* Appends the ids of a text without a token before it. If the list has a bound, the beginning of a
 * text that is far longer is encoded before all of it: mostly that has too many ids. */
wisp_status codec_encode_text(const struct codec *codec, wisp_text text, bool begins,
                              struct token_list *list, wisp_error *error);

extern const struct codec_kind codec_spm;
extern const struct codec_kind codec_bpe;
extern const struct codec_kind codec_unigram;

/* The metadata key of the tokens' spellings. If the kinds run, it is an array of strings, one
 * for each token. */
#define CODEC_TOKENS "tokenizer.ggml.tokens"

/* Returns the token that the file spells so; -1: none. */
int32_t codec_spelled(const struct directory *dir, const char *spelling);

/* The metadata key of the merges of BPE, an array of strings. */
#define BPE_MERGES "tokenizer.ggml.merges"

/* Returns whether texts may be made of a token, also if it is a user-defined one. */
static inline bool codec_is_piece(const struct codec *codec, size_t id) {
    return codec->types[id] == TOKEN_NORMAL ||
           (id < codec->model_tokens && codec->types[id] == TOKEN_USER_DEFINED);
}

/* Builds codec->pieces from spellings [count]. It finds normal tokens and, with `user_defined`,
 * also those user-defined tokens that are the model's own; it finds no empty spelling. */
wisp_status codec_build_pieces(struct codec *codec, const struct directory *dir,
                               const wisp_text *spellings, bool user_defined, wisp_error *error);

/* Normalises a text. *copy is memory for the result, which the caller frees, or NULL. */
typedef wisp_status (*codec_normalize)(const struct codec *codec, wisp_text text, char **copy,
                                       wisp_text *normalized, wisp_error *error);

/* Reads the flags of the tokens that KEY_TOKENIZER_ADDED_TOKENS lists into flags [count], which has
 * zeros. */
wisp_status codec_read_flags(const struct codec *codec, const struct directory *dir, uint8_t *flags,
                             wisp_error *error);

/* Collects the user-defined tokens, with the flags that the file gives them, into codec->raw and
 * codec->normalized. codec->texts must have been set. */
wisp_status codec_index_added(struct codec *codec, const struct directory *dir,
                              codec_normalize normalize, wisp_error *error);

/* Replaces ill-formed UTF-8 by U+FFFD. If there is none, *copy is NULL and *repaired the text
 * itself; else the caller frees *copy. */
wisp_status codec_repair(wisp_text text, char **copy, wisp_text *repaired, wisp_error *error);

/* Encodes a part of a text. `first` says that the text begins with it. */
typedef wisp_status (*codec_encode_part)(void *context, wisp_text part, bool first,
                                         wisp_error *error);

/* Adds the ids of the set's tokens in a text of well-formed UTF-8 to `list`, and calls `encode`
 * with each part between them that is not empty. */
wisp_status codec_each_part(const struct added_tokens *set, wisp_text text, struct token_list *list,
                            codec_encode_part encode, void *context, wisp_error *error);

#endif
