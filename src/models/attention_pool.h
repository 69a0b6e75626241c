/* SPDX-License-Identifier: Apache-2.0
 * Pooling by attention, as image towers of SigLIP have it: one query, which is a weight, attends to
 * all tokens of an image, and a feed-forward block follows. row = y + W_down f(W_up norm(y) + b_up)
 * + b_down, where y = W_o attention(q, W_k x, W_v x) + b_o.
 * Source: Zhai et al., Scaling Vision Transformers (2022). Native only. */
#ifndef WISP_MODELS_ATTENTION_POOL_H
#define WISP_MODELS_ATTENTION_POOL_H

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/network.h"

struct attention_pool {
    struct linear qkv;    /* W_qkv [3 size, size]: queries, keys, values */
    struct linear output; /* W_o [size, size] */
    struct norm norm;
    struct linear up, down; /* [inner, size] and [size, inner] */
    float *query;           /* [size] */
};

/* The names of its tensors, in the list of an architecture that has them. */
#define ATTENTION_POOL_TENSORS                                                                     \
    "pool_probe", "pool_qkv", "pool_output", "pool_norm", "pool_up", "pool_down"

/* Reads the weights from the network's directory, and computes the query. The caller releases
 * them, also after an error. */
wisp_status attention_pool_load(struct attention_pool *pool, const struct network *network,
                                wisp_error *error);

void attention_pool_release(struct attention_pool *pool);

/* Returns the bytes of working memory for so many tokens. */
size_t attention_pool_bytes(const struct attention_pool *pool, const struct network *network,
                            size_t tokens);

/* Writes the row [hidden_size] of an image's hidden states x [tokens, hidden_size]. `space` has
 * attention_pool_bytes left. */
void attention_pool_apply(const struct attention_pool *pool, const struct network *network,
                          const float *x, size_t tokens, float *row, struct workspace space);

#endif
