/* SPDX-License-Identifier: Apache-2.0
 * The parts of a pass that the pages of decoders share: working memory, dense layers whose tokens
 * or outputs the members split, and logits; and the weights beside their layers.
 * decoder_attention.h has the attention block.
 *
 * If members split the tokens (pass.h), each computes the rows of its own tokens from one norm
 * to the next. If they split the outputs, each computes a share of every layer's outputs for all
 * tokens, and member 0 alone what is between layers. The functions here serve both, so that a
 * page has one order of steps. */
#ifndef WISP_MODELS_DECODER_H
#define WISP_MODELS_DECODER_H

#include "models/feed_forward_block.h"

/* The working memory of a pass, which pass->state points to. Rows are the tokens of the whole
 * batch. Attention reads the keys and values of other tokens from the caches. */
struct decoder_state {
    float *h; /* [tokens, hidden_size]: the hidden states */
    float *x; /* [tokens, hidden_size]: their norm, which the next block reads; it is pass->x */
    float *y; /* [tokens, hidden_size]: the values that a block adds to the hidden states */
    /* `q` has the queries [heads, head_size] of each token, q_stride floats apart. `kv` has its
     * keys and then its values, each [kv_heads, head_size]; tokens are kv_stride floats apart. */
    float *q, *kv;
    size_t q_stride, kv_stride;
    float *context; /* [tokens, heads * head_size]: the result of attention */
    /* The tables of kv_cache.h for the longest text, in models that embed, which have no caches. */
    float *rope, *other_rope;
    /* [tokens, inner_size]: each block keeps other values here. A dense feed-forward layer keeps
     * those between its halves; attention the keys and values, and with config.fused_qkv the
     * queries; a short convolution its inputs [tokens, 3 hidden_size]. */
    float *inner;
    size_t inner_size;
    struct feed_forward_work feed_forward;
    /* [texts, kv_heads, plan_bytes]: the plans of a policy that makes some for a layer */
    unsigned char *plans;
    size_t plan_bytes;
    struct workspace scratch[PASS_MAX_MEMBERS]; /* one for each member */
};

/* The `take` of a decoder (architecture.h). With config.fused_qkv one layer computes queries, keys
 * and values, to state->q; else one computes the queries, to state->q, and one the keys and values,
 * to state->kv. */
void decoder_take(const struct network *network, const struct pass_size *size,
                  struct workspace *space, struct pass *pass);

/* Returns the tokens whose rows the member computes between layers: its own tokens or, if
 * members split outputs, all tokens for member 0 and none for others. */
struct pass_tokens decoder_tokens(const struct pass *pass, uint32_t member);

/* Ends the part of a block that is timed as `stage`. If members split outputs it waits for all,
 * since the next part reads the outputs of others. */
void decoder_end_stage(const struct pass *pass, uint32_t member, struct cursor at,
                       enum stage stage);

/* Writes the token embeddings of the batch, multiplied by config.embedding_scale, to state->h.
 * Member 0 calls it. */
wisp_status decoder_look_up(const struct pass *pass, wisp_error *error);

/* Computes the member's part of y [tokens, outputs] = layer(x [tokens, inputs]): the rows of its
 * tokens, or its share of the outputs of all rows. Fails only if the hook does. */
wisp_status decoder_linear(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct linear *layer, const float *x, float *y, wisp_error *error);

/* Computes state->x = rms_norm(state->h) for some tokens, or state->x = state->h if `weight` is
 * NULL. */
void decoder_normalize(const struct pass *pass, struct pass_tokens own, const float *weight);

/* Ends a block: computes state->h += rms_norm(state->y) * config.residual_scale and state->x =
 * rms_norm(state->h) for the tokens of decoder_tokens. `post` is the weight of the norm that ends
 * the block, and `next` that of the norm before the next block. NULL: there is no such norm. */
void decoder_add_and_norm(const struct pass *pass, uint32_t member, struct cursor at,
                          const float *post, const float *next);

/* Computes the member's part of state->y = feed_forward(state->x). If it returns WISP_OK, it
 * does so for all members, and each may change the hidden states of its tokens. */
wisp_status decoder_feed_forward(struct pass *pass, uint32_t member, struct cursor at,
                                 wisp_error *error);

/* Computes the member's part of pass->rows, and marks its time. They are the logits of every token
 * or of the last one of each text, multiplied by config.logit_scale and bounded by
 * config.logit_cap; or of a model that embeds, a pooled row of each text. */
wisp_status decoder_output(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct linear *logits, wisp_error *error);

/* ---- the weights ---------------------------------------------------------------------------- */

/* Lists the layer [vocabulary_size, hidden_size] that computes logits: the tensor output.weight, or
 * the token embedding if there is none. Returns 1, or 0 of a model that embeds. */
size_t decoder_logits_linear(const struct network *network, struct linear *logits,
                             struct linear_entry *out);

/* The weights beside the layers of a decoder with rotary positions, whose last norm is an RMS norm.
 */
struct decoder_weights {
    struct rope rope;
    float
        *rope_factors; /* [rotary_size / 2]: the tensor rope_freqs.weight times config.rope_divisor,
                          or with YaRN times the part of it that a pair gets. NULL if there is
                          neither. With config.long_after: rope_factors_short.weight */
    float *long_factors;  /* [rotary_size / 2]: rope_factors_long.weight; NULL if there is none */
    float *output_norm;   /* [hidden_size]: weight of the last norm */
    struct linear logits; /* [vocabulary_size, hidden_size] */
};

/* Loads these weights but the logits, the output norm from the tensor `output_norm`, and adds their
 * bytes to network->resident_bytes. */
wisp_status decoder_weights_load(struct network *network, const char *output_norm,
                                 struct decoder_weights *weights, wisp_error *error);

void decoder_weights_release(struct decoder_weights *weights);

/* The `rope` of an architecture (architecture.h) whose weights begin with a struct decoder_weights.
 */
void decoder_rope(const struct network *network, struct rope *rope);

#endif
