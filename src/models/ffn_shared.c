/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers of experts beside which one layer is computed for all tokens: y = the sum of
 * the experts (ffn_experts.c) + W_down (f(W_gate x) * W_up x). */
#include "base/checked.h"
#include "models/feed_forward_block.h"
#include "models/ffn_dense.h"
#include "models/linears.h"

static bool takes(const struct network *network, const struct sparse_plan *plan, uint32_t layer) {
    return network->config.experts.shared > 0 && ffn_experts.takes(network, plan, layer);
}

static size_t linears(const struct network *network, uint32_t layer, struct linear_entry *out) {
    const size_t inner = network->config.experts.shared, size = network->config.hidden_size;
    struct feed_forward *f = &network->feed_forward[layer];
    const struct linear_entry all[] = {
        {.linear = &f->up, .names = {TENSOR_UP_SHARED}, .n = inner, .k = size},
        {.linear = &f->gate, .names = {TENSOR_GATE_SHARED}, .n = inner, .k = size},
        {.linear = &f->down,
         .names = {TENSOR_DOWN_SHARED},
         .n = size,
         .k = inner,
         .role = LINEAR_ENDS}};
    const size_t n = sizeof all / sizeof *all;
    for (size_t i = 0; i < n; i++) {
        out[i] = all[i];
        out[i].block = PASS_FEED_FORWARD;
    }
    return n;
}

static wisp_status load(struct network *network, const struct sparse_plan *plan, uint32_t layer,
                        struct tensor_cache *cache, wisp_error *error) {
    struct linear_entry all[MOST_LINEARS];
    TRY(ffn_experts.load(network, plan, layer, cache, error));
    return linear_entries_load(network, layer, all, linears(network, layer, all), cache, error);
}

static void release(const struct network *network, uint32_t layer) {
    ffn_experts.release(network, layer);
}

static size_t workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    struct workspace measured = {0};
    workspace_take(&measured, tokens, c->hidden_size, sizeof(float));
    workspace_part(&measured,
                   linear_workspace_bytes(tokens, larger(c->hidden_size, c->experts.shared)));
    return larger(measured.used, ffn_experts.workspace_bytes(network, tokens));
}

static enum rest_part needs(const struct network *network) {
    return ffn_experts.needs(network);
}

static wisp_status run(struct pass *pass, uint32_t member, struct cursor at,
                       const struct feed_forward_work *work, const struct ffn_rows *rows,
                       struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct feed_forward *f = &network->feed_forward[at.layer];
    const size_t size = network->config.hidden_size, inner = network->config.experts.shared;
    float *up = rows->inner, *gate = up + rows->n * inner;
    TRY(ffn_experts.run(pass, member, at, work, rows, space, error));
    float *y = workspace_take(&space, rows->n, size, sizeof *y);
    linear_apply(&f->up, rows->x, rows->n, up, space);
    linear_apply(&f->gate, rows->x, rows->n, gate, space);
    ffn_dense_activate(network, up, gate, rows->n * inner);
    linear_apply(&f->down, gate, rows->n, y, space);
    network->kernels->add(rows->y, y, rows->n * size);
    pass_mark(pass, member, at, STAGE_FFN_DOWN);
    return WISP_OK;
}

static wisp_status run_outputs(struct pass *pass, uint32_t member, struct cursor at, float *inner,
                               float *y, struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct kernels *kernels = network->kernels;
    const struct feed_forward *f = &network->feed_forward[at.layer];
    const size_t size = network->config.hidden_size, n = network->config.experts.shared;
    const size_t tokens = pass->tokens;
    float *up = inner, *gate = up + tokens * n;
    TRY(ffn_experts.run_outputs(pass, member, at, inner, y, space, error));
    pass_barrier(pass, member, at); /* all have read what experts keep between their halves */
    float *own_y = workspace_take(&space, tokens, size, sizeof *own_y);
    const struct pass_outputs own =
        pass_apply_outputs(pass, member, &f->up, pass->x, tokens, up, space);
    pass_apply_outputs(pass, member, &f->gate, pass->x, tokens, gate, space);
    if (f->up.kind->panel(kernels) != f->gate.kind->panel(kernels))
        pass_barrier(pass, member, at); /* others compute some gates of this member's neurons */
    for (size_t t = 0; t < tokens && own.n > 0; t++)
        ffn_dense_activate(network, up + t * n + own.first, gate + t * n + own.first, own.n);
    pass_barrier(pass, member, at);
    const struct pass_outputs outputs =
        pass_apply_outputs(pass, member, &f->down, gate, tokens, own_y, space);
    for (size_t t = 0; t < tokens && outputs.n > 0; t++)
        kernels->add(y + t * size + outputs.first, own_y + t * size + outputs.first, outputs.n);
    pass_mark(pass, member, at, STAGE_FFN_DOWN);
    return WISP_OK;
}

const struct ffn_kind ffn_shared = {.name = "experts, one of them shared",
                                    .takes = takes,
                                    .load = load,
                                    .release = release,
                                    .linears = linears,
                                    .workspace_bytes = workspace_bytes,
                                    .needs = needs,
                                    .run = run,
                                    .run_outputs = run_outputs};
