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

/* Reads the tensors blk.INDEX.ffn_*; as a sparse layer where `plan` is not NULL. Released with
 * feed_forward_release, also after an error. */
wisp_status feed_forward_load(struct feed_forward *layer, const struct directory *dir, size_t index,
                              const struct model_config *config, const struct kernels *kernels,
                              bool int8, const struct sparse_plan *plan, wisp_error *error);

void feed_forward_release(struct feed_forward *layer);

/* Bytes that the weights hold. */
size_t feed_forward_bytes(const struct feed_forward *layer);

#endif
