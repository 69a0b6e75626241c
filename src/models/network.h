/* SPDX-License-Identifier: Apache-2.0
 * A model's weights in memory, packed for a kernel set. */
#ifndef WISP_MODELS_NETWORK_H
#define WISP_MODELS_NETWORK_H

#include "layers/token_embedding.h"
#include "models/architecture.h"
#include "models/dense_modules.h"
#include "models/feed_forward.h"
#include "models/model_config.h"
#include "models/splade.h"
#include "sparse/expert_store.h"

/* Bytes of dense layers by the kind of their weights. */
enum { MAX_WEIGHT_KINDS = 12 };
struct weight_tally {
    const struct weight_kind *kind; /* NULL past the last */
    uint64_t bytes;
};

/* An embedding for each position of the longest text. */
struct positions {
    float *rows; /* [n, config_token_size] */
    size_t n;
};

struct network {
    const struct architecture *architecture;
    const struct directory *dir;
    const struct kernels *kernels;
    struct token_embedding tokens;
    struct positions *positions;       /* NULL: positions have no embeddings */
    struct feed_forward *feed_forward; /* [layers] */
    struct dense_modules dense;        /* after pooling */
    struct splade splade;              /* with POOLING_SPLADE; else empty */
    struct neuron_store neurons;       /* owns the neurons of sparse layers; empty otherwise */
    struct expert_store *experts;      /* owns those of layers of experts; NULL otherwise */
    struct gathered_pool *neuron_pool; /* of ffn_gate, if neurons may be absent; NULL otherwise */
    bool limits_experts;               /* they are read when a pass needs them */
    void *weights;                     /* all other weights, in a type of the architecture's own */
    wisp_compute compute;              /* as what dense layers multiply; never AUTO */
    size_t resident_bytes;             /* memory that all weights hold */
    struct rest *rest;                 /* which weights rest in the file (rest.h); NULL: none do */
    struct model_config config;
    struct weight_tally
        tally[MAX_WEIGHT_KINDS]; /* counts the layers that have been loaded so far */
};

#endif
