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
    struct linear kv;       /* W_k, then W_v, each [kv_heads * head_size, hidden_size] */
    struct linear output;   /* W_o [hidden_size, heads * head_size] */
    float *q_norm, *k_norm; /* [head_size]: weights of RMS norms; NULL where heads have none */
};

/* Loads the tensors of layer `layer`: attn_qkv, or attn_q, attn_k and attn_v; attn_output; and
 * attn_q_norm and attn_k_norm with config.has_qk_norm. Adds their bytes to network->resident_bytes.
 * The caller releases the weights, also after an error. */
wisp_status decoder_attention_load(struct network *network, uint32_t layer,
                                   struct decoder_attention *weights, wisp_error *error);

void decoder_attention_release(struct decoder_attention *weights);

/* Computes state->y from state->x. `rope` rotates queries and keys, unless its theta is 0. A token
 * sees itself and all tokens before it, or in local layers only the last config.window of these.
 * Where it returns WISP_OK, it does so for all members, and each may change the hidden states of
 * its tokens. */
wisp_status decoder_attention_run(struct pass *pass, uint32_t member, struct cursor at,
                                  const struct decoder_attention *weights, const struct rope *rope,
                                  wisp_error *error);

#endif
