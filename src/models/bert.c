/* SPDX-License-Identifier: Apache-2.0
 * The forward pass, top to bottom. */
#include "models/bert.h"

#include <math.h>
#include <string.h>

#include "attention/full.h"
#include "attention/rotary.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/memory.h"

struct state {
    float *x;       /* [tokens, hidden_size]: the hidden states */
    float *y;       /* [tokens, hidden_size]: what a block adds to them */
    float *wide;    /* [tokens, max(3 hidden_size, intermediate_size, twice that if gated)] */
    float *context; /* [tokens, hidden_size]: attention's result */
    float *rotary;  /* [longest text, size of a head]; nothing without rotary positions */
    void *linear_scratch;
    void *attention_scratch;
    struct trace *trace;
    int layer;
};

/* The time since the last call went into `stage`. */
static void spent(const struct state *s, enum stage stage) {
    trace_mark(s->trace, stage, s->layer);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static bool is_gated(const struct bert_config *c) {
    return c->activation == ACTIVATION_GATED_SILU;
}

static size_t wide_size(const struct bert_config *c) {
    const size_t inner = (size_t)c->intermediate_size * (is_gated(c) ? 2 : 1);
    return larger(3 * (size_t)c->hidden_size, inner);
}

static size_t rotary_bytes(const struct bert_config *c, size_t longest) {
    return c->rotary ? longest * (c->hidden_size / c->heads) * sizeof(float) : 0;
}

static size_t scratch_size(const struct bert_config *c) {
    return larger(c->hidden_size, c->intermediate_size);
}

/* Whether the sums below stay far from what 32 bits hold, as pointers have in WebAssembly: more
 * floats than are needed, counted in 64. */
static bool is_addressable(const struct bert *model, uint64_t tokens, uint64_t longest) {
    const struct bert_config *c = &model->config;
    const uint64_t panel = model->kernels->f32_panel, head = c->hidden_size / c->heads;
    const uint64_t per_token = 3 * (uint64_t)c->hidden_size + wide_size(c) + scratch_size(c) + 3;
    const uint64_t attention = (longest + panel) * (3 * head + 2 * panel + 32);
    return (tokens + 16) * per_token + attention < SIZE_MAX / (2 * sizeof(float));
}

/* What linear layers and sparse ones need besides, one after the other. */
static size_t block_scratch_bytes(const struct bert *model, size_t tokens) {
    const struct bert_config *c = &model->config;
    const size_t linear = linear_scratch_bytes(tokens, scratch_size(c));
    if (!model->sparse)
        return linear;
    return larger(linear,
                  sparse_ffn_scratch_bytes(c->hidden_size, c->intermediate_size, model->rank));
}

bool bert_workspace_bytes(const struct bert *model, size_t tokens, size_t longest, size_t *bytes) {
    const struct bert_config *c = &model->config;
    if (!is_addressable(model, tokens, longest))
        return false;
    const size_t states = round_up(tokens * c->hidden_size * sizeof(float), MEMORY_ALIGNMENT);
    const size_t wide = round_up(tokens * wide_size(c) * sizeof(float), MEMORY_ALIGNMENT);
    *bytes = 3 * states + wide + round_up(rotary_bytes(c, longest), MEMORY_ALIGNMENT) +
             block_scratch_bytes(model, tokens) +
             round_up(attention_scratch_bytes(model->kernels, longest, c->hidden_size / c->heads),
                      MEMORY_ALIGNMENT);
    return true;
}

static size_t longest_text(const struct bert_batch *batch) {
    size_t longest = 0;
    for (size_t i = 0; i < batch->texts; i++)
        longest = larger(longest, batch->starts[i + 1] - batch->starts[i]);
    return longest;
}

static struct state take_state(const struct bert *model, const struct bert_batch *batch,
                               struct workspace *space) {
    const size_t tokens = batch->starts[batch->texts], longest = longest_text(batch);
    const struct bert_config *c = &model->config;
    const size_t states = tokens * c->hidden_size * sizeof(float);
    struct state s = {.trace = batch->trace, .layer = NO_LAYER};
    s.x = workspace_take(space, states);
    s.y = workspace_take(space, states);
    s.context = workspace_take(space, states);
    s.wide = workspace_take(space, tokens * wide_size(c) * sizeof(float));
    s.rotary = workspace_take(space, rotary_bytes(c, longest));
    if (c->rotary)
        rotary_fill(c->rotary_base, c->hidden_size / c->heads, longest, s.rotary);
    s.linear_scratch = workspace_take(space, block_scratch_bytes(model, tokens));
    s.attention_scratch = workspace_take(
        space, attention_scratch_bytes(model->kernels, longest, c->hidden_size / c->heads));
    return s;
}

/* The stored embedding of a token; `buffer` has room for it. */
static wisp_status token_row(const struct bert *model, int32_t id, void *buffer, const void **row,
                             wisp_error *error) {
    const struct tensor *table = model->token_embedding;
    if (!model->token_rows)
        return directory_rows(model->dir, table, (uint64_t)id, 1, buffer, row, error);
    *row = (const unsigned char *)model->token_rows + (size_t)id * (size_t)table->row_bytes;
    return WISP_OK;
}

/* What is added to a token's embedding for its position and for being of type 0. */
static const float *position_row(const struct bert *model, size_t position) {
    const size_t row = model->config.rotary ? 0 : position;
    return model->position_embedding + row * model->config.hidden_size;
}

/* x = layer_norm(token embedding + position embedding + token type 0) */
static wisp_status embed_tokens(const struct bert *model, const struct bert_batch *batch,
                                const struct state *s, wisp_error *error) {
    const size_t size = model->config.hidden_size;
    float *positions = s->y;
    for (size_t i = 0; i < batch->texts; i++)
        for (size_t t = batch->starts[i]; t < batch->starts[i + 1]; t++) {
            const void *row;
            TRY(token_row(model, batch->ids[t], s->wide, &row, error));
            model->token_embedding->format->dequantise(row, size, s->x + t * size);
            memcpy(positions + t * size, position_row(model, t - batch->starts[i]),
                   size * sizeof(float));
        }
    model->kernels->layer_norm(s->x, positions, model->embedding_norm.weight,
                               model->embedding_norm.bias, model->config.layer_norm_epsilon,
                               batch->starts[batch->texts], size);
    return WISP_OK;
}

/* The queries and keys of one text [tokens, 3 hidden_size], where positions are rotary. */
static void turn(const struct bert_config *c, const struct state *s, float *q, size_t tokens) {
    if (c->rotary) /* keys follow queries as further heads */
        rotary_apply(s->rotary, tokens, 2 * (size_t)c->heads, c->hidden_size / c->heads, q,
                     3 * (size_t)c->hidden_size);
}

/* y = W_o attention(W_qkv x) */
static void attention_block(const struct bert *model, const struct bert_layer *layer,
                            const struct bert_batch *batch, const struct state *s) {
    const size_t size = model->config.hidden_size, tokens = batch->starts[batch->texts];
    const struct attention_shape shape = {.heads = model->config.heads,
                                          .head_size = size / model->config.heads,
                                          .ld_qkv = 3 * size,
                                          .ld_context = size,
                                          .i16 = layer->qkv.int8};
    linear_apply(&layer->qkv, s->x, tokens, s->wide, s->linear_scratch);
    spent(s, STAGE_QKV);
    for (size_t i = 0; i < batch->texts; i++) {
        const size_t start = batch->starts[i], length = batch->starts[i + 1] - start;
        float *q = s->wide + start * 3 * size;
        turn(&model->config, s, q, length);
        attention_full(model->kernels, &shape, q, q + size, q + 2 * size, s->context + start * size,
                       length, s->attention_scratch);
    }
    spent(s, STAGE_ATTENTION);
    linear_apply(&layer->output, s->context, tokens, s->y, s->linear_scratch);
    spent(s, STAGE_ATTENTION_OUTPUT);
}

/* y = W_down activation(W_up x), or where that is gated W_down (silu(W_gate x) * W_up x) */
static void dense_feed_forward(const struct bert *model, const struct bert_layer *layer,
                               size_t tokens, const struct state *s) {
    const size_t values = tokens * model->config.intermediate_size;
    float *inner = s->wide;
    linear_apply(&layer->up, s->x, tokens, inner, s->linear_scratch);
    if (is_gated(&model->config))
        linear_apply(&layer->gate, s->x, tokens, inner + values, s->linear_scratch);
    spent(s, STAGE_FFN_UP);
    switch (model->config.activation) {
    case ACTIVATION_GELU:
        model->kernels->gelu(inner, values);
        break;
    case ACTIVATION_RELU:
        model->kernels->relu(inner, values);
        break;
    case ACTIVATION_GATED_SILU:
        model->kernels->silu_mul(inner + values, inner, values);
        inner += values;
    }
    spent(s, STAGE_ACTIVATION);
    linear_apply(&layer->down, inner, tokens, s->y, s->linear_scratch);
    spent(s, STAGE_FFN_DOWN);
}

/* The same, dense or sparse, of layer l. */
static void feed_forward_block(const struct bert *model, const struct bert_batch *batch, size_t l,
                               const struct state *s) {
    const size_t tokens = batch->starts[batch->texts];
    const struct bert_layer *layer = &model->layer[l];
    struct sparse_counts uncounted = {0}, *counts = batch->counts ? batch->counts + l : &uncounted;
    if (batch->observe)
        batch->observe(batch->observer, l, s->x);
    const double start = clock_seconds();
    if (model->sparse) {
        sparse_ffn_apply(&layer->sparse,
                         batch->thresholds ? batch->thresholds + l * layer->sparse.quads : NULL,
                         s->x, tokens, s->y, s->linear_scratch, counts);
        spent(s, STAGE_FFN_SPARSE);
    } else
        dense_feed_forward(model, layer, tokens, s);
    counts->seconds += clock_seconds() - start;
}

/* x = layer_norm(x + y) */
static void add_and_norm(const struct bert *model, const struct norm *norm, size_t tokens,
                         const struct state *s) {
    model->kernels->layer_norm(s->x, s->y, norm->weight, norm->bias,
                               model->config.layer_norm_epsilon, tokens, model->config.hidden_size);
    spent(s, STAGE_NORM);
}

/* One text's hidden states [tokens, hidden_size] to its embedding. */
static void pool(const struct bert *model, const float *x, size_t tokens, size_t skipped,
                 float *row) {
    const size_t size = model->config.hidden_size;
    if (model->config.pooling == BERT_POOL_CLS) {
        memcpy(row, x, size * sizeof *row);
    } else {
        memset(row, 0, size * sizeof *row);
        for (size_t t = skipped; t < tokens; t++)
            model->kernels->add(row, x + t * size, size);
        for (size_t i = 0; i < size; i++)
            row[i] /= (float)(tokens - skipped);
    }
}

wisp_status bert_forward(const struct bert *model, const struct bert_batch *batch, float *rows,
                         struct workspace *space,
                         void (*hidden)(void *context, size_t layer, const float *states),
                         void *context, wisp_error *error) {
    const size_t tokens = batch->starts[batch->texts], size = model->config.hidden_size;
    struct state s = take_state(model, batch, space);
    TRY(embed_tokens(model, batch, &s, error));
    spent(&s, STAGE_LOOK_UP);
    if (hidden)
        hidden(context, 0, s.x);
    for (size_t l = 0; l < model->config.layers; l++) {
        const struct bert_layer *layer = &model->layer[l];
        s.layer = (int)l;
        attention_block(model, layer, batch, &s);
        add_and_norm(model, &layer->attention_norm, tokens, &s);
        feed_forward_block(model, batch, l, &s);
        add_and_norm(model, &layer->output_norm, tokens, &s);
        if (hidden)
            hidden(context, l + 1, s.x);
    }
    for (size_t i = 0; i < batch->texts; i++)
        pool(model, s.x + batch->starts[i] * size, batch->starts[i + 1] - batch->starts[i],
             batch->skipped ? batch->skipped[i] : 0, rows + i * size);
    s.layer = NO_LAYER;
    spent(&s, STAGE_POOL);
    return WISP_OK;
}
