/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder.h"

#include "base/checked.h"

/* Returns the floats of a token's queries, of all heads. */
static size_t q_size(const struct model_config *c) {
    return (size_t)c->heads * c->head_size;
}

/* Returns the floats of a token's keys, of all heads, which its values have too. */
static size_t kv_size(const struct model_config *c) {
    return (size_t)c->kv_heads * c->head_size;
}

void decoder_take(const struct network *network, const struct pass_size *size,
                  struct workspace *space, struct pass *pass) {
    const struct model_config *c = &network->config;
    const struct attention_shape shape = {
        .heads = c->heads, .kv_heads = c->kv_heads, .head_size = c->head_size};
    const size_t tokens = size->tokens, hidden_size = c->hidden_size;
    const size_t rows = smaller(tokens, PASS_PART_TOKENS); /* member 0 computes all logits */
    size_t scratch_bytes =
        larger(feed_forward_workspace_bytes(network, rows),
               attention_cached.workspace_bytes(network->kernels, &shape, size->longest));
    scratch_bytes = larger(scratch_bytes, linear_workspace_bytes(rows, q_size(c)));
    struct decoder_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    s->kv_stride = 2 * kv_size(c) + (c->fused_qkv ? q_size(c) : 0);
    s->q_stride = c->fused_qkv ? s->kv_stride : q_size(c);
    s->inner_size = larger(s->kv_stride, feed_forward_inner_size(c));
    s->h = workspace_take(space, tokens, hidden_size, sizeof *s->h);
    s->x = workspace_take(space, tokens, hidden_size, sizeof *s->x);
    s->y = workspace_take(space, tokens, hidden_size, sizeof *s->y);
    if (!c->fused_qkv)
        s->q = workspace_take(space, tokens, q_size(c), sizeof *s->q);
    s->context = workspace_take(space, tokens, q_size(c), sizeof *s->context);
    s->inner = s->kv = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    s->feed_forward = feed_forward_take(network, size, space, pass ? &pass->batch : NULL);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch_bytes);
    if (!pass)
        return;
    if (c->fused_qkv) {
        s->q = s->inner;
        s->kv = s->inner + q_size(c);
    }
    pass->x = s->x;
    pass->state = s;
}

struct pass_tokens decoder_tokens(const struct pass *pass, uint32_t member) {
    if (pass->by_outputs && member > 0)
        return (struct pass_tokens){0};
    return pass_tokens(pass, member);
}

void decoder_end_stage(const struct pass *pass, uint32_t member, struct cursor at,
                       enum stage stage) {
    pass_mark(pass, member, at, stage);
    if (pass->by_outputs)
        pass_barrier(pass, member, at);
}

wisp_status decoder_look_up(const struct pass *pass, wisp_error *error) {
    const struct network *network = pass->network;
    const struct decoder_state *s = pass->state;
    for (size_t t = 0; t < pass->tokens; t++)
        TRY(token_embedding_row(&network->tokens, pass->batch.ids[t], pass->member[0].tokens,
                                s->inner, s->h + t * network->config.hidden_size, error));
    return WISP_OK;
}

wisp_status decoder_linear(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct linear *layer, const float *x, float *y,
                           wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const struct workspace scratch = s->scratch[member];
    const struct pass_tokens own = pass_tokens(pass, member);
    if (!pass->by_outputs)
        return pass_apply_linear(pass, at, layer, x + own.first * layer->k, own.n,
                                 y + own.first * layer->n, scratch, error);
    pass_apply_outputs(pass, member, layer, x, pass->tokens, y, scratch);
    return WISP_OK;
}

void decoder_keep(const struct pass *pass, uint32_t member, struct cursor at,
                  const struct decoder_heads *heads) {
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
        for (size_t t = 0; t < n && heads->q_norm; t++) {
            float *queries = q + t * s->q_stride, *keys = kv + t * s->kv_stride;
            pass->network->kernels->rms_norm(queries, heads->q_norm, c->norm_epsilon, c->heads,
                                             c->head_size, queries);
            pass->network->kernels->rms_norm(keys, heads->k_norm, c->norm_epsilon, c->kv_heads,
                                             c->head_size, keys);
        }
        if (heads->rope) {
            const bool local = cache->local_rope && config_is_local(c, at.layer);
            const float *tables = local ? cache->local_rope : cache->rope;
            const float *table = tables + position * c->head_size;
            apply_rope(heads->rope, table, n, c->heads, c->head_size, q, s->q_stride);
            apply_rope(heads->rope, table, n, c->kv_heads, c->head_size, kv, s->kv_stride);
        }
        kv_cache_write(cache, at.layer, position, n, kv, kv + kv_size(c), s->kv_stride);
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
            .layer = at.layer,
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
            .layer = at.layer,
            .kv_head = own.first,
            .queries = tokens,
            .keys = cache->length + tokens,
            .end = tokens};
        attention_cached.run(pass->network->kernels, &part, &text, s->context + start * ld + first,
                             ld, s->scratch[member]);
    }
}

wisp_status decoder_attend(const struct pass *pass, uint32_t member, struct cursor at,
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

wisp_status decoder_feed_forward(struct pass *pass, uint32_t member, struct cursor at,
                                 wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const size_t first = pass_tokens(pass, member).first;
    if (!pass->by_outputs)
        return feed_forward_run(
            pass, member, at, &s->feed_forward, s->inner + first * s->inner_size,
            s->y + first * pass->network->config.hidden_size, s->scratch[member], error);
    feed_forward_run_outputs(pass, member, at, s->inner, s->y, s->scratch[member]);
    pass_barrier(pass, member, at);
    return WISP_OK;
}

wisp_status decoder_logits(const struct pass *pass, uint32_t member, struct cursor at,
                           const struct linear *logits, wisp_error *error) {
    const struct network *network = pass->network;
    const struct decoder_state *s = pass->state;
    const struct batch *batch = &pass->batch;
    const float cap = network->config.logit_cap;
    const struct workspace scratch = s->scratch[member];
    const size_t rows = batch->all_logits ? pass->tokens : batch->texts;
    if (!pass->by_outputs && member > 0) /* member 0 computes them all */
        return WISP_OK;
    if (!pass->by_outputs && batch->all_logits)
        TRY(pass_apply_linear(pass, at, logits, pass->x, rows, pass->rows, scratch, error));
    for (size_t i = 0; i < rows; i++) {
        const size_t token = batch->all_logits ? i : batch->starts[i + 1] - 1;
        const float *x = pass->x + token * logits->k;
        float *row = pass->rows + i * logits->n;
        struct pass_outputs own = {0, logits->n};
        if (pass->by_outputs)
            own = pass_apply_outputs(pass, member, logits, x, 1, row, scratch);
        else if (!batch->all_logits)
            linear_apply(logits, x, 1, row, scratch);
        if (cap > 0 && own.n > 0)
            network->kernels->soft_cap(row + own.first, own.n, 1, cap);
    }
    return WISP_OK;
}
