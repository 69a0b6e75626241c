/* SPDX-License-Identifier: Apache-2.0
 * An encoder with a struct of weights of its own:
 *
 *   h = token embedding + position embedding
 *   h = h + W_o attention(W_q norm(h), W_k norm(h), W_v norm(h)), h = h + feed_forward(norm(h)),
 *   then a last norm and pooling. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "models/config_reader.h"
#include "models/encoder.h"
#include "models/linears.h"
#include "models/norms_load.h"
#include "models/positions.h"
#include "support/other.h"

struct other_layer {
    struct norm feed_forward_norm;
    struct linear output, v, k, q;
    struct norm attention_norm;
};

struct other_weights {
    struct norm last_norm;
    struct other_layer layer[];
};

struct other_state {
    float *h, *x, *y, *context; /* [tokens, hidden_size] */
    float *q, *k, *v;           /* [tokens, hidden_size] */
    float *inner;               /* [tokens, feed_forward_inner_size] */
    struct feed_forward_work feed_forward;
    struct workspace scratch[PASS_MAX_MEMBERS];
};

/* With a window, tokens see only near ones, which no policy of texts computes. */
static void other_attention(const struct network *network, uint32_t layer,
                            struct attention_shape *shape) {
    const struct model_config *c = &network->config;
    (void)layer;
    *shape = (struct attention_shape){.heads = c->heads,
                                      .kv_heads = c->heads,
                                      .head_size = c->hidden_size / c->heads,
                                      .scale = 1 / sqrtf((float)(c->hidden_size / c->heads)),
                                      .mask = c->window > 0 ? ATTENTION_WINDOW : ATTENTION_ALL_KEYS,
                                      .window = c->window};
}

static void other_take(const struct network *network, const struct pass_size *size,
                       struct workspace *space, struct pass *pass) {
    const size_t tokens = size->tokens, hidden = network->config.hidden_size;
    const size_t tile = smaller(pass_tokens_each(tokens, size->members), PASS_TILE_TOKENS);
    const size_t scratch_bytes =
        larger(feed_forward_workspace_bytes(network, tile), pass_attention_bytes(network, size));
    struct other_state measured = {0}, *s = workspace_take(space, 1, 1, sizeof *s);
    s = s ? s : &measured;
    float **const rows[] = {&s->h, &s->x, &s->y, &s->context, &s->q, &s->k, &s->v};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        *rows[i] = workspace_take(space, tokens, hidden, sizeof(float));
    s->inner =
        workspace_take(space, tokens, feed_forward_inner_size(&network->config), sizeof *s->inner);
    s->feed_forward = feed_forward_take(network, size, space, pass);
    for (uint32_t i = 0; i < size->members; i++)
        s->scratch[i] = workspace_part(space, scratch_bytes);
    if (!pass)
        return;
    pass->x = s->x;
    pass->hidden = s->h;
    pass->state = s;
}

/* Computes h = h + y and x = norm(h) for some tokens. */
static void add_and_norm(const struct pass *pass, struct pass_tokens own, const struct norm *norm) {
    const struct model_config *c = &pass->network->config;
    const struct other_state *s = pass->state;
    const size_t at = own.first * c->hidden_size, values = own.n * c->hidden_size;
    memcpy(s->x + at, s->h + at, values * sizeof *s->x);
    pass->network->kernels->layer_norm(s->x + at, s->y + at, norm->weight, norm->bias,
                                       c->norm_epsilon, own.n, c->hidden_size);
    pass->network->kernels->add(s->h + at, s->y + at, values);
}

static wisp_status attention(struct pass *pass, uint32_t member, struct cursor at,
                             const struct other_layer *layer, wisp_error *error) {
    const struct model_config *c = &pass->network->config;
    const struct other_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t size = c->hidden_size, head_size = size / c->heads, first = own.first * size;
    const struct encoder_rows rows = {
        .q = {s->q, size, head_size}, .k = {s->k, size, head_size}, .v = {s->v, size, head_size}};
    const struct {
        const struct linear *linear;
        float *y;
    } inputs[] = {{&layer->q, s->q}, {&layer->k, s->k}, {&layer->v, s->v}};
    wisp_status status = WISP_OK;
    TRY(pass_wake(pass, member, at, REST_ATTENTION, error));
    for (size_t i = 0; i < 3 && status == WISP_OK; i++)
        status = pass_apply_linear(pass, at, inputs[i].linear, s->x + first, own.n,
                                   inputs[i].y + first, s->scratch[member], error);
    pass_barrier(pass, member, at);
    if (status == WISP_OK)
        status = encoder_attend(pass, member, at, &rows, s->context, s->scratch[member], error);
    if (status == WISP_OK)
        status = pass_apply_linear(pass, at, &layer->output, s->context + first, own.n,
                                   s->y + first, s->scratch[member], error);
    pass_sleep(pass, member, at, REST_ATTENTION);
    return pass_join_status(pass, member, at, status, error);
}

static wisp_status other_step(struct pass *pass, uint32_t member, struct cursor at,
                              wisp_error *error) {
    const struct network *network = pass->network;
    const struct other_weights *w = network->weights;
    const struct other_layer *layer = &w->layer[at.layer];
    const struct other_state *s = pass->state;
    const struct pass_tokens own = pass_tokens(pass, member);
    const size_t size = network->config.hidden_size;
    wisp_status status;

    switch (at.block) {
    case PASS_EMBED:
        if (member > 0)
            break;
        TRY(encoder_look_up(pass, s->q, s->h, error));
        TRY(encoder_look_up_positions(pass, s->y, error));
        add_and_norm(pass, (struct pass_tokens){0, pass->tokens}, &w->layer[0].attention_norm);
        break;

    case PASS_ATTENTION:
        TRY(attention(pass, member, at, layer, error));
        add_and_norm(pass, own, &layer->feed_forward_norm);
        break;

    case PASS_FEED_FORWARD:
        status = feed_forward_run(pass, member, at, &s->feed_forward,
                                  s->inner + own.first * feed_forward_inner_size(&network->config),
                                  s->y + own.first * size, s->scratch[member], error);
        TRY(pass_join_status(pass, member, at, status, error));
        add_and_norm(pass, own,
                     at.layer + 1 == network->config.layers ? &w->last_norm
                                                            : &layer[1].attention_norm);
        break;

    case PASS_OUTPUT:
        if (member == 0)
            encoder_pool(pass);
        break;

    case PASS_END:
        break;
    }
    return WISP_OK;
}

static size_t other_linears(const struct network *network, uint32_t l, struct linear_entry *out) {
    const size_t size = network->config.hidden_size;
    if (l == network->config.layers)
        return 0;
    struct other_layer *layer = &((struct other_weights *)network->weights)->layer[l];
    const struct linear_entry all[] = {
        {.linear = &layer->q, .names = {"attn_q"}},
        {.linear = &layer->k, .names = {"attn_k"}},
        {.linear = &layer->v, .names = {"attn_v"}},
        {.linear = &layer->output, .names = {"attn_output"}, .role = LINEAR_ENDS}};
    const size_t n = sizeof all / sizeof *all;
    for (size_t i = 0; i < n; i++) {
        out[i] = all[i];
        out[i].n = out[i].k = size;
        out[i].has_bias = true;
        out[i].block = PASS_ATTENTION;
    }
    return n;
}

static wisp_status other_load(struct network *network, wisp_error *error) {
    struct other_weights *w = network->weights;
    const size_t size = network->config.hidden_size;
    TRY(positions_load(network, network->config.max_positions, error));
    network->resident_bytes += norm_bytes(size);
    return norm_load(&w->last_norm, network->dir, "token_embd_norm", size, error);
}

static wisp_status other_load_layer(struct network *network, uint32_t l, wisp_error *error) {
    struct other_layer *layer = &((struct other_weights *)network->weights)->layer[l];
    TRY(load_layer_norm(network, l, "attn_output_norm", &layer->attention_norm, error));
    return load_layer_norm(network, l, "layer_output_norm", &layer->feed_forward_norm, error);
}

static void other_release(struct network *network) {
    struct other_weights *w = network->weights;
    for (size_t l = 0; l < network->config.layers; l++) {
        norm_release(&w->layer[l].attention_norm);
        norm_release(&w->layer[l].feed_forward_norm);
    }
    norm_release(&w->last_norm);
}

static wisp_status other_read_config(const struct directory *dir, struct model_config *config,
                                     wisp_error *error) {
    const struct config_reader r = {dir, architecture_other_encoder.name, config, error};
    *config = (struct model_config){.activation = ACTIVATION_GELU, .has_bias = true};
    TRY(config_read_sizes(&r));
    TRY(config_read_norm_epsilon(&r, "attention.layer_norm_epsilon"));
    TRY(config_read_activation(&r));
    TRY(metadata_u32_or(dir, "other-encoder.window", &config->window, error));
    return config_read_pooling(&r);
}

static const char *const tensors[] = {"token_embd", "position_embd", "token_types",
                                      "token_embd_norm", NULL};
static const char *const layer_tensors[] = {"attn_q",      "attn_k",           "attn_v",
                                            "attn_output", "attn_output_norm", "layer_output_norm",
                                            TENSOR_FFN_UP, TENSOR_FFN_DOWN,    NULL};

const struct architecture architecture_other_encoder = {.name = "other-encoder",
                                                        .norms_first = true,
                                                        .tensors = tensors,
                                                        .layer_tensors = layer_tensors,
                                                        .read_config = other_read_config,
                                                        .weights_bytes =
                                                            sizeof(struct other_weights),
                                                        .layer_bytes = sizeof(struct other_layer),
                                                        .linears = other_linears,
                                                        .load = other_load,
                                                        .load_layer = other_load_layer,
                                                        .release = other_release,
                                                        .attention = other_attention,
                                                        .take = other_take,
                                                        .step = other_step};

void other_make_encoder(struct gguf *file, const struct tiny_shape *shape) {
    gguf_make(file, shape);
    for (size_t i = 0; i < file->n_keys; i++) {
        struct gguf_key *key = &file->keys[i];
        char name[80];
        if (key->name.size < 5 || memcmp(key->name.data, "bert.", 5) != 0)
            continue;
        snprintf(name, sizeof name, "%s%.*s", architecture_other_encoder.name,
                 (int)key->name.size - 4, (const char *)key->name.data + 4);
        bytes_release(&key->name);
        bytes_put(&key->name, name, strlen(name));
        key->name_length = key->name.size;
    }
    gguf_set_text(file, "general.architecture", architecture_other_encoder.name);
}
