/* SPDX-License-Identifier: Apache-2.0
 * The BERT encoder with pooling, which MiniLM, BGE, GTE, E5 and similar models are, and its
 * variants nomic-bert, which has rotary positions and gated feed-forward layers, and mpnet, whose
 * scores have a bias by the distance of tokens; electra, whose embeddings may be smaller than
 * hidden states, and gte, which is nomic-bert with biases, GELU and scaled positions. Sources:
 * Devlin et al., BERT (2018); Nussbaum et al., Nomic Embed (2024); Clark et al., ELECTRA (2020);
 * Zhang et al., mGTE (2024); pooling as in sentence-transformers. */
#ifndef WISP_MODELS_BERT_H
#define WISP_MODELS_BERT_H

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/architecture.h"
#include "models/relative_bias.h"

struct bert_layer {
    struct linear qkv;          /* W_qkv [3 hidden_size, hidden_size]: queries, keys, values */
    struct linear output;       /* W_o [hidden_size, hidden_size] */
    struct norm attention_norm; /* follows the attention block */
    struct norm output_norm;    /* follows the feed-forward block */
};

/* The weights that network->weights points to: all but the embeddings and the feed-forward layers,
 * which struct network holds. */
struct bert_weights {
    float *token_types; /* [token_types, hidden_size]; NULL if there are none, or if they are added
                           to the positions */
    float *second_type; /* [hidden_size]: what the tokens of a second text have more than those of
                           the first; NULL: nothing */
    struct relative_bias bias; /* of mpnet */
    struct norm embedding_norm;
    struct linear projection; /* [hidden_size, token_size] of electra; empty without a token_size */
    float *rope_factors;      /* [head size / 2] of rope.h; NULL: positions are not scaled */
    struct bert_layer layer[]; /* [layers] */
};

extern const struct architecture architecture_bert, architecture_nomic_bert, architecture_mpnet,
    architecture_electra, architecture_gte;

#endif
