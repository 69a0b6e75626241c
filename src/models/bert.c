/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of BERT and the architectures of bert_variants.c, top to bottom, and their
 * weights. Norms follow blocks, so pass->x is the hidden states. */
#include "models/bert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attention/rope.h"
#include "base/checked.h"
#include "base/memory.h"
#include "base/product.h"
#include "models/encoder.h"
#include "models/linears.h"
#include "models/norms_load.h"
#include "models/positions.h"

/* The working memory of a pass. Rows are the tokens of the whole batch. Each member writes the rows
 * of its own tokens; it reads the rows of others only if attention needs the keys and values of
 * a text, and if a predictor needs the mean over a text. */
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

/* Returns the factor of scores. Each part that they are made of counts as the values of a head. */
static float scale_of(const struct model_config *c) {
    const size_t parts = 1u + c->disentangled.to_position + c->disentangled.to_content;
    return 1 / sqrtf((float)((PROJECTS ? parts : 1) * c->head_size));
}

void bert_attention(const struct network *network, uint32_t layer, struct attention_shape *shape) {
    const struct model_config *c = &network->config;
    const size_t head_size = c->hidden_size / c->heads;
    const struct bert_weights *w = network->weights;
    *shape = (struct attention_shape){.heads = c->heads,
                                      .kv_heads = c->heads,
                                      .head_size = head_size,
                                      .scale = scale_of(c),
                                      .mask = ATTENTION_ALL_KEYS,
                                      .i16 = network->compute == WISP_COMPUTE_INT8};
    if (w)
        relative_bias_apply(&w->bias, shape);
    if (PROJECTS && w && c->disentangled.span > 0)
        shape->parts = &w->layer[layer].parts;
}

/* Returns the rotations of positions. */
static struct rope rope_of(const struct network *network) {
    const struct bert_weights *w = network->weights;
    return (struct rope){.theta = network->config.rope_theta, .factors = w->rope_factors};
}

void bert_take(const struct network *network, const struct pass_size *size, struct workspace *space,
               struct pass *pass) {
    const struct model_config *c = &network->config;
    const size_t head_size = c->hidden_size / c->heads;
    const size_t tokens = size->tokens, hidden_size = c->hidden_size;
    const size_t tile = smaller(pass_tokens_each(tokens, size->members), PASS_TILE_TOKENS);
    const size_t scratch_bytes =
        larger(feed_forward_workspace_bytes(network, tile), pass_attention_bytes(network, size));
    struct bert_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    s->inner_size = larger(3 * hidden_size, feed_forward_inner_size(c));
    s->x = workspace_take(space, tokens, hidden_size, sizeof *s->x);
    s->y = workspace_take(space, tokens, hidden_size, sizeof *s->y);
    s->context = workspace_take(space, tokens, hidden_size, sizeof *s->context);
    s->inner = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    s->rope =
        workspace_take(space, c->rope_theta != 0 ? size->longest : 0, head_size, sizeof *s->rope);
    s->feed_forward = feed_forward_take(network, size, space, pass);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch_bytes);
    if (!pass)
        return;
    const struct rope rope = rope_of(network);
    if (rope.theta != 0)
        fill_rope_table(&rope, head_size, size->longest, s->rope);
    pass->x = pass->hidden = s->x;
    pass->state = s;
}

/* Adds the difference of token types 1 and 0 to the tokens of second texts. */
static void add_second_type(const struct pass *pass, const float *difference, float *rows) {
    const size_t size = config_token_size(&pass->network->config);
    const struct batch *batch = &pass->batch;
    for (size_t i = 0; i < batch->texts; i++)
        for (size_t t = batch->starts[i] + batch->seconds[i]; t < batch->starts[i + 1]; t++)
            pass->network->kernels->add(rows + t * size, difference, size);
}

/* x = layer_norm(token embedding + position embedding + embedding of token type 0). The last two
 * are added when the model is loaded (positions.h). With rotary positions, only the embedding of
 * token type 0 is added, which is row 0. If embeddings are smaller than hidden states, a dense
 * layer makes x of the result. */
static wisp_status embed_tokens(struct pass *pass, const struct bert_state *s, wisp_error *error) {
    const struct network *network = pass->network;
    const struct bert_weights *w = network->weights;
    const size_t size = config_token_size(&network->config);
    const bool projects = PROJECTS && w->projection.n > 0;
    float *positions = s->y, *x = projects ? s->context : s->x;
    TRY(encoder_look_up(pass, s->inner, x, error));
    if (network->positions)
        TRY(encoder_look_up_positions(pass, positions, error));
    else if (!w->token_types)
        memset(positions, 0, pass->tokens * size * sizeof *positions);
    for (size_t t = 0; t < pass->tokens && w->token_types; t++)
        memcpy(positions + t * size, w->token_types, size * sizeof *positions);
    if (RANKS && w->second_type && pass->batch.seconds)
        add_second_type(pass, w->second_type, positions);
    network->kernels->layer_norm(x, positions, w->embedding_norm.weight, w->embedding_norm.bias,
                                 network->config.norm_epsilon, pass->tokens, size);
    if (projects)
        TRY(pass_apply_linear(pass, (struct cursor){0, PASS_EMBED}, &w->projection, x, pass->tokens,
                              s->x, s->scratch[0], error));
    return WISP_OK;
}

/* Applies rotary positions to the queries and keys of the member's tokens. The keys follow the
 * queries in a row of `inner`, so both are rotated as 2 * heads heads. */
static void rotate(const struct pass *pass, const struct bert_state *s, struct pass_tokens own) {
    const struct model_config *c = &pass->network->config;
    const size_t head_size = c->hidden_size / c->heads, ld = 3 * (size_t)c->hidden_size;
    const struct rope rope = rope_of(pass->network);
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_slice slice = pass_text_slice(pass, i, own);
        if (slice.first < slice.end)
            apply_rope(&rope, s->rope + slice.first * head_size, slice.end - slice.first,
                       2 * (size_t)c->heads, head_size, s->inner + (slice.start + slice.first) * ld,
                       ld);
    }
}

/* Computes the member's rows of context = attention(q, k, v). */
static wisp_status attend(const struct pass *pass, const struct bert_state *s, uint32_t member,
                          struct cursor at, wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const size_t size = c->hidden_size, head_size = size / c->heads, ld = 3 * size;
    const struct encoder_rows rows = {.q = {s->inner, ld, head_size},
                                      .k = {s->inner + size, ld, head_size},
                                      .v = {s->inner + 2 * size, ld, head_size}};
    return encoder_attend(pass, member, at, &rows, s->context, s->scratch[member], error);
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

/* Runs one block of the pass for the tokens of one member. */
wisp_status bert_step(struct pass *pass, uint32_t member, struct cursor at, wisp_error *error) {
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
    case PASS_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(embed_tokens(pass, s, error));
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case PASS_ATTENTION: /* x = layer_norm(x + W_o attention(W_qkv x)) */
        TRY(pass_wake(pass, member, at, REST_ATTENTION, error));
        status = pass_apply_linear(pass, at, &layer->qkv, x, own.n, s->inner + own.first * 3 * size,
                                   s->scratch[member], error); /* q, k and v */
        if (network->config.rope_theta != 0)
            rotate(pass, s, own);
        pass_mark(pass, member, at, STAGE_QKV);
        pass_barrier(pass, member, at); /* attention reads the keys and values of all members */
        if (status == WISP_OK)
            status = attend(pass, s, member, at, error);
        pass_mark(pass, member, at, STAGE_ATTENTION);
        if (status == WISP_OK)
            status = pass_apply_linear(pass, at, &layer->output, context, own.n, y,
                                       s->scratch[member], error);
        pass_sleep(pass, member, at, REST_ATTENTION);
        pass_mark(pass, member, at, STAGE_ATTENTION_OUTPUT);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, member, at, &layer->attention_norm);
        break;

    case PASS_FEED_FORWARD: /* x = layer_norm(x + feed_forward(x)) */
        status =
            feed_forward_run(pass, member, at, &s->feed_forward,
                             s->inner + own.first * s->inner_size, y, s->scratch[member], error);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, member, at, &layer->output_norm);
        break;

    case PASS_OUTPUT: /* rows = pooled hidden states, by member 0 */
        if (member > 0)
            break;
        encoder_pool(pass);
        pass_mark(pass, member, at, STAGE_POOL);
        break;

    case PASS_END:
        break;
    }
    return WISP_OK;
}

/* ---- the weights ---------------------------------------------------------------------------- */

size_t bert_linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    const struct model_config *c = &network->config;
    const size_t size = c->hidden_size;
    struct bert_weights *w = network->weights;
    if (l == c->layers)
        return 0;
    out[0] = (struct linear_entry){.linear = &w->layer[l].qkv,
                                   .names = {"attn_q", "attn_k", "attn_v"},
                                   .n = size,
                                   .k = size,
                                   .has_bias = c->has_bias,
                                   .block = PASS_ATTENTION};
    if (c->fused_qkv) {
        out[0].n = 3 * size;
        out[0].names[0] = "attn_qkv";
        out[0].names[1] = NULL;
    }
    out[1] = (struct linear_entry){.linear = &w->layer[l].output,
                                   .names = {"attn_output"},
                                   .n = size,
                                   .k = size,
                                   .has_bias = c->has_bias,
                                   .block = PASS_ATTENTION,
                                   .role = LINEAR_ENDS};
    return 2;
}

/* Returns whether positions have no embeddings: they turn queries and keys, or lower scores. */
static bool lacks_positions(const struct model_config *c) {
    return c->rope_theta != 0 || (PROJECTS && c->lacks_positions);
}

/* Refuses a file that lacks its token types. Without the key, or with one type, there may be none,
 * as in files of DistilBERT. */
static wisp_status check_token_types(const struct network *network, wisp_error *error) {
    const bool lacks = lacks_positions(&network->config);
    uint32_t types = lacks ? 2 : 1;
    TRY(metadata_u32_or(network->dir, "tokenizer.ggml.token_type_count", &types, error));
    if (directory_find_tensor(network->dir, "token_types.weight") || types == 0 ||
        (types == 1 && !lacks))
        return WISP_OK;
    return fail(error, WISP_ERROR_NOT_FOUND, network->dir->file, "token_types.weight",
                "the tensor is missing, and the model has %u types of tokens", types);
}

/* Loads the embeddings of token types of a model whose positions have none. */
static wisp_status load_token_types(struct network *network, struct bert_weights *w,
                                    wisp_error *error) {
    const struct model_config *c = &network->config;
    if (!directory_find_tensor(network->dir, "token_types.weight"))
        return WISP_OK;
    network->resident_bytes += (size_t)c->token_types * c->hidden_size * sizeof(float);
    return directory_load_floats(network->dir, "token_types.weight", c->token_types, c->hidden_size,
                                 &w->token_types, error);
}

/* Loads what positions have: embeddings, to which those of token types are added, or a bias of
 * scores. Positions that no text reaches, because texts are truncated to fewer tokens, are left
 * out. */
static wisp_status load_positions(struct network *network, struct bert_weights *w,
                                  wisp_error *error) {
    const struct model_config *c = &network->config;
    const float scale = 1 / sqrtf((float)c->head_size);
    uint32_t longest = c->max_positions;
    TRY(check_token_types(network, error));
    if (c->rope_theta != 0)
        return load_token_types(network, w, error);
    TRY(metadata_u32_or(network->dir, KEY_MAX_SEQ_LENGTH, &longest, error));
    if (longest == 0 || longest > c->max_positions)
        longest = c->max_positions;
    if (PROJECTS && c->has_slopes)
        TRY(relative_bias_slopes(network, longest, scale, &w->bias, error));
    if (PROJECTS && c->disentangled.span > 0)
        TRY(distances_load(network, longest, &w->distances, error));
    if (PROJECTS && c->lacks_positions)
        return load_token_types(network, w, error);
    if (c->has_relative_bias)
        TRY(relative_bias_load(network, longest, scale, &w->bias, error));
    return positions_load(network, longest, error);
}

/* Loads what pairs of texts need: the difference of the types of tokens 1 and 0. */
static wisp_status load_second_type(struct network *network, struct bert_weights *w,
                                    wisp_error *error) {
    const size_t size = config_token_size(&network->config), types = network->config.token_types;
    bool differ = true;
    TRY(metadata_bool_or(network->dir, KEY_PAIR_TYPES, &differ, error));
    if (network->config.pooling != POOLING_RANK || types < 2 || !differ)
        return WISP_OK;
    TRY(directory_load_floats(network->dir, "token_types.weight", types, size, &w->second_type,
                              error));
    network->resident_bytes += types * size * sizeof(float);
    for (size_t i = 0; i < size; i++)
        w->second_type[i] = w->second_type[size + i] - w->second_type[i];
    return WISP_OK;
}

/* Loads the dense layer that makes hidden states of embeddings. It computes in floats. */
static wisp_status load_projection(struct network *network, struct bert_weights *w,
                                   wisp_error *error) {
    static const char *const name = "token_embd_proj";
    const struct linear_source source = {.dir = network->dir,
                                         .names = &name,
                                         .parts = 1,
                                         .n = network->config.hidden_size,
                                         .k = network->config.token_size};
    if (network->config.token_size == 0)
        return WISP_OK;
    TRY(linear_load(&w->projection, &source, network->kernels, WISP_COMPUTE_F32, error));
    network->resident_bytes += w->projection.bytes;
    return WISP_OK;
}

/* Makes the factors of scaled positions: all angles are divided by one number. */
static wisp_status make_factors(struct network *network, struct bert_weights *w,
                                wisp_error *error) {
    const struct model_config *c = &network->config;
    const size_t pairs = c->head_size / 2, bytes = pairs * sizeof *w->rope_factors;
    if (c->rope_divisor == 0 || c->rope_divisor == 1)
        return WISP_OK;
    w->rope_factors = memory_allocate(bytes);
    if (!w->rope_factors)
        return fail_memory(error, bytes);
    for (size_t i = 0; i < pairs; i++)
        w->rope_factors[i] = c->rope_divisor;
    network->resident_bytes += bytes;
    return WISP_OK;
}

wisp_status bert_load(struct network *network, wisp_error *error) {
    struct bert_weights *w = network->weights;
    const size_t size = config_token_size(&network->config);
    TRY(load_positions(network, w, error));
    if (RANKS)
        TRY(load_second_type(network, w, error));
    if (PROJECTS) {
        TRY(load_projection(network, w, error));
        TRY(make_factors(network, w, error));
    }
    network->resident_bytes += norm_bytes(size);
    return norm_load(&w->embedding_norm, network->dir, "token_embd_norm", size, error);
}

wisp_status bert_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    struct bert_weights *w = network->weights;
    struct bert_layer *layer = &w->layer[l];
    if (PROJECTS && network->config.disentangled.span > 0)
        TRY(distances_load_layer(network, l, &layer->qkv, &w->distances, &layer->parts, error));
    TRY(load_layer_norm(network, l, "attn_output_norm", &layer->attention_norm, error));
    return load_layer_norm(network, l, "layer_output_norm", &layer->output_norm, error);
}

void bert_release(struct network *network) {
    struct bert_weights *w = network->weights;
    for (size_t l = 0; l < network->config.layers; l++) {
        norm_release(&w->layer[l].attention_norm);
        norm_release(&w->layer[l].output_norm);
        if (PROJECTS)
            distances_release_layer(&w->layer[l].parts);
    }
    relative_bias_release(&w->bias);
    norm_release(&w->embedding_norm);
    if (PROJECTS) {
        distances_release(&w->distances);
        linear_release(&w->projection);
        memory_free(w->rope_factors);
    }
    memory_free(w->token_types);
    memory_free(w->second_type);
}

/* ---- the hyper-parameters ------------------------------------------------------------------- */

wisp_status bert_read_encoder(const struct config_reader *r) {
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
    return bert_read_encoder(&r);
}

static wisp_status read_nomic_bert(const struct directory *dir, struct model_config *config,
                                   wisp_error *error) {
    const struct config_reader r = {dir, architecture_nomic_bert.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_SILU, .fused_qkv = true};
    TRY(bert_read_encoder(&r));
    return config_read_rope(&r);
}

static wisp_status read_mpnet(const struct directory *dir, struct model_config *config,
                              wisp_error *error) {
    const struct config_reader r = {dir, architecture_mpnet.name, config, error};
    *config = (struct model_config){
        .activation = ACTIVATION_GELU, .has_bias = true, .has_relative_bias = true};
    return bert_read_encoder(&r);
}

static const char *const bert_tensors[] = {"token_embd", "position_embd", "token_types",
                                           "token_embd_norm", NULL};
static const char *const mpnet_tensors[] = {"token_embd", "position_embd", "token_embd_norm",
                                            "attn_rel_b", NULL};
const char *const bert_layer_tensors[] = {"attn_q",      "attn_k",           "attn_v",
                                          "attn_output", "attn_output_norm", "layer_output_norm",
                                          TENSOR_FFN_UP, TENSOR_FFN_DOWN,    NULL};
const char *const nomic_bert_tensors[] = {"token_embd", "token_types", "token_embd_norm", NULL};
const char *const nomic_bert_layer_tensors[] = {
    "attn_qkv",    "attn_output",   "attn_output_norm", "layer_output_norm",
    TENSOR_FFN_UP, TENSOR_FFN_GATE, TENSOR_FFN_DOWN,    NULL};

const struct architecture architecture_bert = {
    BERT_MEMBERS("bert", read_bert, bert_tensors, bert_layer_tensors), .on_devices = true};
const struct architecture architecture_nomic_bert =
    BERT("nomic-bert", read_nomic_bert, nomic_bert_tensors, nomic_bert_layer_tensors);
const struct architecture architecture_mpnet =
    BERT("mpnet", read_mpnet, mpnet_tensors, bert_layer_tensors);
