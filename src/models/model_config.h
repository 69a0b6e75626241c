/* SPDX-License-Identifier: Apache-2.0
 * Hyper-parameters of a model, under the names that papers and Hugging Face's config.json use. */
#ifndef WISP_MODELS_MODEL_CONFIG_H
#define WISP_MODELS_MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "attention/rope.h"
#include "formats/schema.h"
#include "kernels/activation.h"

/* Pooling makes one embedding of a text's hidden states. The numbers are those of llama.cpp. */
enum pooling {
    POOLING_NONE = 0, /* the model continues texts */
    POOLING_MEAN = 1,
    POOLING_CLS = 2,
    POOLING_LAST = 3, /* that of the last token; only of decoders */
    POOLING_RANK = 4, /* one of the first two, of which a head makes scores of texts or pairs */
    POOLING_SPLADE =
        POOLING_TYPE_SPLADE,             /* all, of which a head makes values of words (splade.h) */
    POOLING_TOKENS = POOLING_TYPE_TOKENS /* none: each token has a vector (token_vectors.h) */
};

/* The places of norms beside blocks. */
enum norm_places {
    NORMS_BEFORE, /* of what a block reads */
    NORMS_AFTER,  /* of its outputs, before they are added to the hidden states */
    NORMS_AROUND  /* of both */
};

enum { CONFIG_MAX_LAYERS = 1024 };

/* How a router turns its outputs, one for each expert, into weights. */
enum expert_gate { EXPERTS_SOFTMAX = 1, EXPERTS_SIGMOID = 2 }; /* the numbers of llama.cpp */

/* Feed-forward layers of experts: a router chooses `used` of them for each token. */
struct expert_config {
    uint32_t count; /* 0: there are none */
    uint32_t used;
    uint32_t size;        /* neurons of an expert */
    uint32_t first_layer; /* layers before it are dense */
    uint32_t step;        /* from first_layer on, each layer of this number has some; 0: all have */
    uint32_t shared;      /* neurons of those that all tokens use; 0: there are none */
    bool may_share;       /* the architecture's page reads `shared` */
    enum expert_gate gate; /* of which the weights of experts are made */
    bool has_bias;  /* a bias is added to the values that decide the choice, not to the weights */
    bool adds_bias; /* the router and the matrices of experts have biases */
    bool adds_sum_bias; /* a bias is added to the sum of a token's experts */
    bool normalised;    /* the weights of the chosen experts are divided by their sum */
    float scale;        /* multiplies the weights */
};

/* Latent attention (latent_attention.h). */
struct latent_config {
    uint32_t rank;       /* values of a token's latent; 0: there is no such attention */
    uint32_t q_rank;     /* of what queries are made of; 0: they are made of the hidden states */
    uint32_t key_size;   /* of a head's query and key, those that rotate included */
    uint32_t value_size; /* of a head's value */
};

/* Disentangled attention (attention/disentangled.h). */
struct disentangled_config {
    bool to_position, to_content; /* the parts of scores, for which these are divided by more */
    uint32_t span;                /* half of the embeddings of distances; 0: scores have no parts */
    /* Distances beyond half of these share embeddings by their logarithm, so that `most` - 1 has
     * the last one; 0: none do, and distances beyond the last embedding have it. */
    uint32_t buckets, most;
    bool has_norm; /* the embeddings go through a norm */
    bool has_own;  /* they have matrices of their own, else those of keys and queries */
};

/* YaRN divides the angles of pairs that turn less than beta_slow times in `context`, the number of
 * tokens that the model was first trained with. It keeps the angles of pairs that turn more than
 * beta_fast times, and interpolates for the pairs between. Source: Peng et al., YaRN (2023), as
 * transformers computes it. */
struct rope_yarn {
    uint32_t context; /* 0: no YaRN */
    float beta_fast, beta_slow;
    bool between_pairs; /* the limits may be between pairs; else they are widened to whole ones */
};

struct model_config {
    uint32_t hidden_size, intermediate_size, layers, heads, vocabulary_size;
    uint32_t kv_heads;  /* fewer than heads: grouped-query attention */
    uint32_t head_size; /* hidden_size / heads in most models */
    uint32_t max_positions, token_types;
    uint32_t token_size; /* values of the embeddings of tokens, positions and types, if a dense
                            layer makes hidden states of their sum; 0: hidden_size */
    float norm_epsilon;  /* of layer norms or RMS norms */
    enum activation activation;
    float rope_theta; /* base of rotary positions; 0 if each position has an embedding */
    enum rope_pairs rope_pairs;
    uint32_t rotary_size;  /* values of a head that are rotated: the first ones, usually all */
    bool fused_qkv;        /* the file stacks W_q, W_k and W_v in one tensor */
    bool has_bias;         /* dense layers add a bias */
    bool has_bare_neurons; /* but those that make neurons do not */
    bool
        has_qkv_bias; /* the layers of queries, keys and values add a bias, even without has_bias */
    bool has_qk_norm; /* the queries and keys of each head go through an RMS norm */
    bool has_sub_norms;     /* RMS norms of what attention's and the feed-forward layer's last dense
                               layers read */
    bool has_relative_bias; /* scores have a bias by the distance of key and query */
    bool has_slopes;        /* each head has a slope, by which scores fall with the distance */
    bool lacks_positions;   /* positions have no embeddings, even without rope_theta */
    struct disentangled_config disentangled;
    bool wide_qk_norm; /* one norm is of the queries of all heads, and one of the keys */
    enum pooling pooling;
    bool ranks_mean; /* of POOLING_RANK: its head reads the mean of tokens, not CLS */
    bool normalize;  /* embeddings are scaled to length 1 */

    /* Only of decoders: */
    bool sees_all; /* tokens see those after them, too; only of models that embed */
    enum norm_places norms;
    bool may_be_parallel; /* the file says whether is_parallel, which others must not be */
    bool is_parallel;     /* both blocks of a layer read norms of the same hidden states */
    bool has_experts;     /* of the architecture; the file says how many */
    struct expert_config experts;
    struct latent_config
        latent;            /* of caches kv_heads is 1 then, and head_size rank + rotary_size */
    bool has_scales;       /* the file has the three numbers that follow */
    float embedding_scale; /* multiplies token embeddings; 0: nothing does, as for the next two */
    float residual_scale;  /* multiplies the outputs of blocks before the hidden states get them */
    float logit_scale;     /* multiplies logits */
    float attention_scale; /* of scores */
    /* Queries are multiplied by 1 + growth * log(1 + floor(position / step)). 0: they are not. */
    float query_growth;
    uint32_t query_growth_step;
    float attention_cap; /* scores are bounded by it softly (attention.h); 0: they are not */
    float logit_cap;     /* logits are bounded by it in the same way */
    /* Keys that a token sees in local layers; 0: no layer is local. With sees_all, half of them are
     * before the token, and as many after it. */
    uint32_t window;
    uint64_t local_layers[CONFIG_MAX_LAYERS / 64]; /* a bit for each layer, set if it is local */
    float local_rope_theta; /* of local layers; 0: rope_theta is that of all layers */
    float rope_divisor;    /* divides the angles of rope_theta, which scales positions; usually 1 */
    struct rope_yarn yarn; /* says which of these angles are divided: all if its context is 0 */
    /* LongRoPE: sequences of more tokens than this have other factors of their angles than shorter
     * ones. 0: all sequences have the same factors. */
    uint32_t long_after;
    uint32_t no_rope_step; /* each layer of this number, counted from 1, does not rotate; 0: none */
    float rope_length;     /* multiplies cosines and sines; usually 1 */
    uint32_t conv_taps;    /* tokens that a short convolution sees; 0: no layer has one */
    uint64_t conv_layers[CONFIG_MAX_LAYERS / 64]; /* a bit for each layer, set if a convolution
                                                     takes the place of attention */
};

/* Returns whether the model makes an embedding or a score of a text, rather than continue it. */
static inline bool config_embeds(const struct model_config *config) {
    return config->pooling != POOLING_NONE;
}

/* Returns whether the tokens of a layer see only keys of the window. */
static inline bool config_is_local(const struct model_config *config, uint32_t layer) {
    return layer < config->layers && config->local_layers[layer / 64] >> layer % 64 & 1;
}

/* Returns whether a layer has a short convolution instead of attention. */
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

/* Returns whether the feed-forward layer of a layer consists of experts. */
static inline bool config_is_experts(const struct model_config *config, uint32_t layer) {
    const struct expert_config *e = &config->experts;
    return e->count > 0 && layer >= e->first_layer &&
           (e->step == 0 || (layer - e->first_layer) % e->step == 0);
}

/* Returns how many layers have experts. */
static inline uint32_t config_expert_layers(const struct model_config *config) {
    uint32_t count = 0;
    for (uint32_t l = 0; l < config->layers; l++)
        count += config_is_experts(config, l);
    return count;
}

/* Returns the number of values of a token's embedding. */
static inline uint32_t config_token_size(const struct model_config *config) {
    return config->token_size ? config->token_size : config->hidden_size;
}

/* Returns whether the dense layers that make neurons add a bias. */
static inline bool config_biases_neurons(const struct model_config *config) {
    return config->has_bias && !config->has_bare_neurons;
}

static inline bool config_is_gated(const struct model_config *config) {
    return activation_is_gated(config->activation);
}

#endif
