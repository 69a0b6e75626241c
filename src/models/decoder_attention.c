/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder_attention.h"

#include <math.h>

#include "base/memory.h"
#include "models/encoder.h"
#include "models/linears.h"
#include "models/norms_load.h"

size_t decoder_attention_linears(const struct model_config *c, struct decoder_attention *weights,
                                 struct linear_entry *out) {
    const size_t size = c->hidden_size, q_size = c->heads * (size_t)c->head_size;
    const size_t kv_size = c->kv_heads * (size_t)c->head_size;
    struct linear_entry *at = out;
    if (c->fused_qkv) {
        *at++ = (struct linear_entry){
            .linear = &weights->q, .names = {"attn_qkv"}, .n = q_size + 2 * kv_size};
    } else {
        *at++ = (struct linear_entry){.linear = &weights->q, .names = {"attn_q"}, .n = q_size};
        *at++ = (struct linear_entry){
            .linear = &weights->kv, .names = {"attn_k", "attn_v"}, .n = kv_size};
    }
    for (struct linear_entry *entry = out; entry < at; entry++) {
        entry->k = size;
        entry->has_bias = c->has_bias || c->has_qkv_bias;
        entry->block = PASS_ATTENTION;
    }
    *at++ = (struct linear_entry){.linear = &weights->output,
                                  .names = {"attn_output"},
                                  .n = size,
                                  .k = q_size,
                                  .has_bias = c->has_bias,
                                  .norm = c->has_sub_norms ? "attn_sub_norm" : NULL,
                                  .block = PASS_ATTENTION,
                                  .role = LINEAR_ENDS};
    return (size_t)(at - out);
}

void decoder_attention_shape(const struct network *network, uint32_t layer,
                             struct attention_shape *shape) {
    const struct model_config *c = &network->config;
    *shape = (struct attention_shape){.heads = c->heads,
                                      .kv_heads = c->kv_heads,
                                      .head_size = c->head_size,
                                      .scale = c->attention_scale,
                                      .mask = config_is_local(c, layer) ? ATTENTION_WINDOW
                                                                        : ATTENTION_CAUSAL,
                                      .window = c->window,
                                      .soft_cap = c->attention_cap};
    if (!config_embeds(c))
        return;
    shape->mask = config_is_local(c, layer) ? ATTENTION_NEAR
                  : c->sees_all             ? ATTENTION_ALL_KEYS
                                            : ATTENTION_CAUSAL;
    shape->window = c->sees_all ? c->window / 2 : c->window - 1;
    shape->ahead = c->sees_all ? c->window / 2 : 0;
    shape->i16 = network->compute == WISP_COMPUTE_INT8;
}

wisp_status decoder_attention_load(struct network *network, uint32_t layer,
                                   struct decoder_attention *weights, wisp_error *error) {
    const struct model_config *c = &network->config;
    const size_t q_size = (size_t)c->head_size * (c->wide_qk_norm ? c->heads : 1);
    const size_t k_size = (size_t)c->head_size * (c->wide_qk_norm ? c->kv_heads : 1);
    if (!c->has_qk_norm)
        return WISP_OK;
    TRY(load_layer_rms_norm(network, layer, "attn_q_norm", q_size, &weights->q_norm, error));
    return load_layer_rms_norm(network, layer, "attn_k_norm", k_size, &weights->k_norm, error);
}

void decoder_attention_release(struct decoder_attention *weights) {
    memory_free(weights->q_norm);
    memory_free(weights->k_norm);
    memory_free(weights->sinks);
}

/* Normalises the heads of a token: each of them, or with config.wide_qk_norm all together. */
static void normalize_heads(const struct network *network, const float *weight, size_t heads,
                            float *x) {
    const struct model_config *c = &network->config;
    const size_t rows = c->wide_qk_norm ? 1 : heads;
    network->kernels->rms_norm(x, weight, c->norm_epsilon, rows, heads / rows * c->head_size, x);
}

/* Returns the table of the rotations of part of a text in a layer. Local layers rotate by the
 * angles of rope->local_theta if there is one, and long sequences by those of rope->long_factors.
 */
static const float *rotations(const struct pass *pass, const struct rope *rope, uint32_t layer,
                              const struct kv_cache *cache, const struct text_slice *slice) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const float *table = cache ? cache->rope : s->rope;
    const float *other = cache ? cache->other_rope : s->other_rope;
    const bool is_long = cache ? cache->is_long : slice->tokens > c->long_after;
    const bool takes_other = rope->long_factors ? is_long : other && config_is_local(c, layer);
    return (takes_other ? other : table) +
           ((cache ? cache->length : 0) + slice->first) * c->head_size;
}

/* Multiplies the queries of n tokens from position `first` on by what config.query_growth says. */
static void grow_queries(const struct model_config *c, size_t first, size_t n, float *q,
                         size_t stride) {
    for (size_t t = 0; t < n; t++, q += stride) {
        const size_t steps = (first + t) / c->query_growth_step;
        const float factor = (float)(1 + (double)c->query_growth * log1p((double)steps));
        for (size_t i = 0; i < (size_t)c->heads * c->head_size && steps > 0; i++)
            q[i] *= factor;
    }
}

/* Normalises and rotates the queries and keys of the member's tokens, and puts their keys and
 * values into the caches of their sequences, if there are some. */
static void rotate_and_keep(const struct pass *pass, uint32_t member, struct cursor at,
                            const struct decoder_attention *weights, const struct rope *rope) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const struct pass_tokens own = decoder_tokens(pass, member);
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_slice slice = pass_text_slice(pass, i, own);
        const struct kv_cache *cache = pass->batch.caches ? pass->batch.caches[i] : NULL;
        if (slice.first >= slice.end)
            continue;
        const size_t n = slice.end - slice.first;
        float *q = s->q + (slice.start + slice.first) * s->q_stride;
        float *kv = s->kv + (slice.start + slice.first) * s->kv_stride;
        for (size_t t = 0; t < n && weights->q_norm; t++) {
            normalize_heads(pass->network, weights->q_norm, c->heads, q + t * s->q_stride);
            normalize_heads(pass->network, weights->k_norm, c->kv_heads, kv + t * s->kv_stride);
        }
        if (rope->theta != 0 && (c->no_rope_step == 0 || (at.layer + 1) % c->no_rope_step > 0)) {
            const float *table = rotations(pass, rope, at.layer, cache, &slice);
            apply_rope(rope, table, n, c->heads, c->head_size, q, s->q_stride);
            apply_rope(rope, table, n, c->kv_heads, c->head_size, kv, s->kv_stride);
        }
        if (c->query_growth != 0)
            grow_queries(c, (cache ? cache->length : 0) + slice.first, n, q, s->q_stride);
        if (cache)
            kv_cache_write(cache, config_kv_layer(c, at.layer), cache->length + slice.first, n, kv,
                           kv + (size_t)c->kv_heads * c->head_size, s->kv_stride);
    }
}

/* Returns attention of text i's tokens in this pass, from key-value head `kv_head` on. */
static struct attention_sequence sequence_of(const struct pass *pass, uint32_t member,
                                             struct cursor at, size_t i, size_t kv_head) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const size_t start = pass->batch.starts[i], tokens = pass->batch.starts[i + 1] - start;
    const size_t first = kv_head * (c->heads / c->kv_heads) * c->head_size;
    struct attention_counts *counts = pass->member[member].attention;
    return (struct attention_sequence){
        .q = {s->q + start * s->q_stride + first, s->q_stride, c->head_size},
        .cache = pass->batch.caches[i],
        .layer = config_kv_layer(c, at.layer),
        .kv_head = kv_head,
        .plan = s->plan_bytes ? s->plans + (i * c->kv_heads + kv_head) * s->plan_bytes : NULL,
        .plan_bytes = s->plan_bytes,
        .counts = counts ? counts + at.layer : NULL,
        .queries = tokens,
        .keys = pass->batch.caches[i]->length + tokens,
        .end = tokens};
}

/* Shows the policy the member's share of the steps that this pass has completed. Those that single
 * tokens complete are its own business (quest.c). */
static void keep_blocks(const struct pass *pass, uint32_t member, struct cursor at) {
    const struct model_config *c = &pass->network->config;
    const struct attention_policy *policy = pass->attention.decode;
    for (size_t i = 0; policy->keep_step && i < pass->batch.texts; i++) {
        const struct attention_sequence s = sequence_of(pass, member, at, i, 0);
        const size_t first = s.cache->kept_steps, end = (s.keys - 1) / KV_STEP;
        const size_t groups = end / KV_KEPT_STEPS + 1 - first / KV_KEPT_STEPS;
        if (s.queries == 1 || first >= end)
            continue;
        const struct pass_outputs own = pass_share(pass, member, groups * c->kv_heads, 1);
        for (size_t n = own.first; n < own.first + own.n; n++) {
            const size_t from = (first / KV_KEPT_STEPS + n / c->kv_heads) * KV_KEPT_STEPS;
            for (size_t step = larger(first, from); step < smaller(end, from + KV_KEPT_STEPS);
                 step++)
                policy->keep_step(s.cache, s.layer, n % c->kv_heads, step);
        }
    }
}

/* Makes the member's share of the policy's plans for all texts and key-value heads. */
static void prepare(const struct pass *pass, uint32_t member, struct cursor at,
                    const struct attention_shape *shape) {
    const struct decoder_state *s = pass->state;
    const struct pass_outputs own =
        pass_share(pass, member, pass->batch.texts * shape->kv_heads, 1);
    for (size_t n = own.first; n < own.first + own.n; n++) {
        struct attention_sequence text = sequence_of(pass, member, at, n / shape->kv_heads, 0);
        const struct attention_policy *policy = attention_policy_of(&pass->attention, &text);
        if (policy->prepare)
            policy->prepare(pass->network->kernels, shape, &text, n % shape->kv_heads,
                            s->plans + n * s->plan_bytes, s->scratch[member]);
    }
}

/* Computes all heads of the member's tokens, whose keys and values are the rows of their texts. */
static wisp_status attend_rows(const struct pass *pass, uint32_t member, struct cursor at,
                               wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const float *values = s->kv + (size_t)c->kv_heads * c->head_size;
    const struct encoder_rows rows = {.q = {s->q, s->q_stride, c->head_size},
                                      .k = {s->kv, s->kv_stride, c->head_size},
                                      .v = {values, s->kv_stride, c->head_size}};
    return encoder_attend(pass, member, at, &rows, s->context, s->scratch[member], error);
}

/* Computes all heads of the member's tokens, text by text. */
static wisp_status attend_tokens(const struct pass *pass, uint32_t member, struct cursor at,
                                 const struct attention_shape *shape, wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t ld = shape->heads * shape->head_size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_slice slice = pass_text_slice(pass, i, own);
        struct attention_sequence text = sequence_of(pass, member, at, i, 0);
        const struct attention_policy *policy = attention_policy_of(&pass->attention, &text);
        for (text.first = slice.first; text.first < slice.end; text.first = text.end) {
            text.end = text.first + pass_queries_at_once(pass, text.keys, slice.end - text.first);
            TRY(pass_ask_hook(pass, at, text.first - slice.first, error));
            policy->run(pass->network->kernels, shape, &text,
                        s->context + (slice.start + text.first) * ld, ld, s->scratch[member]);
        }
    }
    return WISP_OK;
}

/* Computes the member's share of the heads of all tokens. Query heads that read the same keys and
 * values belong to one member. */
static void attend_heads(const struct pass *pass, uint32_t member, struct cursor at,
                         const struct attention_shape *shape) {
    const struct decoder_state *s = pass->state;
    const struct pass_outputs own = pass_share(pass, member, shape->kv_heads, 1);
    const size_t group = shape->heads / shape->kv_heads, ld = shape->heads * shape->head_size;
    const size_t first = own.first * group * shape->head_size;
    struct attention_shape part = *shape;
    part.heads = own.n * group;
    part.kv_heads = own.n;
    part.sinks = shape->sinks ? shape->sinks + own.first * group : NULL;
    for (size_t i = 0; i < pass->batch.texts && own.n > 0; i++) {
        struct attention_sequence text = sequence_of(pass, member, at, i, own.first);
        attention_policy_of(&pass->attention, &text)
            ->run(pass->network->kernels, &part, &text,
                  s->context + pass->batch.starts[i] * ld + first, ld, s->scratch[member]);
    }
}

/* Computes the member's part of state->context: all heads of its tokens, or its share of the heads
 * of all tokens. */
static wisp_status attend(const struct pass *pass, uint32_t member, struct cursor at,
                          const float *sinks, wisp_error *error) {
    const struct network *network = pass->network;
    struct attention_shape shape;
    if (config_embeds(&network->config))
        return attend_rows(pass, member, at, error);
    network->architecture->attention(network, at.layer, &shape);
    shape.sinks = sinks;
    keep_blocks(pass, member, at);
    if (pass->attention.prefill->prepare) {
        prepare(pass, member, at, &shape);
        pass_barrier(pass, member, at);
    }
    if (!pass->by_outputs)
        return attend_tokens(pass, member, at, &shape, error);
    attend_heads(pass, member, at, &shape);
    return WISP_OK;
}

wisp_status decoder_attend(struct pass *pass, uint32_t member, struct cursor at,
                           const struct decoder_attention *weights, const struct rope *rope,
                           wisp_status status, wisp_error *error) {
    rotate_and_keep(pass, member, at, weights, rope);
    pass_mark(pass, member, at, STAGE_QKV);
    pass_barrier(pass, member, at); /* attention reads the keys and values of all members */
    if (status == WISP_OK)
        status = attend(pass, member, at, weights->sinks, error);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION);
    return status;
}

wisp_status decoder_attention_run(struct pass *pass, uint32_t member, struct cursor at,
                                  const struct decoder_attention *weights, const struct rope *rope,
                                  wisp_error *error) {
    const struct decoder_state *s = pass->state;
    TRY(pass_wake(pass, member, at, REST_ATTENTION, error));
    wisp_status status = decoder_linear(pass, member, at, &weights->q, s->x, s->q, error);
    if (status == WISP_OK && weights->kv.n > 0)
        status = decoder_linear(pass, member, at, &weights->kv, s->x, s->kv, error);
    decoder_end_stage(pass, member, at, STAGE_QKV);
    status = decoder_attend(pass, member, at, weights, rope, status, error);
    if (status == WISP_OK)
        status = decoder_linear(pass, member, at, &weights->output, s->context, s->y, error);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION_OUTPUT);
    pass_sleep(pass, member, at, REST_ATTENTION);
    return pass_join_status(pass, member, at, status, error);
}
