/* SPDX-License-Identifier: Apache-2.0
 * The GPT-2 decoder: an embedding for each position, layer norms before blocks, one layer for
 * queries, keys and values, GELU with tanh, biases everywhere. StarCoder2 has rotary positions
 * instead of embeddings, and grouped-query attention. Sources: Radford et al., Language Models are
 * Unsupervised Multitask Learners (2019); Lozhkov et al., StarCoder 2 and The Stack v2 (2024);
 * names of keys and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_GPT2_H
#define WISP_MODELS_GPT2_H

#include "layers/norm.h"
#include "models/decoder_attention.h"

struct gpt2_layer {
    struct norm attention_norm, feed_forward_norm;
    struct decoder_attention attention;
};

/* The weights that network->weights points to: all but the embeddings and the feed-forward layers,
 * which struct network holds. */
struct gpt2_weights {
    struct rope rope; /* its theta is 0 if positions have embeddings */
    struct norm output_norm;
    struct linear logits; /* [vocabulary_size, hidden_size]: output.weight, or the token embedding
                             if there is none */
    struct gpt2_layer layer[]; /* [layers] */
};

/* The members of a struct architecture that the families of this page share. */
#define GPT2_PAGE                                                                                  \
    .generates = true, .by_outputs = true, .norms_first = true,                                    \
    .weights_bytes = sizeof(struct gpt2_weights), .layer_bytes = sizeof(struct gpt2_layer),        \
    .linears = gpt2_linears, .load = gpt2_load, .load_layer = gpt2_load_layer,                     \
    .release = gpt2_release, .attention = decoder_attention_shape, .take = decoder_take,           \
    .rope = gpt2_rope, .step = gpt2_step

/* Computes state->h += state->y and state->x = layer_norm(state->h) for some tokens. */
void gpt2_add_and_norm(const struct pass *pass, struct pass_tokens own, const struct norm *norm);

size_t gpt2_linears(const struct network *network, uint32_t layer, struct linear_entry *out);
wisp_status gpt2_load(struct network *network, wisp_error *error);
wisp_status gpt2_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void gpt2_release(struct network *network);
void gpt2_rope(const struct network *network, struct rope *rope);
wisp_status gpt2_step(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error);

extern const struct architecture architecture_gpt2, architecture_starcoder2;

#endif
