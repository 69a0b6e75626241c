/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters of a model, under the names that papers and Hugging Face's config.json use. */
#ifndef WISP_MODELS_MODEL_CONFIG_H
#define WISP_MODELS_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "attention/rope.h"
#include "kernels/activation.h"

/* Pooling makes one embedding of a text's hidden states. The numbers are those of llama.cpp. */
enum pooling { POOLING_MEAN = 1, POOLING_CLS = 2 };

struct model_config {
    uint32_t hidden_size, intermediate_size, layers, heads, vocabulary_size;
    uint32_t kv_heads;  /* fewer than heads: grouped-query attention */
    uint32_t head_size; /* hidden_size / heads in most models */
    uint32_t max_positions, token_types;
    float norm_epsilon; /* of layer norms, or RMS norms */
    enum activation activation;
    float rope_theta;  /* base of rotary positions; 0 where each position has an embedding */
    float rope_factor; /* at least 1: angles of rotary positions are divided by it */
    enum rope_pairs rope_pairs;
    bool fused_qkv;    /* the file stacks W_q, W_k and W_v in one tensor */
    bool has_bias;     /* dense layers add a bias */
    bool has_qkv_bias; /* the layers of queries, keys and values add one, whatever has_bias says */
    bool has_qk_norm;  /* the queries and keys of each head go through an RMS norm */
    enum pooling pooling;
    bool normalize; /* embeddings are scaled to length 1 */
};

static inline bool config_is_gated(const struct model_config *config) {
    return config->activation == ACTIVATION_GATED_SILU;
}

#endif
