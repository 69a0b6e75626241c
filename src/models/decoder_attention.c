/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder_attention.h"

#include "base/memory.h"
#include "models/layer_load.h"

wisp_status decoder_attention_load(struct network *network, uint32_t layer,
                                   struct decoder_attention *weights, wisp_error *error) {
    static const char *const fused[] = {"attn_qkv"}, *const output[] = {"attn_output"};
    static const char *const q[] = {"attn_q"}, *const kv[] = {"attn_k", "attn_v"};
    const struct model_config *c = &network->config;
    const size_t size = c->hidden_size, head_size = c->head_size;
    const size_t q_size = c->heads * head_size, kv_size = c->kv_heads * head_size;
    const bool has_bias = c->has_bias || c->has_qkv_bias;
    if (c->fused_qkv) {
        TRY(load_linear(network, layer, fused, 1, has_bias, q_size + 2 * kv_size, size, &weights->q,
                        error));
    } else {
        TRY(load_linear(network, layer, q, 1, has_bias, q_size, size, &weights->q, error));
        TRY(load_linear(network, layer, kv, 2, has_bias, kv_size, size, &weights->kv, error));
    }
    TRY(load_linear(network, layer, output, 1, c->has_bias, size, q_size, &weights->output, error));
    if (!c->has_qk_norm)
        return WISP_OK;
    TRY(load_layer_rms_norm(network, layer, "attn_q_norm", head_size, &weights->q_norm, error));
    return load_layer_rms_norm(network, layer, "attn_k_norm", head_size, &weights->k_norm, error);
}

void decoder_attention_release(struct decoder_attention *weights) {
    linear_release(&weights->q);
    linear_release(&weights->kv);
    linear_release(&weights->output);
    memory_free(weights->q_norm);
    memory_free(weights->k_norm);
}

/* Normalises and rotates the queries and keys of the member's tokens, and puts their keys and
 * values into the caches of their sequences. Local layers rotate by the angles of
 * rope->local_theta where there is one, and long sequences by those of rope->long_factors. */
static void rotate_and_keep(const struct pass *pass, uint32_t member, struct cursor at,
                            const struct decoder_attention *weights, const struct rope *rope) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const struct pass_tokens own = decoder_tokens(pass, member);
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_part part = pass_text_part(pass, i, own);
        const struct kv_cache *cache = pass->batch.caches[i];
        if (part.first >= part.end)
            continue;
        const size_t n = part.end - part.first, position = cache->length + part.first;
        float *q = s->q + (part.start + part.first) * s->q_stride;
        float *kv = s->kv + (part.start + part.first) * s->kv_stride;
        for (size_t t = 0; t < n && weights->q_norm; t++) {
            float *queries = q + t * s->q_stride, *keys = kv + t * s->kv_stride;
            pass->network->kernels->rms_norm(queries, weights->q_norm, c->norm_epsilon, c->heads,
                                             c->head_size, queries);
            pass->network->kernels->rms_norm(keys, weights->k_norm, c->norm_epsilon, c->kv_heads,
                                             c->head_size, keys);
        }
        if (rope->theta != 0) {
            const bool other = rope->long_factors
                                   ? cache->is_long
                                   : cache->other_rope && config_is_local(c, at.layer);
            const float *tables = other ? cache->other_rope : cache->rope;
            const float *table = tables + position * c->head_size;
            apply_rope(rope, table, n, c->heads, c->head_size, q, s->q_stride);
            apply_rope(rope, table, n, c->kv_heads, c->head_size, kv, s->kv_stride);
        }
        kv_cache_write(cache, config_kv_layer(c, at.layer), position, n, kv,
                       kv + (size_t)c->kv_heads * c->head_size, s->kv_stride);
    }
}

/* Computes all heads of the member's tokens, text by text. */
static wisp_status attend_tokens(const struct pass *pass, uint32_t member, struct cursor at,
                                 const struct attention_shape *shape, wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t ld = shape->heads * shape->head_size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_part part = pass_text_part(pass, i, own);
        const struct kv_cache *cache = pass->batch.caches[i];
        struct attention_sequence text = {
            .q = {s->q + part.start * s->q_stride, s->q_stride, shape->head_size},
            .cache = cache,
            .layer = config_kv_layer(&pass->network->config, at.layer),
            .queries = part.tokens,
            .keys = cache->length + part.tokens};
        for (text.first = part.first; text.first < part.end; text.first = text.end) {
            text.end = text.first + pass_queries_at_once(pass, text.keys, part.end - text.first);
            TRY(pass_ask_hook(pass, at, text.first - part.first, error));
            attention_cached.run(pass->network->kernels, shape, &text,
                                 s->context + (part.start + text.first) * ld, ld,
                                 s->scratch[member]);
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
    for (size_t i = 0; i < pass->batch.texts && own.n > 0; i++) {
        const size_t start = pass->batch.starts[i], tokens = pass->batch.starts[i + 1] - start;
        const struct kv_cache *cache = pass->batch.caches[i];
        const struct attention_sequence text = {
            .q = {s->q + start * s->q_stride + first, s->q_stride, shape->head_size},
            .cache = cache,
            .layer = config_kv_layer(&pass->network->config, at.layer),
            .kv_head = own.first,
            .queries = tokens,
            .keys = cache->length + tokens,
            .end = tokens};
        attention_cached.run(pass->network->kernels, &part, &text, s->context + start * ld + first,
                             ld, s->scratch[member]);
    }
}

/* Computes the member's part of state->context: all heads of its tokens, or its share of the heads
 * of all tokens. */
static wisp_status attend(const struct pass *pass, uint32_t member, struct cursor at,
                          wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct attention_shape shape = {.heads = c->heads,
                                          .kv_heads = c->kv_heads,
                                          .head_size = c->head_size,
                                          .scale = c->attention_scale,
                                          .mask = config_is_local(c, at.layer) ? ATTENTION_WINDOW
                                                                               : ATTENTION_CAUSAL,
                                          .window = c->window,
                                          .soft_cap = c->attention_cap};
    if (!pass->by_outputs)
        return attend_tokens(pass, member, at, &shape, error);
    attend_heads(pass, member, at, &shape);
    return WISP_OK;
}

wisp_status decoder_attention_run(struct pass *pass, uint32_t member, struct cursor at,
                                  const struct decoder_attention *weights, const struct rope *rope,
                                  wisp_error *error) {
    const struct decoder_state *s = pass->state;
    wisp_status status = decoder_linear(pass, member, at, &weights->q, s->x, s->q, error);
    if (status == WISP_OK && weights->kv.n > 0)
        status = decoder_linear(pass, member, at, &weights->kv, s->x, s->kv, error);
    decoder_end_stage(pass, member, at, STAGE_QKV);
    rotate_and_keep(pass, member, at, weights, rope);
    pass_mark(pass, member, at, STAGE_QKV);
    pass_barrier(pass, member, at); /* attention reads the keys and values of all members */
    if (status == WISP_OK)
        status = attend(pass, member, at, error);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION);
    if (status == WISP_OK)
        status = decoder_linear(pass, member, at, &weights->output, s->context, s->y, error);
    decoder_end_stage(pass, member, at, STAGE_ATTENTION_OUTPUT);
    return pass_join_status(pass, member, at, status, error);
}
