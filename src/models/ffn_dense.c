/* SPDX-License-Identifier: Apache-2.0
 * Dense feed-forward layers: y = W_down activation(W_up x), or in gated layers y = W_down
 * (activation(W_gate x) * W_up x). */
#include "models/ffn_dense.h"

#include "base/checked.h"
#include "models/feed_forward_block.h"
#include "models/linears.h"

static bool takes(const struct network *network, const struct sparse_plan *plan, uint32_t layer) {
    (void)network, (void)plan, (void)layer;
    return true;
}

static size_t linears(const struct network *network, uint32_t layer, struct linear_entry *out) {
    const struct model_config *c = &network->config;
    struct feed_forward *f = &network->feed_forward[layer];
    const size_t inner = c->intermediate_size, size = c->hidden_size;
    struct linear_entry *at = out;
    *at++ =
        (struct linear_entry){.linear = &f->up, .names = {TENSOR_FFN_UP}, .n = inner, .k = size};
    if (config_is_gated(c))
        *at++ = (struct linear_entry){
            .linear = &f->gate, .names = {TENSOR_FFN_GATE}, .n = inner, .k = size};
    *at++ = (struct linear_entry){.linear = &f->down,
                                  .names = {TENSOR_FFN_DOWN},
                                  .n = size,
                                  .k = inner,
                                  .norm = c->has_sub_norms ? "ffn_sub_norm" : NULL,
                                  .role = LINEAR_ENDS};
    for (struct linear_entry *entry = out; entry < at; entry++) {
        entry->has_bias = entry->role == LINEAR_ENDS ? c->has_bias : config_biases_neurons(c);
        entry->block = PASS_FEED_FORWARD;
    }
    return (size_t)(at - out);
}

static wisp_status load(struct network *network, const struct sparse_plan *plan, uint32_t layer,
                        struct tensor_cache *cache, wisp_error *error) {
    struct linear_entry all[MOST_LINEARS];
    const size_t n = linears(network, layer, all);
    (void)plan;
    return linear_entries_load(network, layer, all, n, cache, error);
}

static size_t workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    const size_t most = larger(c->hidden_size, c->intermediate_size);
    return linear_workspace_bytes(tokens, most) + (c->has_sub_norms ? linear_norm_bytes(most) : 0);
}

static enum rest_part needs(const struct network *network) {
    (void)network;
    return REST_DENSE;
}

#ifdef DECODER_KERNELS
/* Prepares silu(gate) * up for ACTIVATION_GATED_SILU_BOUNDED. What is not a number stays so. */
static void bound(float *up, float *gate, size_t n) {
    const float slope = 1.702f, most = 7;
    for (size_t i = 0; i < n; i++) {
        const float u = up[i] > most ? most : up[i] < -most ? -most : up[i];
        gate[i] = slope * (gate[i] > most ? most : gate[i]);
        up[i] = (u + 1) / slope;
    }
}
#endif

#ifndef __wasm__
/* Computes x / (1 + e^(-1.702 x)), which is silu(1.702 x) / 1.702, a part at a time. */
static void quick_gelu(const struct kernels *kernels, float *x, size_t n) {
    enum { PART = 256 };
    const float slope = 1.702f;
    float factors[PART];
    for (size_t i = 0; i < PART; i++)
        factors[i] = 1 / slope;
    for (size_t i = 0; i < n; i++)
        x[i] *= slope;
    for (size_t i = 0; i < n; i += PART)
        kernels->silu_mul(x + i, factors, smaller(PART, n - i));
}
#endif

void ffn_activate(const struct kernels *kernels, enum activation activation, float *up, float *gate,
                  size_t n) {
    switch (activation) {
    case ACTIVATION_GELU:
        kernels->gelu(up, n);
        break;
    case ACTIVATION_RELU:
        kernels->relu(up, n);
        break;
    case ACTIVATION_GATED_SILU:
        kernels->silu_mul(gate, up, n);
        break;
#ifdef DECODER_KERNELS
    case ACTIVATION_GELU_TANH:
        kernels->gelu_tanh(up, n);
        break;
    case ACTIVATION_RELU_SQUARED:
        kernels->relu(up, n);
        kernels->multiply(up, up, n);
        break;
    case ACTIVATION_GATED_RELU:
        kernels->relu(gate, n);
        kernels->multiply(gate, up, n);
        break;
    case ACTIVATION_GATED_RELU_SQUARED:
        kernels->relu(gate, n);
        kernels->multiply(gate, gate, n);
        kernels->multiply(gate, up, n);
        break;
    case ACTIVATION_GATED_GELU_TANH:
        kernels->gelu_tanh(gate, n);
        kernels->multiply(gate, up, n);
        break;
    case ACTIVATION_GATED_GELU:
        kernels->gelu(gate, n);
        kernels->multiply(gate, up, n);
        break;
    case ACTIVATION_GATED_SILU_BOUNDED:
        bound(up, gate, n);
        kernels->silu_mul(gate, up, n);
        break;
#endif
#ifndef __wasm__
    case ACTIVATION_QUICK_GELU:
        quick_gelu(kernels, up, n);
        break;
#else
    default:
        break;
#endif
    }
}

static wisp_status run(struct pass *pass, uint32_t member, struct cursor at,
                       const struct feed_forward_work *work, const struct ffn_rows *rows,
                       struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const size_t values = rows->n * network->config.intermediate_size;
    const bool gated = config_is_gated(&network->config);
    float *up = rows->inner, *gate = rows->inner + values;
    (void)work, (void)error;
    linear_apply(&layer->up, rows->x, rows->n, up, space);
    if (gated)
        linear_apply(&layer->gate, rows->x, rows->n, gate, space);
    pass_mark(pass, member, at, STAGE_FFN_UP);
    ffn_dense_activate(network, up, gate, values);
    pass_mark(pass, member, at, STAGE_ACTIVATION);
    linear_apply(&layer->down, gated ? gate : up, rows->n, rows->y, space);
    pass_mark(pass, member, at, STAGE_FFN_DOWN);
    return WISP_OK;
}

void ffn_dense_run_outputs(struct pass *pass, uint32_t member, struct cursor at, size_t first,
                           size_t tokens, float *inner, float *y, struct workspace space) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const size_t size = network->config.intermediate_size, out = network->config.hidden_size;
    const bool gated = config_is_gated(&network->config);
    const float *x = pass->x + first * out;
    float *up = inner + first * feed_forward_inner_size(&network->config);
    float *gate = up + tokens * size;
    const struct pass_outputs own =
        pass_apply_outputs(pass, member, &layer->up, x, tokens, up, space);
    if (gated)
        pass_apply_outputs(pass, member, &layer->gate, x, tokens, gate, space);
    pass_mark(pass, member, at, STAGE_FFN_UP);
    /* If their panels differ, W_up and W_gate are split at other outputs, so that other members
     * compute some gates of the neurons that this one activates. */
    if (gated &&
        layer->up.kind->panel(network->kernels) != layer->gate.kind->panel(network->kernels))
        pass_barrier(pass, member, at);
    for (size_t t = 0; t < tokens && own.n > 0; t++) {
        const size_t at_token = t * size + own.first;
        ffn_dense_activate(network, up + at_token, gated ? gate + at_token : NULL, own.n);
    }
    pass_mark(pass, member, at, STAGE_ACTIVATION);
    pass_barrier(pass, member, at);
    pass_apply_outputs(pass, member, &layer->down, gated ? gate : up, tokens, y + first * out,
                       space);
    pass_mark(pass, member, at, STAGE_FFN_DOWN);
}

static wisp_status run_outputs(struct pass *pass, uint32_t member, struct cursor at, float *inner,
                               float *y, struct workspace space, wisp_error *error) {
    (void)error;
    ffn_dense_run_outputs(pass, member, at, 0, pass->tokens, inner, y, space);
    return WISP_OK;
}

const struct ffn_kind ffn_dense = {.name = "dense",
                                   .takes = takes,
                                   .load = load,
                                   .linears = linears,
                                   .workspace_bytes = workspace_bytes,
                                   .needs = needs,
                                   .run = run,
                                   .run_outputs = run_outputs};
