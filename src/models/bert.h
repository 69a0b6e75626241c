/* SPDX-License-Identifier: Apache-2.0
 * The BERT encoder with pooling, which MiniLM, BGE, GTE, E5 and similar models are, and its
 * variants nomic-bert, which has rotary positions and gated feed-forward layers, and mpnet, whose
 * scores have a bias by the distance of tokens. Sources: Devlin et al., BERT (2018); Nussbaum et
 * al., Nomic Embed (2024); pooling as in sentence-transformers. */
#ifndef WISP_MODELS_BERT_H
#define WISP_MODELS_BERT_H

#include "attention/disentangled.h"
#include "layers/linear.h"
#include "layers/norm.h"
#include "models/config_reader.h"
#include "models/distances.h"
#include "models/linears.h"
#include "models/relative_bias.h"

struct bert_layer {
    struct linear qkv;          /* W_qkv [3 hidden_size, hidden_size]: queries, keys, values */
    struct linear output;       /* W_o [hidden_size, hidden_size] */
    struct norm attention_norm; /* follows the attention block */
    struct norm output_norm;    /* follows the feed-forward block */
    struct disentangled parts;  /* of deberta-v2; empty without a span */
};

/* The weights that network->weights points to: all but the embeddings and the feed-forward layers,
 * which struct network holds. */
struct bert_weights {
    float *token_types; /* [token_types, hidden_size]; NULL if there are none, or if they are added
                           to the positions */
    float *second_type; /* [hidden_size]: what the tokens of a second text have more than those of
                           the first; NULL: nothing */
    struct relative_bias bias;  /* of mpnet and jina-bert-v2 */
    struct distances distances; /* of deberta-v2 */
    struct norm embedding_norm;
    struct linear projection; /* [hidden_size, token_size] of electra; empty without a token_size */
    float *rope_factors;      /* [head size / 2] of rope.h; NULL: positions are not scaled */
    struct bert_layer layer[]; /* [layers] */
};

extern const struct architecture architecture_bert, architecture_nomic_bert, architecture_mpnet;

/* ---- for architectures that compute the same (bert_variants.c) ------------------------------ */

/* Reads the hyper-parameters that most of them have. */
wisp_status bert_read_encoder(const struct config_reader *r);

extern const char *const bert_layer_tensors[], *const nomic_bert_tensors[],
                                                   *const nomic_bert_layer_tensors[];

/* The functions of struct architecture. */
size_t bert_linears(const struct network *network, uint32_t l, struct linear_entry *out);
wisp_status bert_load(struct network *network, wisp_error *error);
wisp_status bert_load_layer(struct network *network, uint32_t l, wisp_error *error);
void bert_release(struct network *network);
void bert_attention(const struct network *network, uint32_t layer, struct attention_shape *shape);
void bert_take(const struct network *network, const struct pass_size *size, struct workspace *space,
               struct pass *pass);
wisp_status bert_step(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error);

/* An architecture of this page, and its members alone. */
#define BERT(name, read_config, tensors, layer_tensors)                                            \
    {BERT_MEMBERS(name, read_config, tensors, layer_tensors)}
#define BERT_MEMBERS(its_name, its_read_config, its_tensors, its_layer_tensors)                    \
    .name = (its_name), .tensors = (its_tensors), .layer_tensors = (its_layer_tensors),            \
    .read_config = (its_read_config), .weights_bytes = sizeof(struct bert_weights),                \
    .layer_bytes = sizeof(struct bert_layer), .linears = bert_linears, .load = bert_load,          \
    .load_layer = bert_load_layer, .release = bert_release, .attention = bert_attention,           \
    .take = bert_take, .step = bert_step

#endif
