/* SPDX-License-Identifier: Apache-2.0
 * A model's tokenizer, of the kind that its file names: BERT's WordPiece, or a codec
 * (tokenizers/codec.h): byte-level BPE, SentencePiece's BPE or its unigram model. Models that embed
 * and models that generate may have any of them. */
#ifndef WISP_TOKENIZERS_TOKENIZER_H
#define WISP_TOKENIZERS_TOKENIZER_H

#include "tokenizers/codec.h"

struct tokenizer;

/* A kind, whose tokenizers are its own `state`. The functions do what those below do. */
struct tokenizer_kind {
    const char *model; /* tokenizer.ggml.model of its files; NULL: any other */
    bool is_codec;     /* the state is a struct codec */
    wisp_status (*open)(const struct directory *dir, void **state, wisp_error *error);
    void (*close)(void *state);
    size_t (*vocabulary_size)(const void *state);
    size_t (*resident_bytes)(const void *state);
    wisp_status (*encode)(const void *state, wisp_text text, size_t max_tokens, int32_t *ids,
                          size_t *count, bool *truncated, wisp_error *error);
    struct tokenizer_piece (*piece)(const void *state, int32_t id);
};

extern const struct tokenizer_kind tokenizer_words, tokenizer_codecs;

/* The kinds that this product has (src/products); NULL ends them. */
extern const struct tokenizer_kind *const tokenizer_kinds[];

/* Builds the tokenizer from a directory's tokenizer.ggml.* and wisp.tokenizer.* metadata. It does
 * not refer to the directory afterwards. Fails with WISP_ERROR_UNSUPPORTED if the product has no
 * such kind. */
wisp_status tokenizer_open(const struct directory *dir, struct tokenizer **opened,
                           wisp_error *error);

void tokenizer_close(struct tokenizer *tokenizer);

size_t tokenizer_vocabulary_size(const struct tokenizer *tokenizer);
size_t tokenizer_resident_bytes(const struct tokenizer *tokenizer);

/* Writes the ids of a whole text to ids [max_tokens], with the special tokens that the model has
 * before and after a text, and their number to *count. A longer text is truncated as Hugging Face
 * does it: the special tokens stay. max_tokens is at least 2. *truncated (may be NULL) says whether
 * tokens were left out. If `ids` is NULL, they are only counted. Any number of threads may call it
 * with the same tokenizer. Fails if memory is short, which WordPiece does not need. */
wisp_status tokenizer_encode(const struct tokenizer *tokenizer, wisp_text text, size_t max_tokens,
                             int32_t *ids, size_t *count, bool *truncated, wisp_error *error);

/* A token of a text. */
struct tokenizer_piece {
    wisp_text text; /* without "##"; a codec's is the bytes that the token stands for */
    bool begins;    /* a space belongs before it, unless it comes first */
    bool special;   /* it is not part of a text, such as [CLS] */
};

struct tokenizer_piece tokenizer_piece(const struct tokenizer *tokenizer, int32_t id);

/* Returns the codec, which models that generate need; NULL if the kind is WordPiece. */
const struct codec *tokenizer_codec(const struct tokenizer *tokenizer);

#endif
