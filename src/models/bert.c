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
#include "layers/mean.h"

enum { TOKENS_STEP = 4 }; /* fewer rows at a time are slower to multiply */

/* What a member of the team that shares a batch works with: its tokens are [first, first + tokens)
 * of the batch. All is row by row but attention, which sees the rows of all members. */
struct state {
    float *x;        /* [tokens, hidden_size]: the hidden states */
    float *all_x;    /* [the batch's tokens, hidden_size]: those of all members */
    float *y;        /* [tokens, hidden_size]: what a block adds to them */
    float *context;  /* [tokens, hidden_size]: attention's result */
    float *wide;     /* [tokens, max(3 hidden_size, intermediate_size, twice that if gated)] */
    float *all_qkv;  /* [the batch's tokens, 3 hidden_size], over what is wide of all members */
    float *rotary;   /* [longest text, size of a head]; nothing without rotary positions */
    uint64_t *masks; /* [texts, words]: neurons chosen; nothing where that is not by text */
    const uint64_t **chosen; /* [tokens]: each token's text's; likewise */
    size_t first, tokens;
    void *linear_scratch;
    void *attention_scratch;
    struct bert_member told;
    int layer;
};

/* The time since the last call went into `stage`. */
static void spent(const struct state *s, enum stage stage) {
    trace_mark(s->told.trace, stage, s->layer);
}

static struct workspace dense_space(const struct state *s) {
    return (struct workspace){.base = s->linear_scratch, .capacity = SIZE_MAX};
}

static bool is_gated(const struct bert_config *c) {
    return c->activation == ACTIVATION_GATED_SILU;
}

static size_t wide_size(const struct bert_config *c) {
    const size_t inner = (size_t)c->intermediate_size * (is_gated(c) ? 2 : 1);
    return larger(3 * (size_t)c->hidden_size, inner);
}

static size_t rotary_floats(const struct bert_config *c, size_t longest) {
    return c->rotary ? longest * (c->hidden_size / c->heads) : 0;
}

static size_t mask_words(const struct bert *model) {
    return model->by_text ? sparse_mask_words(model->config.intermediate_size) : 0;
}

static size_t scratch_size(const struct bert_config *c) {
    return larger(c->hidden_size, c->intermediate_size);
}

/* Whether the sums below stay far from what 32 bits hold, as pointers have in WebAssembly: more
 * floats than are needed, counted in 64. */
static bool is_addressable(const struct bert *model, uint64_t tokens, uint64_t longest) {
    const struct bert_config *c = &model->config;
    const uint64_t panel = model->kernels->f32_panel, head = c->hidden_size / c->heads;
    const uint64_t per_token = 3 * (uint64_t)c->hidden_size + wide_size(c) + scratch_size(c) + 5 +
                               2 * (uint64_t)mask_words(model);
    const uint64_t attention = (longest + panel) * (3 * head + 2 * panel + 32);
    return (tokens + 16) * per_token + attention < SIZE_MAX / (2 * sizeof(float));
}

/* What linear layers and sparse ones need besides, one after the other. */
static size_t block_scratch_bytes(const struct bert *model, size_t tokens) {
    const struct bert_config *c = &model->config;
    const size_t linear = linear_workspace_bytes(tokens, scratch_size(c));
    if (!model->sparse)
        return linear;
    return larger(linear, sparse_ffn_workspace_bytes(c->hidden_size, c->intermediate_size,
                                                     model->rank, c->activation));
}

static size_t padded_floats(size_t n) {
    return round_up(n * sizeof(float), MEMORY_ALIGNMENT);
}

/* For as many texts as tokens. */
static size_t choice_bytes(const struct bert *model, size_t tokens) {
    const size_t masks = tokens * mask_words(model) * sizeof(uint64_t);
    return model->by_text ? round_up(masks, MEMORY_ALIGNMENT) +
                                round_up(tokens * sizeof(uint64_t *), MEMORY_ALIGNMENT)
                          : 0;
}

static size_t member_scratch_bytes(const struct bert *model, size_t tokens, size_t longest) {
    const struct bert_config *c = &model->config;
    return block_scratch_bytes(model, tokens) +
           round_up(attention_scratch_bytes(model->kernels, longest, c->hidden_size / c->heads),
                    MEMORY_ALIGNMENT);
}

/* Tokens of each of the members, but for the last, who may have fewer. */
static size_t tokens_each(size_t tokens, uint32_t members) {
    return round_up((tokens + members - 1) / members, TOKENS_STEP);
}

bool bert_workspace_bytes(const struct bert *model, size_t tokens, size_t longest, uint32_t members,
                          size_t *bytes) {
    const struct bert_config *c = &model->config;
    if (!is_addressable(model, tokens, longest))
        return false;
    const size_t shared = 3 * padded_floats(tokens * c->hidden_size) +
                          padded_floats(tokens * wide_size(c)) +
                          padded_floats(rotary_floats(c, longest)) + choice_bytes(model, tokens);
    const size_t scratch = member_scratch_bytes(model, tokens_each(tokens, members), longest);
    uint64_t total;
    return checked_multiply(members, scratch, &total) && checked_add(total, shared, &total) &&
           checked_size(total, bytes);
}

static size_t longest_text(const struct bert_batch *batch) {
    size_t longest = 0;
    for (size_t i = 0; i < batch->texts; i++)
        longest = larger(longest, batch->starts[i + 1] - batch->starts[i]);
    return longest;
}

/* Room for the texts' masks, and which of them is each token's. */
static void take_choice(const struct bert *model, const struct bert_batch *batch,
                        struct workspace *space, struct state *s) {
    const size_t words = mask_words(model);
    s->masks = workspace_take(space, 1, batch->texts * words * sizeof *s->masks, 1);
    s->chosen = workspace_take(space, 1, s->tokens * sizeof *s->chosen, 1);
    for (size_t i = 0; i < batch->texts; i++)
        for (size_t t = batch->starts[i]; t < batch->starts[i + 1]; t++)
            s->chosen[t] = s->masks + i * words;
}

/* The whole batch in one state. */
static struct state take_state(const struct bert *model, const struct bert_batch *batch,
                               struct workspace *space) {
    const size_t tokens = batch->starts[batch->texts], longest = longest_text(batch);
    const struct bert_config *c = &model->config;
    struct state s = {.tokens = tokens, .told = batch->member[0], .layer = NO_LAYER};
    s.x = workspace_take(space, 1, tokens * c->hidden_size * sizeof(float), 1);
    s.all_x = s.x;
    s.y = workspace_take(space, 1, tokens * c->hidden_size * sizeof(float), 1);
    s.context = workspace_take(space, 1, tokens * c->hidden_size * sizeof(float), 1);
    s.wide = workspace_take(space, 1, tokens * wide_size(c) * sizeof(float), 1);
    s.all_qkv = s.wide;
    s.rotary = workspace_take(space, 1, rotary_floats(c, longest) * sizeof(float), 1);
    if (c->rotary)
        rotary_fill(c->rotary_base, c->hidden_size / c->heads, longest, s.rotary);
    if (model->by_text)
        take_choice(model, batch, space, &s);
    s.linear_scratch = workspace_take(
        space, 1,
        batch->members * member_scratch_bytes(model, tokens_each(tokens, batch->members), longest),
        1);
    return s;
}

/* A member's part of it. */
static struct state part_of(const struct state *all, const struct bert *model,
                            const struct bert_batch *batch, uint32_t member) {
    const struct bert_config *c = &model->config;
    const size_t each = tokens_each(all->tokens, batch->members);
    const size_t scratch = member_scratch_bytes(model, each, longest_text(batch));
    struct state s = *all;
    s.first = smaller(member * each, all->tokens);
    s.tokens = smaller(each, all->tokens - s.first);
    s.x += s.first * c->hidden_size;
    s.y += s.first * c->hidden_size;
    s.context += s.first * c->hidden_size;
    s.wide += s.first * wide_size(c);
    if (model->by_text)
        s.chosen += s.first;
    s.linear_scratch = (unsigned char *)all->linear_scratch + member * scratch;
    s.attention_scratch = (unsigned char *)s.linear_scratch + block_scratch_bytes(model, each);
    s.told = batch->member[member];
    return s;
}

/* The stored embedding of a token; `buffer` has room for it. */
static wisp_status token_row(const struct bert *model, int32_t id, void *buffer, const void **row,
                             wisp_error *error) {
    const struct tensor *table = model->token_embedding;
    if (!model->token_rows)
        return directory_rows(model->dir, table, (uint64_t)id, 1, NULL, buffer, row, error);
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

/* Everybody's rows of what was computed last are there, and nobody reads what was before. */
static void meet(const struct bert_batch *batch, const struct state *s) {
    if (!batch->team)
        return;
    pool_barrier(batch->team, batch->members);
    spent(s, STAGE_WAIT);
}

/* Text i of the batch, and which of its tokens are the member's: none where first >= end. */
struct part {
    size_t start, tokens; /* of the text */
    size_t first, end;    /* counted from its start */
};

static struct part part_in(const struct bert_batch *batch, size_t i, const struct state *s) {
    const size_t start = batch->starts[i], end = batch->starts[i + 1];
    return (struct part){.start = start,
                         .tokens = end - start,
                         .first = larger(start, s->first) - start,
                         .end = larger(start, smaller(end, s->first + s->tokens)) - start};
}

/* The member's queries and keys, where positions are rotary. */
static void turn(const struct bert_config *c, const struct bert_batch *batch,
                 const struct state *s) {
    const size_t size = c->hidden_size / c->heads, ld = 3 * (size_t)c->hidden_size;
    for (size_t i = 0; c->rotary && i < batch->texts; i++) {
        const struct part part = part_in(batch, i, s);
        if (part.first < part.end) /* keys follow queries as further heads */
            rotary_apply(s->rotary + part.first * size, part.end - part.first, 2 * (size_t)c->heads,
                         size, s->all_qkv + (part.start + part.first) * ld, ld);
    }
}

static void attend(const struct bert *model, const struct bert_batch *batch, bool int8,
                   const struct state *s) {
    const size_t size = model->config.hidden_size;
    const struct attention_shape shape = {.heads = model->config.heads,
                                          .head_size = size / model->config.heads,
                                          .ld_qkv = 3 * size,
                                          .ld_context = size,
                                          .i16 = int8};
    for (size_t i = 0; i < batch->texts; i++) {
        const struct part part = part_in(batch, i, s);
        const float *q = s->all_qkv + part.start * shape.ld_qkv;
        const struct attention_text text = {.q = q,
                                            .k = q + size,
                                            .v = q + 2 * size,
                                            .tokens = part.tokens,
                                            .first = part.first,
                                            .end = part.end};
        if (part.first < part.end)
            attention_full(model->kernels, &shape, &text,
                           s->context + (part.start + part.first - s->first) * size,
                           s->attention_scratch);
    }
}

/* y = W_o attention(W_qkv x) */
static void attention_block(const struct bert *model, const struct bert_layer *layer,
                            const struct bert_batch *batch, const struct state *s) {
    meet(batch, s);
    linear_apply(&layer->qkv, s->x, s->tokens,
                 s->all_qkv + s->first * 3 * model->config.hidden_size, dense_space(s));
    turn(&model->config, batch, s);
    spent(s, STAGE_QKV);
    meet(batch, s);
    attend(model, batch, layer->qkv.int8, s);
    spent(s, STAGE_ATTENTION);
    meet(batch, s);
    linear_apply(&layer->output, s->context, s->tokens, s->y, dense_space(s));
    spent(s, STAGE_ATTENTION_OUTPUT);
}

/* y = W_down activation(W_up x), or where that is gated W_down (silu(W_gate x) * W_up x) */
static void dense_feed_forward(const struct bert *model, const struct bert_layer *layer,
                               const struct state *s) {
    const size_t tokens = s->tokens, values = tokens * model->config.intermediate_size;
    float *inner = s->wide;
    linear_apply(&layer->up, s->x, tokens, inner, dense_space(s));
    if (is_gated(&model->config))
        linear_apply(&layer->gate, s->x, tokens, inner + values, dense_space(s));
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
    linear_apply(&layer->down, inner, tokens, s->y, dense_space(s));
    spent(s, STAGE_FFN_DOWN);
}

/* What is computed for each text: said by the member that has its first token. Everybody's x is
 * there, and nobody goes on to change it before all means are taken. */
static void choose_by_text(const struct bert *model, const struct bert_batch *batch,
                           const struct sparse_ffn *ffn, const float *thresholds,
                           const struct state *s) {
    size_t first = 0;
    while (first < batch->texts && batch->starts[first] < s->first)
        first++;
    size_t end = first;
    while (end < batch->texts && batch->starts[end] < s->first + s->tokens)
        end++;
    sparse_ffn_choose(ffn, thresholds, s->all_x, batch->starts + first, end - first,
                      s->masks + first * mask_words(model), dense_space(s));
    spent(s, STAGE_FFN_SPARSE);
    meet(batch, s);
}

static void sparse_feed_forward(const struct bert *model, const struct bert_batch *batch, size_t l,
                                const struct state *s, struct sparse_counts *counts) {
    const struct sparse_ffn *ffn = &model->layer[l].sparse;
    struct sparse_choice choice = {
        .thresholds = batch->thresholds ? batch->thresholds + l * ffn->intermediate_size : NULL};
    if (model->by_text) {
        choose_by_text(model, batch, ffn, choice.thresholds, s);
        choice.masks = s->chosen;
    }
    sparse_ffn_apply(ffn, choice, s->x, s->tokens, s->y, dense_space(s), counts);
    spent(s, STAGE_FFN_SPARSE);
}

/* The same, dense or sparse, of layer l. */
static void feed_forward_block(const struct bert *model, const struct bert_batch *batch, size_t l,
                               const struct state *s) {
    struct sparse_counts uncounted = {0},
                         *counts = s->told.counts ? s->told.counts + l : &uncounted;
    if (batch->observe)
        batch->observe(batch->observer, l, s->x);
    if (model->by_text)
        meet(batch, s);
    const double start = clock_seconds();
    if (model->sparse)
        sparse_feed_forward(model, batch, l, s, counts);
    else
        dense_feed_forward(model, &model->layer[l], s);
    counts->seconds += clock_seconds() - start;
}

/* x = layer_norm(x + y) */
static void add_and_norm(const struct bert *model, const struct norm *norm, const struct state *s) {
    model->kernels->layer_norm(s->x, s->y, norm->weight, norm->bias,
                               model->config.layer_norm_epsilon, s->tokens,
                               model->config.hidden_size);
    spent(s, STAGE_NORM);
}

/* One text's hidden states [tokens, hidden_size] to its embedding. */
static void pool(const struct bert *model, const float *x, size_t tokens, size_t skipped,
                 float *row) {
    const size_t size = model->config.hidden_size;
    if (model->config.pooling == BERT_POOL_CLS) {
        memcpy(row, x, size * sizeof *row);
    } else
        mean_of_rows(model->kernels, x + skipped * size, tokens - skipped, size, row);
}

/* A batch on its way through the layers. */
struct pass {
    const struct bert *model;
    const struct bert_batch *batch;
    struct state all;
    void (*hidden)(void *context, size_t layer, const float *states);
    void *context;
};

/* A member's part of the tokens through all layers. */
static void run_layers(void *context, uint32_t member) {
    const struct pass *p = context;
    const struct bert *model = p->model;
    struct state s = part_of(&p->all, model, p->batch, member);
    if (member > 0 && s.told.trace)
        trace_start(s.told.trace);
    for (size_t l = 0; l < model->config.layers; l++) {
        const struct bert_layer *layer = &model->layer[l];
        s.layer = (int)l;
        attention_block(model, layer, p->batch, &s);
        add_and_norm(model, &layer->attention_norm, &s);
        feed_forward_block(model, p->batch, l, &s);
        add_and_norm(model, &layer->output_norm, &s);
        if (p->hidden)
            p->hidden(p->context, l + 1, s.x);
    }
}

wisp_status bert_forward(const struct bert *model, const struct bert_batch *batch, float *rows,
                         struct workspace *space,
                         void (*hidden)(void *context, size_t layer, const float *states),
                         void *context, wisp_error *error) {
    const size_t size = model->config.hidden_size;
    struct pass p = {model, batch, take_state(model, batch, space), hidden, context};
    TRY(embed_tokens(model, batch, &p.all, error));
    spent(&p.all, STAGE_LOOK_UP);
    if (hidden)
        hidden(context, 0, p.all.x);
    if (batch->team)
        pool_run(batch->team, batch->members, run_layers, &p);
    else
        run_layers(&p, 0);
    for (size_t i = 0; i < batch->texts; i++)
        pool(model, p.all.x + batch->starts[i] * size, batch->starts[i + 1] - batch->starts[i],
             batch->skipped ? batch->skipped[i] : 0, rows + i * size);
    spent(&p.all, STAGE_POOL);
    return WISP_OK;
}
