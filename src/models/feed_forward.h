/* SPDX-License-Identifier: Apache-2.0
 * The weights of one feed-forward layer, dense or sparse. */
#ifndef WISP_MODELS_FEED_FORWARD_H
#define WISP_MODELS_FEED_FORWARD_H

#include "layers/linear.h"
#include "models/model_config.h"
#include "sparse/ffn.h"

struct feed_forward {
    /* These three are empty where the layer is sparse. */
    struct linear gate;     /* W_gate [intermediate_size, hidden_size]; empty in ungated layers */
    struct linear up, down; /* W_up has W_gate's shape; W_down [hidden_size, intermediate_size] */
    /* This one is empty where the layer is dense. */
    struct sparse_ffn sparse;
};

/* The source of all feed-forward layers of a model, and how they are to compute. */
struct feed_forward_source {
    const struct directory *dir;
    const struct model_config *config;
    const struct kernels *kernels;
    bool int8;                      /* dense layers multiply in int8 where weights allow it */
    const struct sparse_plan *plan; /* NULL makes the layers dense */
    struct neuron_store *neurons;   /* owns the neurons of sparse layers; must outlive them */
    struct tensor_cache *cache;     /* serves one layer after the other */
};

/* Reads the tensors blk.INDEX.ffn_* of layer `index`. Fails where a tensor is missing, has another
 * shape or an unsupported type, or cannot be read. The caller releases the layer with
 * feed_forward_release, also after an error. */
wisp_status feed_forward_load(struct feed_forward *layer, const struct feed_forward_source *source,
                              size_t index, wisp_error *error);

void feed_forward_release(struct feed_forward *layer);

/* Returns the bytes that the weights of the layer hold, without neurons in a neuron store. */
size_t feed_forward_bytes(const struct feed_forward *layer);

#endif
