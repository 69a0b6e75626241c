/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of BERT and nomic-bert, top to bottom. bert_load.c reads the weights. Norms
 * follow blocks, so pass->x is the hidden states. */
#include "models/bert.h"

#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/rope.h"
#include "base/checked.h"
#include "formats/schema.h"
#include "layers/mean.h"
#include "models/config_reader.h"
#include "models/feed_forward_block.h"

/* The working memory of a pass. Rows are the tokens of the whole batch. Each member writes the rows
 * of its own tokens; it reads the rows of others only where attention needs the keys and values of
 * a text, and where a predictor needs the mean over a text. */
struct bert_state {
    float *x;       /* [tokens, hidden_size]: the hidden states */
    float *y;       /* [tokens, hidden_size]: the values that a block adds to the hidden states */
    float *context; /* [tokens, hidden_size]: the result of attention */
    /* Attention keeps queries, keys and values here as [tokens, 3 hidden_size]; a dense
     * feed-forward layer keeps the values between its halves as [tokens, inner_size]. */
    float *inner;
    size_t inner_size; /* floats of `inner` for each token */
    float *rope;       /* [longest text, head size]: the table of rope.h; empty without rotary
                          positions */
    struct feed_forward_work feed_forward;
    struct workspace scratch[PASS_MAX_MEMBERS]; /* one for each member */
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

static void bert_take(const struct network *network, const struct pass_size *size,
                      struct workspace *space, struct pass *pass) {
    const struct model_config *c = &network->config;
    const struct attention_shape shape = attention_shape_of(network);
    const size_t tokens = size->tokens, hidden_size = c->hidden_size;
    const size_t part = smaller(pass_tokens_each(tokens, size->members), PASS_PART_TOKENS);
    const size_t scratch_bytes =
        larger(feed_forward_workspace_bytes(network, part),
               attention_full.workspace_bytes(network->kernels, &shape, size->longest));
    struct bert_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    s->inner_size = larger(3 * hidden_size, feed_forward_inner_size(c));
    s->x = workspace_take(space, tokens, hidden_size, sizeof *s->x);
    s->y = workspace_take(space, tokens, hidden_size, sizeof *s->y);
    s->context = workspace_take(space, tokens, hidden_size, sizeof *s->context);
    s->inner = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    s->rope = workspace_take(space, c->rope_theta != 0 ? size->longest : 0, shape.head_size,
                             sizeof *s->rope);
    s->feed_forward = feed_forward_take(network, size, space, pass);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch_bytes);
    if (!pass)
        return;
    if (c->rope_theta != 0)
        fill_rope_table(&(struct rope){.theta = c->rope_theta}, shape.head_size, size->longest,
                        s->rope);
    pass->x = s->x;
    pass->state = s;
}

/* x = layer_norm(token embedding + position embedding + embedding of token type 0). The last two
 * are added when the model is loaded (bert_load.c). With rotary positions, only the embedding of
 * token type 0 is added, which is row 0. */
static wisp_status embed_tokens(struct pass *pass, const struct bert_state *s, wisp_error *error) {
    const struct network *network = pass->network;
    const struct bert_weights *w = network->weights;
    const size_t size = network->config.hidden_size;
    const struct batch *batch = &pass->batch;
    float *positions = s->y;
    while (pass->looked_up < pass->tokens) {
        const size_t first = pass->looked_up, n = pass_tokens_to_look_up(pass);
        const size_t absent = token_embedding_hold(&network->tokens, batch->ids + first, n, NULL);
        if (absent > 0)
            return fail(error, WISP_NEED_RANGES, network->dir->file, NULL,
                        "the embeddings of %zu tokens are absent: wisp_session_needs says which "
                        "bytes they are",
                        absent);
        for (size_t t = first; t < first + n; t++)
            TRY(token_embedding_row(&network->tokens, batch->ids[t], pass->member[0].tokens,
                                    s->inner, s->x + t * size, error));
        token_embedding_let_go(&network->tokens);
        pass->looked_up += n;
    }
    TRY(rest_wake(network, REST_POSITIONS, 0, error));
    for (size_t i = 0; i < batch->texts; i++)
        for (size_t t = batch->starts[i]; t < batch->starts[i + 1]; t++) {
            const size_t row = network->config.rope_theta != 0 ? 0 : t - batch->starts[i];
            memcpy(positions + t * size, w->position_embedding + row * size, size * sizeof(float));
        }
    rest_sleep(network, REST_POSITIONS, 0);
    network->kernels->layer_norm(s->x, positions, w->embedding_norm.weight, w->embedding_norm.bias,
                                 network->config.norm_epsilon, pass->tokens, size);
    return WISP_OK;
}

/* Applies rotary positions to the queries and keys of the member's tokens. The keys follow the
 * queries in a row of `inner`, so both are rotated as 2 * heads heads. */
static void rotate(const struct pass *pass, const struct bert_state *s, struct pass_tokens own) {
    const struct model_config *c = &pass->network->config;
    const size_t head_size = c->hidden_size / c->heads, ld = 3 * (size_t)c->hidden_size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_part part = pass_text_part(pass, i, own);
        if (part.first < part.end)
            apply_rope(&(struct rope){.theta = c->rope_theta}, s->rope + part.first * head_size,
                       part.end - part.first, 2 * (size_t)c->heads, head_size,
                       s->inner + (part.start + part.first) * ld, ld);
    }
}

/* Computes the member's rows of context = attention(q, k, v), text by text. */
static wisp_status attend(const struct pass *pass, const struct bert_state *s, struct cursor at,
                          struct pass_tokens own, struct workspace scratch, wisp_error *error) {
    const struct attention_shape shape = attention_shape_of(pass->network);
    const size_t size = pass->network->config.hidden_size, ld = 3 * size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_part part = pass_text_part(pass, i, own);
        const float *q = s->inner + part.start * ld;
        struct attention_sequence text = {.q = {q, ld, shape.head_size},
                                          .k = {q + size, ld, shape.head_size},
                                          .v = {q + 2 * size, ld, shape.head_size},
                                          .queries = part.tokens,
                                          .keys = part.tokens};
        for (text.first = part.first; text.first < part.end; text.first = text.end) {
            text.end = text.first + pass_queries_at_once(pass, part.tokens, part.end - text.first);
            TRY(pass_ask_hook(pass, at, text.first - part.first, error));
            attention_full.run(pass->network->kernels, &shape, &text,
                               s->context + (part.start + text.first) * size, size, scratch);
        }
    }
    return WISP_OK;
}

/* Computes x = layer_norm(x + y) for the member's tokens. */
static void add_and_norm(struct pass *pass, uint32_t member, struct cursor at,
                         const struct norm *norm) {
    const struct model_config *c = &pass->network->config;
    const struct bert_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t first = own.first * c->hidden_size;
    pass->network->kernels->layer_norm(s->x + first, s->y + first, norm->weight, norm->bias,
                                       c->norm_epsilon, own.n, c->hidden_size);
    pass_mark(pass, member, at, STAGE_NORM);
}

/* Writes one row for each text: the first of its hidden states (CLS pooling) or their mean. The
 * leading hidden states that batch->skipped leaves out count in neither. */
static void pool(const struct pass *pass) {
    const struct network *network = pass->network;
    const struct batch *batch = &pass->batch;
    const size_t size = network->config.hidden_size;
    for (size_t i = 0; i < batch->texts; i++) {
        const size_t skipped = batch->skipped ? batch->skipped[i] : 0;
        const size_t tokens = batch->starts[i + 1] - batch->starts[i];
        const float *x = pass->x + (batch->starts[i] + skipped) * size;
        if (network->config.pooling == POOLING_CLS)
            memcpy(pass->rows + i * size, x, size * sizeof *x);
        else
            mean_of_rows(network->kernels, x, tokens - skipped, size, pass->rows + i * size);
    }
}

/* Runs one block of the pass for the tokens of one member. */
static wisp_status bert_step(struct pass *pass, uint32_t member, struct cursor at,
                             wisp_error *error) {
    const struct network *network = pass->network;
    const struct bert_weights *w = network->weights;
    const struct bert_layer *layer = &w->layer[at.layer];
    const struct bert_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t size = network->config.hidden_size;
    /* x, context and y begin at the member's own tokens. */
    const float *x = s->x + own.first * size, *context = s->context + own.first * size;
    float *y = s->y + own.first * size;
    wisp_status status;

    switch (at.block) {
    case BLOCK_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(embed_tokens(pass, s, error));
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case BLOCK_ATTENTION: /* x = layer_norm(x + W_o attention(W_qkv x)) */
        TRY(pass_wake(pass, member, at, REST_ATTENTION, error));
        status = pass_apply_linear(pass, at, &layer->qkv, x, own.n, s->inner + own.first * 3 * size,
                                   s->scratch[member], error); /* q, k and v */
        if (network->config.rope_theta != 0)
            rotate(pass, s, own);
        pass_mark(pass, member, at, STAGE_QKV);
        pass_barrier(pass, member, at); /* attention reads the keys and values of all members */
        if (status == WISP_OK)
            status = attend(pass, s, at, own, s->scratch[member], error);
        pass_mark(pass, member, at, STAGE_ATTENTION);
        if (status == WISP_OK)
            status = pass_apply_linear(pass, at, &layer->output, context, own.n, y,
                                       s->scratch[member], error);
        pass_sleep(pass, member, at, REST_ATTENTION);
        pass_mark(pass, member, at, STAGE_ATTENTION_OUTPUT);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, member, at, &layer->attention_norm);
        break;

    case BLOCK_FEED_FORWARD: /* x = layer_norm(x + feed_forward(x)) */
        status =
            feed_forward_run(pass, member, at, &s->feed_forward,
                             s->inner + own.first * s->inner_size, y, s->scratch[member], error);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, member, at, &layer->output_norm);
        break;

    case BLOCK_OUTPUT: /* rows = pooled hidden states, by member 0 */
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

/* Reads the hyper-parameters that both architectures have. */
static wisp_status read_encoder(const struct config_reader *r) {
    TRY(config_read_sizes(r));
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_epsilon"));
    TRY(config_read_activation(r));
    TRY(config_read_pooling(r));
    return config_refuse_variants(r);
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

static const char *const bert_tensors[] = {"token_embd", "position_embd", "token_types",
                                           "token_embd_norm", NULL};
static const char *const bert_layer_tensors[] = {
    "attn_q",      "attn_k",           "attn_v",
    "attn_output", "attn_output_norm", "layer_output_norm",
    TENSOR_FFN_UP, TENSOR_FFN_DOWN,    NULL};
static const char *const nomic_bert_tensors[] = {"token_embd", "token_types", "token_embd_norm",
                                                 NULL};
static const char *const nomic_bert_layer_tensors[] = {
    "attn_qkv",    "attn_output",   "attn_output_norm", "layer_output_norm",
    TENSOR_FFN_UP, TENSOR_FFN_GATE, TENSOR_FFN_DOWN,    NULL};

const struct architecture architecture_bert = {.name = "bert",
                                               .embeds = true,
                                               .tensors = bert_tensors,
                                               .layer_tensors = bert_layer_tensors,
                                               .read_config = read_bert,
                                               .load = bert_load,
                                               .load_layer = bert_load_layer,
                                               .release = bert_release,
                                               .take = bert_take,
                                               .step = bert_step};

const struct architecture architecture_nomic_bert = {.name = "nomic-bert",
                                                     .embeds = true,
                                                     .tensors = nomic_bert_tensors,
                                                     .layer_tensors = nomic_bert_layer_tensors,
                                                     .read_config = read_nomic_bert,
                                                     .load = bert_load,
                                                     .load_layer = bert_load_layer,
                                                     .release = bert_release,
                                                     .take = bert_take,
                                                     .step = bert_step};
