/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of Llama, Qwen2 and Qwen3, top to bottom. llama_load.c reads the weights. Norms
 * stand before blocks: s->h are the hidden states, and pass->x is their norm, which the next block
 * reads. */
#include "models/llama.h"

#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/checked.h"
#include "formats/schema.h"
#include "models/config_reader.h"
#include "models/feed_forward_block.h"
#include "text/codec.h"

/* The working memory of a pass. Rows are the tokens of the whole batch. Each member writes the rows
 * of its own tokens. Attention reads the keys and values of others from the cache. */
struct llama_state {
    float *h;       /* [tokens, hidden_size]: the hidden states */
    float *x;       /* [tokens, hidden_size]: their norm, the inputs of the next block */
    float *y;       /* [tokens, hidden_size]: the values that a block adds to the hidden states */
    float *q;       /* [tokens, heads * head_size]: queries; then the result of attention */
    float *context; /* like q */
    /* Attention keeps keys and values here as [tokens, 2 kv_heads * head_size]; a dense
     * feed-forward layer keeps the values between its halves as [tokens, inner_size]. */
    float *inner;
    size_t inner_size; /* floats of `inner` for each token */
    struct feed_forward_work feed_forward;
    struct workspace scratch[PASS_MAX_MEMBERS]; /* one for each member */
};

static struct attention_shape attention_shape_of(const struct model_config *c) {
    return (struct attention_shape){.heads = c->heads,
                                    .kv_heads = c->kv_heads,
                                    .head_size = c->head_size,
                                    .scale = 1 / sqrtf((float)c->head_size),
                                    .mask = ATTENTION_CAUSAL};
}

/* Returns the floats of a token's queries, of all heads. */
static size_t q_size(const struct model_config *c) {
    return (size_t)c->heads * c->head_size;
}

/* Returns the floats of a token's keys, of all heads, which its values have too. */
static size_t kv_size(const struct model_config *c) {
    return (size_t)c->kv_heads * c->head_size;
}

static void llama_take(const struct network *network, const struct pass_size *size,
                       struct workspace *space, struct pass *pass) {
    const struct model_config *c = &network->config;
    const struct attention_shape shape = attention_shape_of(c);
    const size_t tokens = size->tokens, hidden_size = c->hidden_size;
    const size_t rows = smaller(tokens, PASS_PART_TOKENS); /* member 0 computes all logits */
    size_t scratch_bytes =
        larger(feed_forward_workspace_bytes(network, rows),
               attention_cached.workspace_bytes(network->kernels, &shape, size->longest));
    scratch_bytes = larger(scratch_bytes, linear_workspace_bytes(rows, q_size(c)));
    struct llama_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    s->inner_size = larger(2 * kv_size(c), feed_forward_inner_size(c));
    s->h = workspace_take(space, tokens, hidden_size, sizeof *s->h);
    s->x = workspace_take(space, tokens, hidden_size, sizeof *s->x);
    s->y = workspace_take(space, tokens, hidden_size, sizeof *s->y);
    s->q = workspace_take(space, tokens, q_size(c), sizeof *s->q);
    s->context = workspace_take(space, tokens, q_size(c), sizeof *s->context);
    s->inner = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    s->feed_forward = feed_forward_take(network, size, space, pass ? &pass->batch : NULL);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch_bytes);
    if (!pass)
        return;
    pass->x = s->x;
    pass->state = s;
}

/* Computes x = rms_norm(h) for n tokens from token `first` on. */
static void normalize(const struct pass *pass, size_t first, size_t n, const float *weight) {
    const struct model_config *c = &pass->network->config;
    const struct llama_state *s = pass->state;
    const size_t at = first * c->hidden_size;
    pass->network->kernels->rms_norm(s->h + at, weight, c->norm_epsilon, n, c->hidden_size,
                                     s->x + at);
}

/* Computes h = h + y and x = rms_norm(h) for the member's tokens. */
static void add_and_norm(const struct pass *pass, uint32_t member, struct cursor at,
                         const float *weight) {
    const struct llama_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t size = pass->network->config.hidden_size, first = own.first * size;
    pass->network->kernels->add(s->h + first, s->y + first, own.n * size);
    normalize(pass, own.first, own.n, weight);
    pass_mark(pass, member, at, STAGE_NORM);
}

/* Normalises, where the model does, and rotates the queries and keys of the member's tokens. Puts
 * their keys and values into the caches of their sequences. */
static void rotate_and_keep(const struct pass *pass, struct cursor at, struct pass_tokens own) {
    const struct model_config *c = &pass->network->config;
    const struct llama_weights *w = pass->network->weights;
    const struct llama_layer *layer = &w->layer[at.layer];
    const struct llama_state *s = pass->state;
    const size_t ld = 2 * kv_size(c);
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_part part = pass_text_part(pass, i, own);
        const struct kv_cache *cache = pass->batch.caches[i];
        if (part.first >= part.end)
            continue;
        const size_t n = part.end - part.first, position = cache->length + part.first;
        const float *table = cache->rope + position * c->head_size;
        float *q = s->q + (part.start + part.first) * q_size(c);
        float *kv = s->inner + (part.start + part.first) * ld;
        for (size_t t = 0; t < n && c->has_qk_norm; t++) {
            float *queries = q + t * q_size(c), *keys = kv + t * ld;
            pass->network->kernels->rms_norm(queries, layer->q_norm, c->norm_epsilon, c->heads,
                                             c->head_size, queries);
            pass->network->kernels->rms_norm(keys, layer->k_norm, c->norm_epsilon, c->kv_heads,
                                             c->head_size, keys);
        }
        apply_rope(&w->rope, table, n, c->heads, c->head_size, q, q_size(c));
        apply_rope(&w->rope, table, n, c->kv_heads, c->head_size, kv, ld);
        kv_cache_write(cache, at.layer, position, n, kv, kv + kv_size(c), ld);
    }
}

/* Computes the member's rows of context = attention(q, keys and values so far), text by text. */
static wisp_status attend(const struct pass *pass, struct cursor at, struct pass_tokens own,
                          struct workspace scratch, wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct llama_state *s = pass->state;
    const struct attention_shape shape = attention_shape_of(c);
    const size_t ld = q_size(c);
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_part part = pass_text_part(pass, i, own);
        const struct kv_cache *cache = pass->batch.caches[i];
        struct attention_sequence text = {.q = {s->q + part.start * ld, ld, c->head_size},
                                          .cache = cache,
                                          .layer = at.layer,
                                          .queries = part.tokens,
                                          .keys = cache->length + part.tokens};
        for (text.first = part.first; text.first < part.end; text.first = text.end) {
            text.end = text.first + pass_queries_at_once(pass, text.keys, part.end - text.first);
            TRY(pass_ask_hook(pass, at, text.first - part.first, error));
            attention_cached.run(pass->network->kernels, &shape, &text,
                                 s->context + (part.start + text.first) * ld, ld, scratch);
        }
    }
    return WISP_OK;
}

/* Computes the logits of every token, or of the last one of each text. */
static wisp_status compute_logits(const struct pass *pass, struct cursor at,
                                  struct workspace scratch, wisp_error *error) {
    const struct llama_weights *w = pass->network->weights;
    const struct llama_state *s = pass->state;
    const struct batch *batch = &pass->batch;
    const size_t size = w->logits.k;
    if (batch->all_logits)
        return pass_apply_linear(pass, at, &w->logits, pass->x, pass->tokens, pass->rows, scratch,
                                 error);
    /* The rows lie together, so that the weights are read once for all texts. */
    for (size_t i = 0; i < batch->texts; i++)
        memcpy(s->y + i * size, pass->x + (batch->starts[i + 1] - 1) * size, size * sizeof *s->y);
    return pass_apply_linear(pass, at, &w->logits, s->y, batch->texts, pass->rows, scratch, error);
}

/* Computes the member's heads of context = attention(...) for all tokens. */
static void attend_heads(const struct pass *pass, uint32_t member, struct cursor at,
                         struct workspace scratch) {
    const struct model_config *c = &pass->network->config;
    const struct llama_state *s = pass->state;
    const struct pass_outputs own = pass_share(pass, member, c->kv_heads, 1);
    const size_t group = c->heads / c->kv_heads, first = own.first * group * c->head_size;
    struct attention_shape shape = attention_shape_of(c);
    shape.heads = own.n * group;
    shape.kv_heads = own.n;
    for (size_t i = 0; i < pass->batch.texts && own.n > 0; i++) {
        const struct text_part part = pass_text_part(pass, i, pass_tokens(pass, member));
        const struct kv_cache *cache = pass->batch.caches[i];
        const size_t at_text = part.start * q_size(c) + first;
        const struct attention_sequence text = {.q = {s->q + at_text, q_size(c), c->head_size},
                                                .cache = cache,
                                                .layer = at.layer,
                                                .kv_head = own.first,
                                                .queries = part.tokens,
                                                .keys = cache->length + part.tokens,
                                                .end = part.tokens};
        attention_cached.run(pass->network->kernels, &shape, &text, s->context + at_text, q_size(c),
                             scratch);
    }
}

/* Runs one block where members split outputs: each computes a share of every layer's outputs, and
 * member 0 alone what lies between layers. */
static wisp_status step_by_outputs(struct pass *pass, uint32_t member, struct cursor at) {
    const struct network *network = pass->network;
    const struct model_config *c = &network->config;
    const struct llama_weights *w = network->weights;
    const struct llama_layer *layer = &w->layer[at.layer];
    const struct llama_state *s = pass->state;
    const struct workspace scratch = s->scratch[member];
    const bool last = at.layer + 1 == c->layers;
    const size_t n = pass->tokens;

    switch (at.block) {
    case BLOCK_ATTENTION:
        pass_apply_outputs(pass, member, &layer->q, s->x, n, s->q, scratch);
        pass_apply_outputs(pass, member, &layer->kv, s->x, n, s->inner, scratch);
        pass_mark(pass, member, at, STAGE_QKV);
        pass_barrier(pass, member, at);
        if (member == 0)
            rotate_and_keep(pass, at, (struct pass_tokens){0, n});
        pass_barrier(pass, member, at);
        attend_heads(pass, member, at, scratch);
        pass_mark(pass, member, at, STAGE_ATTENTION);
        pass_barrier(pass, member, at);
        pass_apply_outputs(pass, member, &layer->output, s->context, n, s->y, scratch);
        pass_mark(pass, member, at, STAGE_ATTENTION_OUTPUT);
        pass_barrier(pass, member, at);
        if (member == 0)
            add_and_norm(pass, member, at, layer->feed_forward_norm);
        break;

    case BLOCK_FEED_FORWARD:
        feed_forward_run_outputs(pass, member, at, s->inner, s->y, scratch);
        pass_barrier(pass, member, at);
        if (member == 0)
            add_and_norm(pass, member, at,
                         last ? w->output_norm : w->layer[at.layer + 1].attention_norm);
        break;

    case BLOCK_OUTPUT:
        if (pass->batch.all_logits || n == pass->batch.texts)
            pass_apply_outputs(pass, member, &w->logits, s->x, n, pass->rows, scratch);
        else
            for (size_t i = 0; i < pass->batch.texts; i++)
                pass_apply_outputs(pass, member, &w->logits,
                                   s->x + (pass->batch.starts[i + 1] - 1) * c->hidden_size, 1,
                                   pass->rows + i * w->logits.n, scratch);
        pass_mark(pass, member, at, STAGE_LOGITS);
        break;

    case BLOCK_EMBED:
    case BLOCK_END:
        break;
    }
    return WISP_OK;
}

/* Runs one block of the pass for the tokens of one member. */
static wisp_status llama_step(struct pass *pass, uint32_t member, struct cursor at,
                              wisp_error *error) {
    const struct network *network = pass->network;
    const struct model_config *c = &network->config;
    const struct llama_weights *w = network->weights;
    const struct llama_layer *layer = &w->layer[at.layer];
    const struct llama_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const struct workspace scratch = s->scratch[member];
    const bool last = at.layer + 1 == c->layers;
    /* The rows of the member's own tokens: */
    const float *x = s->x + own.first * c->hidden_size;
    float *q = s->q + own.first * q_size(c), *y = s->y + own.first * c->hidden_size;
    wisp_status status;
    if (pass->by_outputs && at.block != BLOCK_EMBED)
        return step_by_outputs(pass, member, at);

    switch (at.block) {
    case BLOCK_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        for (size_t t = 0; t < pass->tokens; t++)
            TRY(token_embedding_row(&network->tokens, pass->batch.ids[t], pass->member[0].tokens,
                                    s->inner, s->h + t * c->hidden_size, error));
        normalize(pass, 0, pass->tokens, w->layer[0].attention_norm);
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case BLOCK_ATTENTION: /* h = h + W_o attention(W_q x, W_k x, W_v x) */
        status = pass_apply_linear(pass, at, &layer->q, x, own.n, q, scratch, error);
        if (status == WISP_OK)
            status = pass_apply_linear(pass, at, &layer->kv, x, own.n,
                                       s->inner + own.first * 2 * kv_size(c), scratch, error);
        rotate_and_keep(pass, at, own);
        pass_mark(pass, member, at, STAGE_QKV);
        pass_barrier(pass, member, at); /* attention reads the keys and values of all members */
        if (status == WISP_OK)
            status = attend(pass, at, own, scratch, error);
        pass_mark(pass, member, at, STAGE_ATTENTION);
        if (status == WISP_OK)
            status = pass_apply_linear(pass, at, &layer->output, s->context + own.first * q_size(c),
                                       own.n, y, scratch, error);
        pass_mark(pass, member, at, STAGE_ATTENTION_OUTPUT);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, member, at, layer->feed_forward_norm);
        break;

    case BLOCK_FEED_FORWARD: /* h = h + feed_forward(x) */
        status = feed_forward_run(pass, member, at, &s->feed_forward,
                                  s->inner + own.first * s->inner_size, y, scratch, error);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, member, at,
                     last ? w->output_norm : w->layer[at.layer + 1].attention_norm);
        break;

    case BLOCK_OUTPUT: /* rows = logits, by member 0 */
        if (member > 0)
            break;
        TRY(compute_logits(pass, at, scratch, error));
        pass_mark(pass, member, at, STAGE_LOGITS);
        break;

    case BLOCK_END:
        break;
    }
    return WISP_OK;
}

static void llama_rope(const struct network *network, struct rope *rope) {
    *rope = ((const struct llama_weights *)network->weights)->rope;
}

/* Reads the hyper-parameters that all three have. */
static wisp_status read_decoder(const struct config_reader *r) {
    TRY(config_read_sizes(r));
    TRY(config_read_kv_heads(r));
    TRY(config_read_norm_epsilon(r, "attention.layer_norm_rms_epsilon"));
    TRY(config_read_activation(r));
    TRY(config_refuse_experts(r));
    return config_read_rope(r);
}

/* llama.cpp's value where a file has none. */
static const float USUAL_ROPE_THETA = 10000;

static wisp_status llama_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_llama.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_ROPE_THETA,
                                    .rope_pairs = ROPE_NEIGHBOURS};
    return read_decoder(&r);
}

static wisp_status qwen2_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_qwen2.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_ROPE_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qkv_bias = true};
    return read_decoder(&r);
}

static wisp_status qwen3_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_qwen3.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU,
                                    .rope_theta = USUAL_ROPE_THETA,
                                    .rope_pairs = ROPE_HALVES,
                                    .has_qk_norm = true};
    return read_decoder(&r);
}

static const char *const tensors[] = {"token_embd", "output_norm", "output", "rope_freqs", NULL};
static const char *const layer_tensors[] = {
    "attn_norm",   "attn_q",   "attn_k",        "attn_v",      "attn_output",   "attn_q_norm",
    "attn_k_norm", "ffn_norm", TENSOR_FFN_GATE, TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

#define DECODER(its_name, its_read_config)                                                         \
    {.name = (its_name),                                                                           \
     .generates = true,                                                                            \
     .open_codec = codec_open,                                                                     \
     .by_outputs = true,                                                                           \
     .tensors = tensors,                                                                           \
     .layer_tensors = layer_tensors,                                                               \
     .read_config = (its_read_config),                                                             \
     .load = llama_load,                                                                           \
     .load_layer = llama_load_layer,                                                               \
     .release = llama_release,                                                                     \
     .take = llama_take,                                                                           \
     .rope = llama_rope,                                                                           \
     .step = llama_step}

const struct architecture architecture_llama = DECODER("llama", llama_read_config);
const struct architecture architecture_qwen2 = DECODER("qwen2", qwen2_read_config);
const struct architecture architecture_qwen3 = DECODER("qwen3", qwen3_read_config);
