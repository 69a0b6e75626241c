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

enum { CONFIG_MAX_LAYERS = 1024 };

/* YaRN divides the angles of pairs that turn less than beta_slow times in `context`, the number of
 * tokens that the model was first trained with. It keeps the angles of pairs that turn more than
 * beta_fast times, and interpolates for the pairs between. Source: Peng et al., YaRN (2023), as
 * transformers computes it. */
struct rope_yarn {
    uint32_t context; /* 0: no YaRN */
    float beta_fast, beta_slow;
};

struct model_config {
    uint32_t hidden_size, intermediate_size, layers, heads, vocabulary_size;
    uint32_t kv_heads;  /* fewer than heads: grouped-query attention */
    uint32_t head_size; /* hidden_size / heads in most models */
    uint32_t max_positions, token_types;
    float norm_epsilon; /* of layer norms or RMS norms */
    enum activation activation;
    float rope_theta; /* base of rotary positions; 0 where each position has an embedding */
    enum rope_pairs rope_pairs;
    bool fused_qkv; /* the file stacks W_q, W_k and W_v in one tensor */
    bool has_bias;  /* dense layers add a bias */
    bool
        has_qkv_bias; /* the layers of queries, keys and values add a bias, even without has_bias */
    bool has_qk_norm; /* the queries and keys of each head go through an RMS norm */
    enum pooling pooling;
    bool normalize; /* embeddings are scaled to length 1 */

    /* Only of decoders: */
    float attention_scale; /* of scores */
    float attention_cap;   /* scores are bounded by it softly (attention.h); 0: they are not */
    float logit_cap;       /* logits are bounded by it in the same way */
    uint32_t window;       /* keys that a token sees in local layers; 0: no layer is local */
    uint64_t local_layers[CONFIG_MAX_LAYERS / 64]; /* a bit for each layer, set where it is local */
    float local_rope_theta; /* of local layers; 0: rope_theta is that of all layers */
    float rope_divisor;    /* divides the angles of rope_theta, which scales positions; usually 1 */
    struct rope_yarn yarn; /* says which of these angles are divided: all where its context is 0 */
    /* LongRoPE: sequences of more tokens than this have other factors of their angles than shorter
     * ones. 0: all sequences have the same factors. */
    uint32_t long_after;
    float rope_length;  /* multiplies cosines and sines; usually 1 */
    uint32_t conv_taps; /* tokens that a short convolution sees; 0: no layer has one */
    uint64_t conv_layers[CONFIG_MAX_LAYERS / 64]; /* a bit for each layer, set where a convolution
                                                     takes the place of attention */
};

/* Returns whether the tokens of a layer see only the last `window` keys. */
static inline bool config_is_local(const struct model_config *config, uint32_t layer) {
    return layer < config->layers && config->local_layers[layer / 64] >> layer % 64 & 1;
}

/* Returns whether a layer has a short convolution in the place of attention. */
static inline bool config_is_conv(const struct model_config *config, uint32_t layer) {
    return layer < config->layers && config->conv_layers[layer / 64] >> layer % 64 & 1;
}

/* Returns how many of the layers before `layer` have a convolution. */
static inline uint32_t config_conv_layer(const struct model_config *config, uint32_t layer) {
    uint32_t count = 0;
    for (uint32_t l = 0; l < layer; l++)
        count += config_is_conv(config, l);
    return count;
}

/* Returns how many of the layers before `layer` have attention, which is a layer's index in
 * key-value caches. */
static inline uint32_t config_kv_layer(const struct model_config *config, uint32_t layer) {
    return config->conv_taps == 0 ? layer : layer - config_conv_layer(config, layer);
}

static inline bool config_is_gated(const struct model_config *config) {
    return activation_is_gated(config->activation);
}

#endif
