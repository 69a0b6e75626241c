/* SPDX-License-Identifier: Apache-2.0
 * The attention block of decoders, from the norm of the hidden states to what is added to them:
 * y = W_o attention(W_q x, W_k x, W_v x), over the key-value caches. */
#ifndef WISP_MODELS_DECODER_ATTENTION_H
#define WISP_MODELS_DECODER_ATTENTION_H

#include "models/decoder.h"

struct decoder_attention {
    /* W_q [heads * head_size, hidden_size]. With config.fused_qkv W_q, W_k and W_v are stacked
     * here, and kv is empty. */
    struct linear q;
    struct linear kv;     /* W_k, then W_v, each [kv_heads * head_size, hidden_size] */
    struct linear output; /* W_o [hidden_size, heads * head_size] */
    /* [head_size], or with config.wide_qk_norm as many as W_q and W_k have outputs: weights of RMS
     * norms; NULL if there are none. */
    float *q_norm, *k_norm;
    float *sinks;                    /* [heads]: see attention.h; NULL if there are none */
    struct latent_attention *latent; /* deepseek2.c: in the place of all of these; else NULL */
};

/* The `attention` of a decoder (architecture.h): a token sees itself and all tokens before it, or
 * in local layers only the last config.window of these. With config.sees_all it sees tokens on both
 * sides. Of a model that embeds, network->weights begins with a struct decoder_weights. */
void decoder_attention_shape(const struct network *network, uint32_t layer,
                             struct attention_shape *shape);

/* Lists the dense layers: attn_qkv, or attn_q, and attn_k with attn_v; and attn_output. Returns
 * their number. */
size_t decoder_attention_linears(const struct model_config *config,
                                 struct decoder_attention *weights, struct linear_entry *out);

/* Loads attn_q_norm and attn_k_norm of layer `layer` with config.has_qk_norm. Adds their bytes to
 * network->resident_bytes. The caller releases the norms, also after an error. */
wisp_status decoder_attention_load(struct network *network, uint32_t layer,
                                   struct decoder_attention *weights, wisp_error *error);

void decoder_attention_release(struct decoder_attention *weights);

/* Does the part between dense layers of decoder_attention_run: from the queries, keys and values of
 * state->q and state->kv to state->context. A member whose `status` is an error attends to nothing.
 * Returns the member's status. Of `weights` only norms and sinks are used. */
wisp_status decoder_attend(struct pass *pass, uint32_t member, struct cursor at,
                           const struct decoder_attention *weights, const struct rope *rope,
                           wisp_status status, wisp_error *error);

/* Computes state->y from state->x, over the key-value caches or, of a model that embeds, within
 * each text. `rope` rotates queries and keys, unless its theta is 0 or config.no_rope_step says
 * that the layer does not rotate. If it returns WISP_OK, it does so for all members, and each may
 * change the hidden states of its tokens.
 */
wisp_status decoder_attention_run(struct pass *pass, uint32_t member, struct cursor at,
                                  const struct decoder_attention *weights, const struct rope *rope,
                                  wisp_error *error);

#endif
