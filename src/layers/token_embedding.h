/* SPDX-License-Identifier: Apache-2.0
 * The token embedding. It keeps the type that the file stores it in; one row is expanded to floats
 * when a token needs it. */
#ifndef WISP_LAYERS_TOKEN_EMBEDDING_H
#define WISP_LAYERS_TOKEN_EMBEDDING_H

#include "formats/directory.h"

struct token_embedding {
    const struct directory *dir;
    const struct tensor *tensor; /* [vocabulary_size, hidden_size] */
    const void *rows;            /* the tensor's bytes; NULL where each row is read from `dir` */
    void *copy;                  /* equals `rows` where they were copied, else NULL */
    size_t bytes;                /* size of the copy */
};

/* Finds the tensor token_embd.weight [vocabulary_size, hidden_size]. Uses its rows in place where
 * the source is in memory, reads each when needed where the source is lasting, and copies them
 * otherwise. Fails where the tensor is missing, has another shape, or cannot be read. `dir` must
 * outlive it. The caller releases it with token_embedding_release, also after an error. */
wisp_status token_embedding_load(struct token_embedding *embedding, const struct directory *dir,
                                 size_t vocabulary_size, size_t hidden_size, wisp_error *error);

void token_embedding_release(struct token_embedding *embedding);

/* Writes the embedding of token `id`, which is below vocabulary_size, to x [hidden_size]. `buffer`
 * has room for a stored row. Fails only where a source must be read and the read fails. */
wisp_status token_embedding_row(const struct token_embedding *embedding, int32_t id, void *buffer,
                                float *x, wisp_error *error);

#endif
