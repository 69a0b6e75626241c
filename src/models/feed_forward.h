/* SPDX-License-Identifier: Apache-2.0
 * The weights of one feed-forward layer, dense or sparse. */
#ifndef WISP_MODELS_FEED_FORWARD_H
#define WISP_MODELS_FEED_FORWARD_H

#include "layers/linear.h"
#include "models/model_config.h"
#include "sparse/ffn.h"

struct feed_forward {
    struct linear gate, up,
        down; /* empty where the layer is sparse; gate also where nothing is gated */
    struct sparse_ffn sparse; /* empty where the layer is dense */
};

/* What a model's feed-forward layers are loaded from. */
struct feed_forward_source {
    const struct directory *dir;
    const struct model_config *config;
    const struct kernels *kernels;
    bool int8;
    const struct sparse_plan *plan; /* NULL: layers are dense */
    struct neuron_store *neurons;   /* of sparse layers; must outlive them */
    struct tensor_cache *cache;
};

/* Reads the tensors blk.INDEX.ffn_*. Released with feed_forward_release, also after an error. */
wisp_status feed_forward_load(struct feed_forward *layer, const struct feed_forward_source *source,
                              size_t index, wisp_error *error);

void feed_forward_release(struct feed_forward *layer);

/* Bytes that the weights hold. */
size_t feed_forward_bytes(const struct feed_forward *layer);

#endif
