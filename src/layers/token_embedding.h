/* SPDX-License-Identifier: Apache-2.0
 * The embeddings of tokens, which stay in the type that the file stores them in and are expanded
 * row by row. */
#ifndef WISP_LAYERS_TOKEN_EMBEDDING_H
#define WISP_LAYERS_TOKEN_EMBEDDING_H

#include "formats/directory.h"

struct token_embedding {
    const struct directory *dir;
    const struct tensor *tensor; /* [vocabulary_size, hidden_size] */
    const void *rows;            /* as stored; NULL: read from `dir` when a text needs them */
    void *copy;                  /* `rows` where they are a copy, else NULL */
    size_t bytes;                /* that the copy holds */
};

/* Finds the tensor token_embd.weight. Its rows are used in place where the source is in memory,
 * read when needed where the source is lasting, and copied otherwise. `dir` must outlive it.
 * Released with token_embedding_release, also after an error. */
wisp_status token_embedding_load(struct token_embedding *embedding, const struct directory *dir,
                                 size_t vocabulary_size, size_t hidden_size, wisp_error *error);

void token_embedding_release(struct token_embedding *embedding);

/* x [hidden_size]: the embedding of token `id`, which is below vocabulary_size. `buffer` has room
 * for a stored row. Fails only where the source has to be read and cannot be. */
wisp_status token_embedding_row(const struct token_embedding *embedding, int32_t id, void *buffer,
                                float *x, wisp_error *error);

#endif
