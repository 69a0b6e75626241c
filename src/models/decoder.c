/* SPDX-License-Identifier: Apache-2.0 */
#include "models/decoder.h"

#include <string.h>

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
    /* The result of a convolution lies where that of attention does. */
    const size_t context_size = c->conv_taps > 0 ? larger(q_size(c), hidden_size) : q_size(c);
    scratch_bytes = larger(scratch_bytes, linear_workspace_bytes(rows, context_size));
    struct decoder_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    s->kv_stride = 2 * kv_size(c) + (c->fused_qkv ? q_size(c) : 0);
    s->q_stride = c->fused_qkv ? s->kv_stride : q_size(c);
    s->inner_size = larger(s->kv_stride, feed_forward_inner_size(c));
    if (c->conv_taps > 0)
        s->inner_size = larger(s->inner_size, 3 * hidden_size);
    s->h = workspace_take(space, tokens, hidden_size, sizeof *s->h);
    s->x = workspace_take(space, tokens, hidden_size, sizeof *s->x);
    s->y = workspace_take(space, tokens, hidden_size, sizeof *s->y);
    if (!c->fused_qkv)
        s->q = workspace_take(space, tokens, q_size(c), sizeof *s->q);
    s->context = workspace_take(space, tokens, context_size, sizeof *s->context);
    s->inner = s->kv = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    s->feed_forward = feed_forward_take(network, size, space, pass);
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

void decoder_normalize(const struct pass *pass, struct pass_tokens own, const float *weight) {
    const struct model_config *c = &pass->network->config;
    const struct decoder_state *s = pass->state;
    const size_t at = own.first * c->hidden_size;
    pass->network->kernels->rms_norm(s->h + at, weight, c->norm_epsilon, own.n, c->hidden_size,
                                     s->x + at);
}

void decoder_add_and_norm(const struct pass *pass, uint32_t member, struct cursor at,
                          const float *weight) {
    const struct decoder_state *s = pass->state;
    const struct pass_tokens own = decoder_tokens(pass, member);
    const size_t size = pass->network->config.hidden_size, first = own.first * size;
    pass->network->kernels->add(s->h + first, s->y + first, own.n * size);
    decoder_normalize(pass, own, weight);
    pass_mark(pass, member, at, STAGE_NORM);
}

wisp_status decoder_feed_forward(struct pass *pass, uint32_t member, struct cursor at,
                                 wisp_error *error) {
    const struct decoder_state *s = pass->state;
    const size_t first = pass_tokens(pass, member).first;
    if (!pass->by_outputs) {
        const wisp_status status = feed_forward_run(
            pass, member, at, &s->feed_forward, s->inner + first * s->inner_size,
            s->y + first * pass->network->config.hidden_size, s->scratch[member], error);
        return pass_join_status(pass, member, at, status, error);
    }
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
    const size_t rows = batch->all_logits ? pass->tokens : batch->texts, size = logits->k;
    struct pass_outputs own = {0, logits->n};
    if (!pass->by_outputs && member > 0) /* member 0 computes them all */
        return WISP_OK;
    if (!pass->by_outputs) {
        /* The rows lie together, so that the weights are read once for all texts. */
        for (size_t i = 0; i < rows && !batch->all_logits; i++)
            memcpy(s->y + i * size, pass->x + (batch->starts[i + 1] - 1) * size,
                   size * sizeof *s->y);
        TRY(pass_apply_linear(pass, at, logits, batch->all_logits ? pass->x : s->y, rows,
                              pass->rows, scratch, error));
    } else if (rows == pass->tokens) {
        own = pass_apply_outputs(pass, member, logits, pass->x, rows, pass->rows, scratch);
    } else {
        for (size_t i = 0; i < rows; i++)
            own = pass_apply_outputs(pass, member, logits,
                                     pass->x + (batch->starts[i + 1] - 1) * size, 1,
                                     pass->rows + i * logits->n, scratch);
    }
    for (size_t i = 0; i < rows && cap > 0 && own.n > 0; i++)
        network->kernels->soft_cap(pass->rows + i * logits->n + own.first, own.n, 1, cap);
    return WISP_OK;
}
