/* SPDX-License-Identifier: Apache-2.0
 * Multi-head latent attention: all heads' keys and values of a token are made of one latent, and
 * beside it stands one rotated part of keys. The latent and that part are what caches hold, as the
 * only key and the only value of a token: W_k_b, which would make a head's key of a latent, is
 * applied to the head's query instead, and W_v_b, which would make its value, to the result of
 * attention. Source: DeepSeek-AI, DeepSeek-V2 (2024), 2.1. */
#ifndef WISP_MODELS_LATENT_ATTENTION_H
#define WISP_MODELS_LATENT_ATTENTION_H

#include "models/decoder_attention.h"

/* The sizes are those of config.latent; a head of the caches has a latent and a rotated part. */
struct latent_attention {
    /* Queries: W_q_b norm(W_q_a x). Without config.latent.q_rank q_a is empty and q_b reads x. */
    struct linear q_a; /* [q_rank, hidden_size] */
    struct linear q_b; /* [heads * key_size, q_rank]: of each head its part that is not rotated, and
                          the one that is */
    struct linear kv_a;   /* [head_size, hidden_size]: the latent, then the rotated part */
    struct linear output; /* W_o [hidden_size, heads * value_size] */
    struct linear *k_b;   /* [heads]: [rank, key_size - rotary_size] */
    struct linear *v_b;   /* [heads]: [value_size, rank] */
    float *norm;          /* [rank]: weight of the RMS norm of latents */
};

/* The names of tensors within layers. */
#define LATENT_TENSORS                                                                             \
    "attn_q", "attn_q_a", "attn_q_a_norm", "attn_q_b", "attn_kv_a_mqa", "attn_kv_a_norm",          \
        "attn_k_b", "attn_v_b", "attn_output"

/* Lists the dense layers but those of single heads. Returns their number. */
size_t latent_attention_linears(const struct model_config *config, struct latent_attention *weights,
                                struct linear_entry *out);

/* Loads the others. The caller releases them, also after an error. */
wisp_status latent_attention_load(struct network *network, uint32_t layer,
                                  struct latent_attention *weights, wisp_error *error);

void latent_attention_release(const struct model_config *config, struct latent_attention *weights);

/* Does what decoder_attention_run does. */
wisp_status latent_attention_run(struct pass *pass, uint32_t member, struct cursor at,
                                 const struct latent_attention *weights, const struct rope *rope,
                                 wisp_error *error);

#endif
