/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of BERT and nomic-bert, top to bottom. bert_load.c reads the weights. Norms
 * follow blocks, so pass->x is the hidden states. */
#include "models/bert.h"

#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/rope.h"
#include "base/checked.h"
#include "layers/mean.h"
#include "models/config_reader.h"
#include "models/feed_forward_block.h"

/* Working memory of a pass. Rows are tokens of the whole batch; each member computes its own, and
 * reads those of others only for attention and to choose neurons for a text. */
struct bert_state {
    float *x;       /* [tokens, hidden_size]: the hidden states */
    float *y;       /* [tokens, hidden_size]: what a block adds to them */
    float *context; /* [tokens, hidden_size]: attention's result */
    float *inner;   /* [tokens, inner_size]: between the halves of a feed-forward layer; before that
                       queries, keys and values [tokens, 3 hidden_size] */
    size_t inner_size;
    float *rope; /* [longest text, head size]: rope.h's table; empty without rotary positions */
    struct feed_forward_work feed_forward;
    struct workspace scratch[PASS_MOST_MEMBERS]; /* each member's */
};

static struct attention_shape attention_shape_of(const struct network *network) {
    const struct model_config *c = &network->config;
    const size_t head_size = c->hidden_size / c->heads;
    return (struct attention_shape){.heads = c->heads,
                                    .kv_heads = c->heads,
                                    .head_size = head_size,
                                    .scale = 1 / sqrtf((float)head_size),
                                    .mask = ATTENTION_ALL_KEYS,
                                    .i16 = network->int8};
}

/* Bytes that a member needs for the step of any block. */
static size_t scratch_bytes(const struct network *network, const struct pass_size *size) {
    const struct attention_shape shape = attention_shape_of(network);
    const size_t tokens = smaller(pass_tokens_each(size->tokens, size->members), PASS_PART_TOKENS);
    return larger(feed_forward_workspace_bytes(network, tokens),
                  attention_full.workspace_bytes(network->kernels, &shape, size->longest));
}

/* While measuring, workspace_take returns NULL, and `taken` stands in for the state. */
static void bert_take(const struct network *network, const struct pass_size *size,
                      struct workspace *space, struct pass *pass) {
    const struct model_config *c = &network->config;
    const size_t tokens = size->tokens, hidden_size = c->hidden_size;
    const size_t head_size = hidden_size / c->heads, scratch = scratch_bytes(network, size);
    struct bert_state taken = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &taken;
    s->inner_size = larger(3 * hidden_size, feed_forward_inner_size(c));
    s->x = workspace_take(space, tokens, hidden_size, sizeof *s->x);
    s->y = workspace_take(space, tokens, hidden_size, sizeof *s->y);
    s->context = workspace_take(space, tokens, hidden_size, sizeof *s->context);
    s->inner = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    s->rope =
        workspace_take(space, c->rope_theta != 0 ? size->longest : 0, head_size, sizeof *s->rope);
    s->feed_forward = feed_forward_take(network, size, space, pass ? &pass->batch : NULL);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch);
    if (!pass)
        return;
    if (c->rope_theta != 0)
        fill_rope_table(c->rope_theta, head_size, size->longest, s->rope);
    pass->x = s->x;
    pass->state = s;
}

/* x = layer_norm(token embedding + position embedding + embedding of token type 0) */
static wisp_status embed_tokens(const struct pass *pass, const struct bert_state *s,
                                wisp_error *error) {
    const struct network *network = pass->network;
    const struct bert_weights *w = network->weights;
    const size_t size = network->config.hidden_size;
    const struct batch *batch = &pass->batch;
    float *positions = s->y;
    for (size_t i = 0; i < batch->texts; i++)
        for (size_t t = batch->starts[i]; t < batch->starts[i + 1]; t++) {
            const size_t row = network->config.rope_theta != 0 ? 0 : t - batch->starts[i];
            TRY(token_embedding_row(&network->tokens, batch->ids[t], s->inner, s->x + t * size,
                                    error));
            memcpy(positions + t * size, w->position_embedding + row * size, size * sizeof(float));
        }
    network->kernels->layer_norm(s->x, positions, w->embedding_norm.weight, w->embedding_norm.bias,
                                 network->config.layer_norm_epsilon, pass->tokens, size);
    return WISP_OK;
}

/* Those tokens of text i that are the member's, counted from the text's start: none where first is
 * not below end. */
struct part {
    size_t start, tokens; /* of the text */
    size_t first, end;
};

static struct part part_of_text(const struct pass *pass, size_t i, struct pass_tokens own) {
    const size_t start = pass->batch.starts[i], end = pass->batch.starts[i + 1];
    return (struct part){.start = start,
                         .tokens = end - start,
                         .first = larger(start, own.first) - start,
                         .end = larger(start, smaller(end, own.first + own.n)) - start};
}

/* Rotates the member's queries and keys, of which the keys follow the queries as further heads. */
static void rotate(const struct pass *pass, const struct bert_state *s, struct pass_tokens own) {
    const struct model_config *c = &pass->network->config;
    const size_t head_size = c->hidden_size / c->heads, ld = 3 * (size_t)c->hidden_size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct part part = part_of_text(pass, i, own);
        if (part.first < part.end)
            apply_rope(s->rope + part.first * head_size, part.end - part.first,
                       2 * (size_t)c->heads, head_size, s->inner + (part.start + part.first) * ld,
                       ld);
    }
}

/* Queries of a text of so many tokens that are computed before the hook is asked again: about 2^30
 * multiplications with keys and values. */
static size_t queries_at_a_time(size_t tokens, size_t hidden_size) {
    const uint64_t of_one_query = 2 * (uint64_t)tokens * hidden_size;
    return (size_t)larger((size_t)((UINT64_C(1) << 30) / of_one_query), 32);
}

/* The member's rows of context = attention(q, k, v), text by text. */
static wisp_status attend(const struct pass *pass, const struct bert_state *s, struct cursor at,
                          struct pass_tokens own, struct workspace scratch, wisp_error *error) {
    const struct attention_shape shape = attention_shape_of(pass->network);
    const size_t size = pass->network->config.hidden_size, ld = 3 * size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct part part = part_of_text(pass, i, own);
        const float *q = s->inner + part.start * ld;
        struct attention_sequence text = {.q = {q, ld, shape.head_size},
                                          .k = {q + size, ld, shape.head_size},
                                          .v = {q + 2 * size, ld, shape.head_size},
                                          .queries = part.tokens,
                                          .keys = part.tokens};
        const size_t queries = queries_at_a_time(part.tokens, size);
        for (text.first = part.first; text.first < part.end; text.first = text.end) {
            text.end = smaller(part.end, text.first + queries);
            TRY(pass_ask(pass, at, text.first - part.first, error));
            attention_full.run(pass->network->kernels, &shape, &text,
                               s->context + (part.start + text.first) * size, size, scratch);
        }
    }
    return WISP_OK;
}

/* y [n, outputs] = layer(x), of the member's n tokens, a part at a time. */
static wisp_status apply_in_parts(const struct pass *pass, struct cursor at,
                                  const struct linear *layer, const float *x, size_t n, float *y,
                                  struct workspace scratch, wisp_error *error) {
    for (size_t done = 0; done < n; done += PASS_PART_TOKENS) {
        TRY(pass_ask(pass, at, done, error));
        linear_apply(layer, x + done * layer->k, smaller(n - done, PASS_PART_TOKENS),
                     y + done * layer->n, scratch);
    }
    return WISP_OK;
}

/* x = layer_norm(x + y), of the member's tokens. */
static void add_and_norm(struct pass *pass, uint32_t member, struct cursor at,
                         const struct norm *norm) {
    const struct model_config *c = &pass->network->config;
    const struct bert_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t first = own.first * c->hidden_size;
    pass->network->kernels->layer_norm(s->x + first, s->y + first, norm->weight, norm->bias,
                                       c->layer_norm_epsilon, own.n, c->hidden_size);
    pass_mark(pass, member, at, STAGE_NORM);
}

/* A text's embedding is its first hidden state, or the mean of all but the skipped ones. */
static void pool(const struct pass *pass) {
    const struct network *network = pass->network;
    const struct batch *batch = &pass->batch;
    const size_t size = network->config.hidden_size;
    for (size_t i = 0; i < batch->texts; i++) {
        const size_t skipped = batch->skipped ? batch->skipped[i] : 0;
        const size_t tokens = batch->starts[i + 1] - batch->starts[i];
        const float *x = pass->x + batch->starts[i] * size;
        if (network->config.pooling == POOLING_CLS)
            memcpy(pass->rows + i * size, x, size * sizeof *x);
        else
            mean_of_rows(network->kernels, x + skipped * size, tokens - skipped, size,
                         pass->rows + i * size);
    }
}

static wisp_status bert_step(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_error *error) {
    const struct network *network = pass->network;
    const struct bert_weights *w = network->weights;
    const struct bert_layer *layer = &w->layer[at.layer];
    const struct bert_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t size = network->config.hidden_size;
    const float *x = s->x + own.first * size;
    float *y = s->y + own.first * size;
    wisp_status status;

    switch (at.block) {
    case BLOCK_EMBED:
        if (member > 0)
            break;
        TRY(embed_tokens(pass, s, error));
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case BLOCK_ATTENTION: /* x = layer_norm(x + W_o attention(W_qkv x)) */
        status = apply_in_parts(pass, at, &layer->qkv, x, own.n, s->inner + own.first * 3 * size,
                                s->scratch[member], error);
        if (network->config.rope_theta != 0)
            rotate(pass, s, own);
        pass_mark(pass, member, at, STAGE_QKV);
        pass_barrier(pass, member, at); /* all members have written their keys and values */
        if (status == WISP_OK)
            status = attend(pass, s, at, own, s->scratch[member], error);
        pass_mark(pass, member, at, STAGE_ATTENTION);
        if (status == WISP_OK)
            status = apply_in_parts(pass, at, &layer->output, s->context + own.first * size, own.n,
                                    y, s->scratch[member], error);
        pass_mark(pass, member, at, STAGE_ATTENTION_OUTPUT);
        TRY(pass_agree(pass, member, at, status, error));
        add_and_norm(pass, member, at, &layer->attention_norm);
        break;

    case BLOCK_FEED_FORWARD: /* x = layer_norm(x + feed_forward(x)) */
        status =
            feed_forward_run(pass, member, at, &s->feed_forward,
                             s->inner + own.first * s->inner_size, y, s->scratch[member], error);
        TRY(pass_agree(pass, member, at, status, error));
        add_and_norm(pass, member, at, &layer->output_norm);
        break;

    case BLOCK_POOL:
        if (member > 0)
            break;
        pool(pass);
        pass_mark(pass, member, at, STAGE_POOL);
        break;

    case BLOCK_END:
        break;
    }
    return WISP_OK;
}

static wisp_status read_encoder(const struct config_reader *r) {
    TRY(config_read_sizes(r));
    TRY(config_read_layer_norm_epsilon(r));
    TRY(config_read_activation(r));
    TRY(config_read_pooling(r));
    return config_refuse_causal(r);
}

static wisp_status read_bert(const struct directory *dir, struct model_config *config,
                             wisp_error *error) {
    const struct config_reader r = {dir, architecture_bert.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GELU, .has_bias = true};
    return read_encoder(&r);
}

static wisp_status read_nomic_bert(const struct directory *dir, struct model_config *config,
                                   wisp_error *error) {
    const struct config_reader r = {dir, architecture_nomic_bert.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU, .fused_qkv = true};
    TRY(read_encoder(&r));
    return config_read_rope(&r);
}

const struct architecture architecture_bert = {.name = "bert",
                                               .embeds = true,
                                               .read_config = read_bert,
                                               .load = bert_load,
                                               .load_layer = bert_load_layer,
                                               .release = bert_release,
                                               .take = bert_take,
                                               .step = bert_step};

const struct architecture architecture_nomic_bert = {.name = "nomic-bert",
                                                     .embeds = true,
                                                     .read_config = read_nomic_bert,
                                                     .load = bert_load,
                                                     .load_layer = bert_load_layer,
                                                     .release = bert_release,
                                                     .take = bert_take,
                                                     .step = bert_step};
