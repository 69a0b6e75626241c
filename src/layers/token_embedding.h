/* SPDX-License-Identifier: Apache-2.0
 * The token embedding. It keeps the type that the file stores it in; one row is expanded to floats
 * when a token needs it. */
#ifndef WISP_LAYERS_TOKEN_EMBEDDING_H
#define WISP_LAYERS_TOKEN_EMBEDDING_H

#include "formats/token_split.h"

/* Rows that are in one range of the file. */
struct token_part {
    const struct tensor *tensor;
    const unsigned char *rows; /* its bytes; NULL if each row is read from the directory */
    unsigned char *copy;       /* equals `rows` if they were copied, else NULL */
};

struct cold_tokens;

/* token_embedding_reserve takes at least this many rows, or all that there are. If the rows of a
 * batch do not fit at a time, its tokens are looked up part by part. */
enum { LEAST_COLD_TOKENS = 32 };

/* Memory for each row that token_embedding_reserve takes, besides the row. */
enum { COLD_SLOT_BYTES = sizeof(uint32_t) + 1 };

struct token_embedding {
    const struct directory *dir;
    const struct tensor *tensor;     /* [vocabulary_size, hidden_size] */
    const struct token_split *split; /* NULL: row i of the only part is that of token i */
    struct token_part part[2];       /* the second one is empty if there is no split */
    struct cold_tokens *cold;        /* which rows of the second part are there; NULL: all are */
    uint64_t *checksums;             /* [vocabulary_size]: of rows that are read and may change. One
                                        that is absent has none so far */
    size_t bytes; /* of checksums and of copied rows, except those that may be absent */
};

/* Finds the tensor token_embd.weight [vocabulary_size, hidden_size]. Its rows are where
 * residency_rows (formats/residency.h) says. If some are absent, token_embedding_reserve must be
 * called. Fails if the tensor is missing, has another
 * shape, or cannot be read. `dir` must outlive it. The caller releases it with
 * token_embedding_release, also after an error. */
wisp_status token_embedding_load(struct token_embedding *embedding, const struct directory *dir,
                                 size_t vocabulary_size, size_t hidden_size, wisp_error *error);

/* Returns how many rows may be absent at first; 0: all rows are there. */
size_t token_embedding_cold(const struct token_embedding *embedding);

/* Makes room for `rows` rows that are absent at first: LEAST_COLD_TOKENS or more, or all of them.
 * If it is not for all, only one pass at a time may use the embedding. */
wisp_status token_embedding_reserve(struct token_embedding *embedding, size_t rows,
                                    wisp_error *error);

/* Returns how many tokens can be held at a time, whatever they are. */
size_t token_embedding_room(const struct token_embedding *embedding);

/* Returns how many of n tokens, each below vocabulary_size, have absent rows, and writes the ranges
 * of these rows in the file to ranges [n], which may be NULL. A token counts as often as it comes.
 */
size_t token_embedding_absent(const struct token_embedding *embedding, const int32_t *ids, size_t n,
                              wisp_range *ranges);

/* Does what token_embedding_absent does, and holds the rows of these tokens if there is not room
 * for all rows: they stay once they are present, until token_embedding_let_go. There n is at most
 * token_embedding_room. */
size_t token_embedding_hold(const struct token_embedding *embedding, const int32_t *ids, size_t n,
                            wisp_range *ranges);

/* Ends the hold of all rows. */
void token_embedding_let_go(const struct token_embedding *embedding);

/* Copies all absent rows, unless they stay in the source, that are wholly within bytes [offset,
 * offset + length) of the file. If there is no room, a row that is held takes that of one which
 * is not, and others stay absent. May be called by several threads at a time, also while others use
 * rows. */
void token_embedding_provide(const struct token_embedding *embedding, uint64_t offset,
                             const void *bytes, size_t length);

/* Returns the number of rows that were provided and are in memory; 0 if they stay in the source.
 */
uint64_t token_embedding_provided(const struct token_embedding *embedding);

void token_embedding_release(struct token_embedding *embedding);

/* Stored rows that one thread has read lately, so that it reads those of frequent tokens once. It
 * starts as zeros. */
struct token_rows {
    size_t slots;        /* 0: no rows are kept */
    int32_t *ids;        /* [slots]: the token whose row is in the slot; -1: none */
    unsigned char *rows; /* [slots, bytes of a row] */
    size_t bytes;        /* of both arrays */
};

/* Makes room for rows if the embedding has to read a file for each of them, and otherwise does
 * nothing. Fails if there is no memory. The caller releases it with token_rows_release, also
 * after an error. */
wisp_status token_rows_open(struct token_rows *kept, const struct token_embedding *embedding,
                            wisp_error *error);

void token_rows_release(struct token_rows *kept);

/* Writes the embedding of token `id`, which is below vocabulary_size and whose row is not absent,
 * to x [hidden_size]. `buffer` has room for a stored row; `kept`, which may be NULL, is the calling
 * thread's. Fails only if a source must be read: with WISP_ERROR_IO if the read fails, or the
 * row is not the one that was there when the model was loaded. */
wisp_status token_embedding_row(const struct token_embedding *embedding, int32_t id,
                                struct token_rows *kept, void *buffer, float *x, wisp_error *error);

#endif
