/* SPDX-License-Identifier: Apache-2.0
 * The BERT encoder with pooling: MiniLM, BGE, GTE, E5 and their like, and nomic-bert, whose
 * positions are rotary and whose feed-forward layers are gated.
 * Sources: Devlin et al., BERT (2018); Nussbaum et al., Nomic Embed (2024); pooling as in
 * sentence-transformers. */
#ifndef WISP_MODELS_BERT_H
#define WISP_MODELS_BERT_H

#include "base/pool.h"
#include "base/trace.h"
#include "kernels/activation.h"
#include "layers/linear.h"
#include "sparse/ffn.h"

enum bert_pooling { BERT_POOL_MEAN = 1, BERT_POOL_CLS = 2 };

struct bert_config {
    const char *architecture; /* "bert" or "nomic-bert": the prefix of its keys */
    uint32_t hidden_size, intermediate_size, layers, heads, vocabulary_size;
    uint32_t max_positions, token_types;
    float layer_norm_epsilon;
    enum activation activation;
    bool rotary;       /* positions turn queries and keys; else each has an embedding */
    float rotary_base; /* see attention/rotary.h */
    bool fused_qkv;    /* one tensor rather than three */
    bool unbiased;     /* dense layers */
    enum bert_pooling pooling;
    bool normalize;
};

struct norm {
    float *weight, *bias; /* [hidden_size] */
};

struct bert_layer {
    struct linear qkv;    /* hidden_size to 3 hidden_size */
    struct linear output; /* hidden_size to hidden_size */
    struct norm attention_norm;
    struct linear gate;       /* hidden_size to intermediate_size; empty where nothing is gated */
    struct linear up;         /* likewise; empty where the model is sparse, as gate and down are */
    struct linear down;       /* and back */
    struct sparse_ffn sparse; /* all in one; empty where the model is dense */
    struct norm output_norm;
};

struct bert {
    const struct directory *dir;
    struct bert_config config;
    const struct kernels *kernels;
    const struct tensor *token_embedding; /* [vocabulary_size, hidden_size], as in the file */
    const void *token_rows;               /* its bytes; NULL: read from `dir` as needed */
    void *owned_token_rows;               /* the same where they are a copy, else NULL */
    float *position_embedding; /* [max_positions, hidden_size], with token type 0 added; with rotary
                                  positions that alone, [hidden_size] */
    struct norm embedding_norm;
    struct bert_layer *layer;    /* [layers] */
    struct neuron_store neurons; /* of sparse layers */
    bool sparse;                 /* feed-forward layers */
    size_t rank;                 /* the largest of their predictors */
    bool by_text;                /* they choose neurons once for a text */
    size_t resident_bytes;
};

/* Who computes a part of a batch, and where is noted what it did. */
struct bert_member {
    struct trace *trace;          /* is told of each stage; may be NULL */
    struct sparse_counts *counts; /* [layers], to be added to; may be NULL */
};

enum { BERT_MOST_MEMBERS = 16 };

/* Texts packed one after the other, without padding. */
struct bert_batch {
    size_t texts;
    const int32_t *ids;    /* [tokens], each below vocabulary_size */
    const size_t *starts;  /* [texts + 1]: text i is ids[starts[i] .. starts[i + 1]) */
    const size_t *skipped; /* [texts]: leading tokens that mean pooling leaves out; NULL for none */
    /* The members of `team` share the tokens; team is NULL where there is but one. */
    struct bert_member member[BERT_MOST_MEMBERS];
    uint32_t members;
    struct pool *team;
    /* For sparse models: thresholds [layers, wide]; NULL where their layers have no predictor. */
    const float *thresholds;
    /* Of a batch with one member: called with what goes into each feed-forward layer, [tokens,
     * hidden_size]; may be NULL. */
    void (*observe)(void *observer, size_t layer, const float *x);
    void *observer;
};

/* Reads and checks the hyper-parameters. */
wisp_status bert_read_config(const struct directory *dir, struct bert_config *config,
                             wisp_error *error);

/* Reads all weights; the feed-forward layers as sparse ones where `plan` is not NULL. `dir` must
 * outlive the model, whose token embedding stays in the file where that is in memory. */
wisp_status bert_load(struct bert *model, const struct directory *dir,
                      const struct kernels *kernels, bool int8, const struct sparse_plan *plan,
                      wisp_error *error);

void bert_release(struct bert *model);

/* Working memory for batches of up to `tokens` tokens, the longest text having `longest`, that so
 * many members share; false where it cannot be addressed. */
bool bert_workspace_bytes(const struct bert *model, size_t tokens, size_t longest, uint32_t members,
                          size_t *bytes);

/* Embeds the batch: rows [texts, hidden_size]. Fails only where tokens' rows have to be read and
 * cannot be. `hidden`, where it is not NULL, is called with the hidden states
 * [tokens, hidden_size] after the embeddings (layer 0) and after each layer, of a batch with one
 * member. However many share the tokens, results have the same bits. */
wisp_status bert_forward(const struct bert *model, const struct bert_batch *batch, float *rows,
                         struct workspace *space,
                         void (*hidden)(void *context, size_t layer, const float *states),
                         void *context, wisp_error *error);

#endif
