/* SPDX-License-Identifier: Apache-2.0
 * The GPT-2 decoder: an embedding for each position, layer norms before blocks, one layer for
 * queries, keys and values, GELU with tanh, biases everywhere.
 * Source: Radford et al., Language Models are Unsupervised Multitask Learners (2019); names of keys
 * and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_GPT2_H
#define WISP_MODELS_GPT2_H

#include "layers/norm.h"
#include "models/decoder_attention.h"

struct gpt2_layer {
    struct norm attention_norm, feed_forward_norm;
    struct decoder_attention attention;
};

/* The weights that network->weights points to: all but the token embedding and the feed-forward
 * layers, which struct network holds. */
struct gpt2_weights {
    float *position_embedding; /* [max_positions, hidden_size] */
    struct norm output_norm;
    struct linear logits; /* [vocabulary_size, hidden_size]: output.weight, or the token embedding
                             where there is none */
    struct gpt2_layer *layer; /* [layers] */
};

/* Functions of struct architecture (architecture.h). */
wisp_status gpt2_load(struct network *network, wisp_error *error);
wisp_status gpt2_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void gpt2_release(struct network *network);

extern const struct architecture architecture_gpt2;

#endif
