/* SPDX-License-Identifier: Apache-2.0
 * Token embeddings whose rows are in the order of how often tokens occur. Those of hot tokens are
 * one tensor, at the place of token_embd.weight. Those of cold tokens are another, which follows
 * all other hot tensors. docs/formats.md specifies it; convert/hot_tokens.h writes it. */
#ifndef WISP_FORMATS_TOKEN_SPLIT_H
#define WISP_FORMATS_TOKEN_SPLIT_H

#include "formats/directory.h"

struct token_split {
    struct tensor hot, cold; /* in the file: the rows of the first places, and all others */
    const uint32_t *token;   /* [vocabulary_size]: the token at each place */
    const uint32_t *place;   /* [vocabulary_size]: the place of each token */
};

/* Points *token and *place to the order of `vocabulary_size` tokens, for as long as the directory
 * lives. Fails with WISP_ERROR_NOT_FOUND if the file has none, and with WISP_ERROR_FORMAT if
 * it has another length, or not each token once. */
wisp_status token_split_order(struct directory *dir, uint64_t vocabulary_size,
                              const uint32_t **token, const uint32_t **place, wisp_error *error);

/* Replaces the two tensors in the directory by the plain token_embd.weight that is made from them;
 * does nothing if the file has neither. Call it after neurons_read. Fails if one of them or
 * the order is missing, or they do not fit each other. */
wisp_status token_split_read(struct directory *dir, wisp_error *error);

/* Returns how a tensor of the directory is split; NULL if the file stores it plain. */
const struct token_split *token_split_of(const struct tensor *tensor);

#endif
