/* SPDX-License-Identifier: Apache-2.0
 * The weights of BERT and nomic-bert, for the files that load them, compute with them and let them
 * rest. */
#ifndef WISP_MODELS_BERT_WEIGHTS_H
#define WISP_MODELS_BERT_WEIGHTS_H

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/network.h"

struct bert_layer {
    struct linear qkv;          /* W_qkv [3 hidden_size, hidden_size]: queries, keys, values */
    struct linear output;       /* W_o [hidden_size, hidden_size] */
    struct norm attention_norm; /* follows the attention block */
    struct norm output_norm;    /* follows the feed-forward block */
};

/* The weights that network->weights points to: all but the token embedding and the feed-forward
 * layers, which struct network holds. */
struct bert_weights {
    /* [positions, hidden_size]: an embedding for each position of the longest text, with that of
     * token type 0 added. With rotary positions these are the embeddings of token types
     * [token_types, hidden_size]. */
    float *position_embedding;
    size_t positions; /* 0 with rotary positions */
    struct norm embedding_norm;
    struct bert_layer *layer; /* [layers] */
};

/* Read the weights of a layer's attention, or w->positions embeddings of positions, and add nothing
 * to the network. They are in bert_load.c. */
wisp_status bert_read_attention(const struct network *network, uint32_t layer, wisp_error *error);
wisp_status bert_read_positions(const struct network *network, wisp_error *error);

#endif
