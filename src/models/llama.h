/* SPDX-License-Identifier: Apache-2.0
 * The Llama decoder, versions 1 to 3: RMS norms before blocks, rotary positions, grouped-query
 * attention, gated SiLU layers, no biases. Qwen2 adds biases to queries, keys and values. Qwen3 has
 * none, and normalises the queries and keys of each head. Sources: Touvron et al., LLaMA (2023) and
 * Llama 2 (2023); Qwen Team, Qwen2 (2024) and Qwen3 (2025); names of keys and tensors as in
 * llama.cpp's files, whose rotary pairs are neighbours for Llama and halves for Qwen. */
#ifndef WISP_MODELS_LLAMA_H
#define WISP_MODELS_LLAMA_H

#include "models/decoder_attention.h"
#include "models/decoder_config.h"

struct llama_layer {
    /* [hidden_size]: weights of the RMS norms before and after the blocks. Of these a family has
     * those that config.norms says; the others are NULL. */
    float *attention_norm, *attention_post_norm, *feed_forward_norm, *feed_forward_post_norm;
    struct decoder_attention attention;
};

/* The weights that network->weights points to: all but the token embedding and the feed-forward
 * layers, which struct network holds. */
struct llama_weights {
    struct decoder_weights common;
    struct llama_layer layer[]; /* [layers] */
};

/* Reads the hyper-parameters of a family whose config.json is Llama's but for what `config` says,
 * which has the family's defaults. A file without gates must name an activation of ungated layers.
 */
wisp_status llama_read_decoder(const struct config_reader *reader);

/* llama.cpp's rope_theta for files that have none. */
#define LLAMA_USUAL_THETA 10000

/* The tensors outside of layers, and those of every family within layers. */
extern const char *const llama_tensors[];
#define LLAMA_LAYER_TENSORS LLAMA_ATTENTION_TENSORS, TENSOR_FFN_GATE, TENSOR_FFN_UP, TENSOR_FFN_DOWN
#define LLAMA_EXPERT_TENSORS                                                                       \
    LLAMA_ATTENTION_TENSORS, TENSOR_ROUTER, TENSOR_GATE_EXPERTS, TENSOR_UP_EXPERTS,                \
        TENSOR_DOWN_EXPERTS
#define LLAMA_ATTENTION_TENSORS "attn_q", "attn_k", "attn_v", "attn_output"

/* The members of a struct architecture that the families of this page share, and those of them that
 * a family with tensors of its own within layers shares. */
#define LLAMA_PAGE LLAMA_PAGE_BUT_LAYERS, .load_layer = llama_load_layer
#define LLAMA_PAGE_BUT_LAYERS                                                                      \
    .generates = true, .by_outputs = true, .norms_first = true,                                    \
    .weights_bytes = sizeof(struct llama_weights), .layer_bytes = sizeof(struct llama_layer),      \
    .linears = llama_linears, .load = llama_load, .release = llama_release,                        \
    .attention = decoder_attention_shape, .take = decoder_take, .rope = decoder_rope,              \
    .step = llama_step

size_t llama_linears(const struct network *network, uint32_t layer, struct linear_entry *out);
wisp_status llama_load(struct network *network, wisp_error *error);
wisp_status llama_load_layer(struct network *network, uint32_t layer, wisp_error *error);
void llama_release(struct network *network);
wisp_status llama_step(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error);

extern const struct architecture architecture_llama, architecture_qwen2, architecture_qwen3;

#endif
