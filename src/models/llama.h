/* SPDX-License-Identifier: Apache-2.0
 * The Llama decoder, versions 1 to 3: RMS norms before blocks, rotary positions, grouped-query
 * attention, gated SiLU layers, no biases. Qwen2 adds biases to queries, keys and values. Qwen3 has
 * none, and normalises the queries and keys of each head. Sources: Touvron et al., LLaMA (2023) and
 * Llama 2 (2023); Qwen Team, Qwen2 (2024) and Qwen3 (2025); names of keys and tensors as in
 * llama.cpp's files, whose rotary pairs are neighbours for Llama and halves for Qwen. */
#ifndef WISP_MODELS_LLAMA_H
#define WISP_MODELS_LLAMA_H

#include "models/decoder_attention.h"
#include "models/decoder_load.h"

struct llama_layer {
    float *attention_norm, *feed_forward_norm; /* [hidden_size]: weights of the RMS norms */
    struct decoder_attention attention;
};

/* The weights that network->weights points to: all but the token embedding and the feed-forward
 * layers, which struct network holds. */
struct llama_weights {
    struct decoder_weights common;
    struct llama_layer *layer; /* [layers] */
};

/* Functions of struct architecture (architecture.h). */
wisp_status llama_load(struct network *network, wisp_error *error);
wisp_status llama_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void llama_release(struct network *network);

extern const struct architecture architecture_llama, architecture_qwen2, architecture_qwen3;

#endif
