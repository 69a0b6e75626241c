/* SPDX-License-Identifier: Apache-2.0
 * The BERT encoder with pooling, which MiniLM, BGE, GTE, E5 and similar models are, and its variant
 * nomic-bert, which has rotary positions and gated feed-forward layers.
 * Sources: Devlin et al., BERT (2018); Nussbaum et al., Nomic Embed (2024); pooling as in
 * sentence-transformers. */
#ifndef WISP_MODELS_BERT_H
#define WISP_MODELS_BERT_H

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/architecture.h"

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
    struct bert_layer *layer;     /* [layers] */
    struct bert_resting *resting; /* bert_rest.h; NULL: attention's weights are always there */
};

/* Functions of struct architecture (architecture.h), for both architectures. */
wisp_status bert_load(struct network *network, wisp_error *error);
wisp_status bert_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void bert_release(struct network *network);

/* Reads the weights of a layer's attention, and adds nothing to the network. */
wisp_status bert_read_attention(const struct network *network, uint32_t layer, wisp_error *error);

extern const struct architecture architecture_bert, architecture_nomic_bert;

#endif
