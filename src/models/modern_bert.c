/* SPDX-License-Identifier: Apache-2.0
 * The forward pass of ModernBERT, top to bottom, and its weights:
 *
 *   h = norm(token embedding)
 *   h = h + W_o attention(W_qkv norm(h)), h = h + feed_forward(norm(h)), then a last norm and
 *   pooling. The first layer's attention reads h without a norm. */
#include "models/modern_bert.h"

#include <math.h>
#include <string.h>

#include "attention/rope.h"
#include "base/checked.h"
#include "base/memory.h"
#include "formats/schema.h"
#include "models/config_reader.h"
#include "models/encoder.h"
#include "models/linears.h"
#include "models/norms_load.h"

struct modern_layer {
    struct linear qkv;          /* W_qkv [3 hidden_size, hidden_size] */
    struct linear output;       /* W_o [hidden_size, hidden_size] */
    struct norm attention_norm; /* before the attention block; nothing in layer 0 */
    struct norm feed_forward_norm;
};

struct modern_weights {
    struct norm embedding_norm, last_norm;
    struct modern_layer layer[]; /* [layers] */
};

struct modern_state {
    float *h, *x, *y, *context; /* [tokens, hidden_size] */
    float *inner;      /* [tokens, inner_size]: queries, keys and values, or a layer's neurons */
    size_t inner_size; /* floats for each token */
    float *rope, *local_rope; /* [longest text, head_size]: tables of rope.h */
    struct feed_forward_work feed_forward;
    struct workspace scratch[PASS_MAX_MEMBERS];
};

static void modern_attention(const struct network *network, uint32_t layer,
                             struct attention_shape *shape) {
    const struct model_config *c = &network->config;
    *shape = (struct attention_shape){.heads = c->heads,
                                      .kv_heads = c->heads,
                                      .head_size = c->head_size,
                                      .scale = 1 / sqrtf((float)c->head_size),
                                      .mask = config_is_local(c, layer) ? ATTENTION_NEAR
                                                                        : ATTENTION_ALL_KEYS,
                                      .window = c->window,
                                      .ahead = c->window,
                                      .i16 = network->compute == WISP_COMPUTE_INT8};
}

static void modern_take(const struct network *network, const struct pass_size *size,
                        struct workspace *space, struct pass *pass) {
    const struct model_config *c = &network->config;
    const size_t tokens = size->tokens, hidden = c->hidden_size;
    const size_t tile = smaller(pass_tokens_each(tokens, size->members), PASS_TILE_TOKENS);
    const size_t scratch_bytes =
        larger(feed_forward_workspace_bytes(network, tile), pass_attention_bytes(network, size));
    struct modern_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    float **const rows[] = {&s->h, &s->x, &s->y, &s->context};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        *rows[i] = workspace_take(space, tokens, hidden, sizeof(float));
    s->inner_size = larger(3 * hidden, feed_forward_inner_size(c));
    s->inner = workspace_take(space, tokens, s->inner_size, sizeof *s->inner);
    s->rope = workspace_take(space, size->longest, c->head_size, sizeof *s->rope);
    s->local_rope = workspace_take(space, size->longest, c->head_size, sizeof *s->local_rope);
    s->feed_forward = feed_forward_take(network, size, space, pass);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch_bytes);
    if (!pass)
        return;
    fill_rope_table(&(struct rope){.theta = c->rope_theta}, c->head_size, size->longest, s->rope);
    fill_rope_table(&(struct rope){.theta = c->local_rope_theta}, c->head_size, size->longest,
                    s->local_rope);
    pass->x = s->x;
    pass->hidden = s->h;
    pass->state = s;
}

/* h = norm(token embedding), which is also what the first layer reads. */
static wisp_status embed_tokens(struct pass *pass, const struct modern_state *s,
                                wisp_error *error) {
    const struct network *network = pass->network;
    const struct modern_weights *w = network->weights;
    const size_t size = network->config.hidden_size, values = pass->tokens * size;
    TRY(encoder_look_up(pass, s->inner, s->h, error));
    memset(s->y, 0, values * sizeof *s->y);
    network->kernels->layer_norm(s->h, s->y, w->embedding_norm.weight, w->embedding_norm.bias,
                                 network->config.norm_epsilon, pass->tokens, size);
    memcpy(s->x, s->h, values * sizeof *s->x);
    return WISP_OK;
}

/* Computes h = h + y and x = norm(h) for the member's tokens. */
static void add_and_norm(const struct pass *pass, uint32_t member, struct cursor at,
                         const struct norm *norm) {
    const struct model_config *c = &pass->network->config;
    const struct modern_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t first = own.first * c->hidden_size, values = own.n * c->hidden_size;
    memcpy(s->x + first, s->h + first, values * sizeof *s->x);
    pass->network->kernels->layer_norm(s->x + first, s->y + first, norm->weight, norm->bias,
                                       c->norm_epsilon, own.n, c->hidden_size);
    pass->network->kernels->add(s->h + first, s->y + first, values);
    pass_mark(pass, member, at, STAGE_NORM);
}

/* Rotates the queries and keys of the member's tokens: the keys follow the queries in a row of
 * `inner`, so both are rotated as 2 * heads heads. */
static void rotate(const struct pass *pass, const struct modern_state *s, uint32_t layer,
                   struct pass_tokens own) {
    const struct model_config *c = &pass->network->config;
    const bool local = config_is_local(c, layer);
    const struct rope rope = {.theta = local ? c->local_rope_theta : c->rope_theta};
    const float *table = local ? s->local_rope : s->rope;
    const size_t ld = 3 * (size_t)c->hidden_size;
    for (size_t i = 0; i < pass->batch.texts; i++) {
        const struct text_slice slice = pass_text_slice(pass, i, own);
        if (slice.first < slice.end)
            apply_rope(&rope, table + slice.first * c->head_size, slice.end - slice.first,
                       2 * (size_t)c->heads, c->head_size,
                       s->inner + (slice.start + slice.first) * ld, ld);
    }
}

/* y = W_o attention(W_qkv x) for the member's tokens. */
static wisp_status attend(struct pass *pass, uint32_t member, struct cursor at,
                          const struct modern_layer *layer, wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct modern_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t size = c->hidden_size, ld = 3 * size, first = own.first * size;
    const struct encoder_rows rows = {.q = {s->inner, ld, c->head_size},
                                      .k = {s->inner + size, ld, c->head_size},
                                      .v = {s->inner + 2 * size, ld, c->head_size}};
    TRY(pass_wake(pass, member, at, REST_ATTENTION, error));
    wisp_status status = pass_apply_linear(pass, at, &layer->qkv, s->x + first, own.n,
                                           s->inner + own.first * ld, s->scratch[member], error);
    rotate(pass, s, at.layer, own);
    pass_mark(pass, member, at, STAGE_QKV);
    pass_barrier(pass, member, at); /* attention reads the keys and values of all members */
    if (status == WISP_OK)
        status = encoder_attend(pass, member, at, &rows, s->context, s->scratch[member], error);
    pass_mark(pass, member, at, STAGE_ATTENTION);
    if (status == WISP_OK)
        status = pass_apply_linear(pass, at, &layer->output, s->context + first, own.n,
                                   s->y + first, s->scratch[member], error);
    pass_sleep(pass, member, at, REST_ATTENTION);
    pass_mark(pass, member, at, STAGE_ATTENTION_OUTPUT);
    return pass_join_status(pass, member, at, status, error);
}

static wisp_status modern_step(struct pass *pass, uint32_t member, struct cursor at,
                               wisp_error *error) {
    const struct network *network = pass->network;
    const struct modern_weights *w = network->weights;
    const struct modern_layer *layer = &w->layer[at.layer];
    const struct modern_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t size = network->config.hidden_size;
    wisp_status status;

    switch (at.block) {
    case PASS_EMBED: /* member 0 looks up all tokens: that is quick */
        if (member > 0)
            break;
        TRY(embed_tokens(pass, s, error));
        pass_mark(pass, member, at, STAGE_LOOK_UP);
        break;

    case PASS_ATTENTION:
        TRY(attend(pass, member, at, layer, error));
        add_and_norm(pass, member, at, &layer->feed_forward_norm);
        break;

    case PASS_FEED_FORWARD:
        status = feed_forward_run(pass, member, at, &s->feed_forward,
                                  s->inner + own.first * s->inner_size, s->y + own.first * size,
                                  s->scratch[member], error);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, member, at,
                     at.layer + 1 == network->config.layers ? &w->last_norm
                                                            : &layer[1].attention_norm);
        break;

    case PASS_OUTPUT: /* rows = pooled x, by member 0 */
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

static size_t modern_linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    const size_t size = network->config.hidden_size;
    struct modern_weights *w = network->weights;
    if (l == network->config.layers)
        return 0;
    out[0] = (struct linear_entry){.linear = &w->layer[l].qkv,
                                   .names = {"attn_qkv"},
                                   .n = 3 * size,
                                   .k = size,
                                   .block = PASS_ATTENTION};
    out[1] = (struct linear_entry){.linear = &w->layer[l].output,
                                   .names = {"attn_output"},
                                   .n = size,
                                   .k = size,
                                   .block = PASS_ATTENTION,
                                   .role = LINEAR_ENDS};
    return 2;
}

/* Loads a norm without a bias, which becomes zeros. */
static wisp_status load_norm(struct network *network, const char *name, struct norm *norm,
                             wisp_error *error) {
    const size_t size = network->config.hidden_size, bytes = size * sizeof *norm->bias;
    TRY(load_rms_norm(network, name, size, &norm->weight, error));
    norm->bias = memory_allocate(bytes);
    if (!norm->bias)
        return fail_memory(error, bytes);
    memset(norm->bias, 0, bytes);
    network->resident_bytes += bytes;
    return WISP_OK;
}

static wisp_status load_norm_of_layer(struct network *network, uint32_t l, const char *part,
                                      struct norm *norm, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    return load_norm(network, layer_tensor_name(name, l, part, TENSOR_WEIGHT), norm, error);
}

static wisp_status modern_load(struct network *network, wisp_error *error) {
    struct modern_weights *w = network->weights;
    TRY(load_norm(network, "token_embd_norm.weight", &w->embedding_norm, error));
    return load_norm(network, "output_norm.weight", &w->last_norm, error);
}

static wisp_status modern_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    struct modern_layer *layer = &((struct modern_weights *)network->weights)->layer[l];
    if (l == 0 && directory_find_tensor(network->dir, "blk.0.attn_norm.weight"))
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, "blk.0.attn_norm.weight",
                    "a norm that the first layer does not have");
    if (l > 0)
        TRY(load_norm_of_layer(network, l, "attn_norm", &layer->attention_norm, error));
    return load_norm_of_layer(network, l, "ffn_norm", &layer->feed_forward_norm, error);
}

static void modern_release(struct network *network) {
    struct modern_weights *w = network->weights;
    for (size_t l = 0; l < network->config.layers; l++) {
        norm_release(&w->layer[l].attention_norm);
        norm_release(&w->layer[l].feed_forward_norm);
    }
    norm_release(&w->embedding_norm);
    norm_release(&w->last_norm);
}

/* ---- the hyper-parameters ------------------------------------------------------------------- */

/* Reads which layers are local: all but each of a number, counted from the first. */
static wisp_status read_layers(const struct config_reader *r) {
    struct model_config *c = r->config;
    uint32_t window = 0, step = 3;
    char key[CONFIG_KEY_BYTES];
    TRY(metadata_u32_or(r->dir, config_key(r, "attention.sliding_window_pattern", key), &step,
                        r->error));
    if (step == 0)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key, "0 is not a number of layers");
    TRY(metadata_u32(r->dir, config_key(r, "attention.sliding_window", key), &window, r->error));
    c->window = window / 2; /* keys before a token, and as many behind it */
    for (uint32_t l = 0; l < c->layers; l++)
        if (l % step != 0)
            c->local_layers[l / 64] |= UINT64_C(1) << l % 64;
    c->local_rope_theta = c->rope_theta;
    TRY(metadata_f32_or(r->dir, config_key(r, "rope.freq_base_swa", key), &c->local_rope_theta,
                        r->error));
    if (!isfinite(c->local_rope_theta) || !(c->local_rope_theta >= 1))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, key,
                    "not a finite number of at least 1");
    return WISP_OK;
}

static wisp_status modern_read_config(const struct directory *dir, struct model_config *config,
                                      wisp_error *error) {
    const struct config_reader r = {dir, architecture_modern_bert.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GATED_GELU, .fused_qkv = true};
    TRY(config_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_epsilon"));
    TRY(config_read_pooling(&r));
    TRY(config_read_rope(&r));
    return read_layers(&r);
}

static const char *const tensors[] = {"token_embd", "token_embd_norm", "output_norm", NULL};
static const char *const layer_tensors[] = {
    "attn_norm",     "attn_qkv",    "attn_output",   "ffn_norm",
    TENSOR_FFN_GATE, TENSOR_FFN_UP, TENSOR_FFN_DOWN, NULL};

const struct architecture architecture_modern_bert = {.name = "modern-bert",
                                                      .norms_first = true,
                                                      .tensors = tensors,
                                                      .layer_tensors = layer_tensors,
                                                      .read_config = modern_read_config,
                                                      .weights_bytes =
                                                          sizeof(struct modern_weights),
                                                      .layer_bytes = sizeof(struct modern_layer),
                                                      .linears = modern_linears,
                                                      .load = modern_load,
                                                      .load_layer = modern_load_layer,
                                                      .release = modern_release,
                                                      .attention = modern_attention,
                                                      .take = modern_take,
                                                      .step = modern_step};
