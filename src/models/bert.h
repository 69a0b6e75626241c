/* SPDX-License-Identifier: Apache-2.0
 * The BERT encoder with pooling: MiniLM, BGE, GTE, E5 and their like, and nomic-bert, whose
 * positions are rotary and whose feed-forward layers are gated.
 * Sources: Devlin et al., BERT (2018); Nussbaum et al., Nomic Embed (2024); pooling as in
 * sentence-transformers. */
#ifndef WISP_MODELS_BERT_H
#define WISP_MODELS_BERT_H

#include "layers/linear.h"
#include "layers/norm.h"
#include "models/architecture.h"

struct bert_layer {
    struct linear qkv;    /* hidden_size to 3 hidden_size */
    struct linear output; /* hidden_size to hidden_size */
    struct norm attention_norm;
    struct norm output_norm;
};

/* All weights but the token embedding and the feed-forward layers. */
struct bert_weights {
    float *position_embedding; /* [max_positions, hidden_size], to which that of token type 0 is
                                  added; with rotary positions token type 0's alone [hidden_size] */
    struct norm embedding_norm;
    struct bert_layer *layer; /* [layers] */
};

/* The load, load_layer and release of both architectures. */
wisp_status bert_load(struct network *network, wisp_error *error);
wisp_status bert_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void bert_release(struct network *network);

extern const struct architecture architecture_bert, architecture_nomic_bert;

#endif
