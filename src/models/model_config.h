/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters of a model, under the names that papers and Hugging Face's config.json use. */
#ifndef WISP_MODELS_MODEL_CONFIG_H
#define WISP_MODELS_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/activation.h"

/* How a text's hidden states become one embedding. The numbers are llama.cpp's. */
enum pooling { POOLING_MEAN = 1, POOLING_CLS = 2 };

struct model_config {
    uint32_t hidden_size, intermediate_size, layers, heads, vocabulary_size;
    uint32_t max_positions, token_types;
    float layer_norm_epsilon;
    enum activation activation;
    float rope_theta; /* of rotary positions; 0: each position has an embedding instead */
    bool fused_qkv;   /* queries, keys and values are one tensor rather than three */
    bool has_bias;    /* dense layers add one */
    enum pooling pooling;
    bool normalize; /* embeddings have length 1 */
};

static inline bool config_is_gated(const struct model_config *config) {
    return config->activation == ACTIVATION_GATED_SILU;
}

#endif
