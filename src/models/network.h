/* SPDX-License-Identifier: Apache-2.0
 * A model's weights in memory, packed for a kernel set. */
#ifndef WISP_MODELS_NETWORK_H
#define WISP_MODELS_NETWORK_H

#include "layers/token_embedding.h"
#include "models/architecture.h"
#include "models/feed_forward.h"
#include "models/model_config.h"

/* Bytes of dense layers by the kind of their weights. */
enum { MAX_WEIGHT_KINDS = 12 };
struct weight_tally {
    const struct weight_kind *kind; /* NULL past the last */
    uint64_t bytes;
};

struct network {
    const struct architecture *architecture;
    const struct directory *dir;
    const struct kernels *kernels;
    struct token_embedding tokens;
    struct feed_forward *feed_forward; /* [layers] */
    struct neuron_store neurons;       /* owns the neurons of sparse layers; empty otherwise */
    void *weights;                     /* all other weights, in a type of the architecture's own */
    bool int8;                         /* dense layers multiply in int8 */
    bool sparse;                       /* feed-forward layers skip neurons */
    bool sparse_by_text;               /* a predictor chooses neurons once for each text */
    size_t predictor_rank;             /* the largest rank of any layer; 0 without predictors */
    size_t resident_bytes;             /* memory that all weights hold */
    struct rest *rest;                 /* which weights rest in the file (rest.h); NULL: none do */
    struct model_config config;
    struct weight_tally
        tally[MAX_WEIGHT_KINDS]; /* counts the layers that have been loaded so far */
};

#endif
