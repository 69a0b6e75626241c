/* SPDX-License-Identifier: Apache-2.0
 * Feed-forward layers of experts: y = the sum of w_e expert_e(x) over the experts e that a router
 * chooses for the token (routing.h). Tokens of one expert are computed together, and a token's
 * experts are added in ascending order, so that its bits do not depend on the batch. */

#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "models/feed_forward_block.h"
#include "models/ffn_dense.h"
#include "models/linears.h"
#include "models/routing.h"

static bool takes(const struct network *network, const struct sparse_plan *plan, uint32_t layer) {
    (void)plan;
    return config_is_experts(&network->config, layer);
}

/* ---- the weights ---------------------------------------------------------------------------- */

static wisp_status open_store(struct network *network, wisp_error *error) {
    const struct model_config *c = &network->config;
    const struct expert_shape shape = {.layers = c->layers,
                                       .count = c->experts.count,
                                       .used = c->experts.used,
                                       .hidden_size = c->hidden_size,
                                       .size = c->experts.size,
                                       .compute = network->compute,
                                       .gated = config_is_gated(c),
                                       .biased = c->experts.adds_bias};
    return expert_store_open(&network->experts, network->dir, network->kernels, &shape,
                             network->limits_experts, error);
}

/* Loads what is not of one expert. The router is small, and a rounded one would choose other
 * experts: it computes in floats. */
static wisp_status load_router(struct network *network, uint32_t layer, wisp_error *error) {
    const struct expert_config *e = &network->config.experts;
    struct feed_forward *f = &network->feed_forward[layer];
    char name[TENSOR_NAME_BYTES];
    const char *const names[] = {layer_tensor_name(name, layer, TENSOR_ROUTER, "")};
    const struct linear_source source = {.dir = network->dir,
                                         .names = names,
                                         .unbiased = !e->adds_bias,
                                         .parts = 1,
                                         .n = e->count,
                                         .k = network->config.hidden_size};
    TRY(linear_load(&f->router, &source, network->kernels, WISP_COMPUTE_F32, error));
    network->resident_bytes += f->router.bytes;
    network_tally(network, &f->router, 1);
    if (e->has_bias) {
        layer_tensor_name(name, layer, TENSOR_ROUTER_CHOICE, TENSOR_BIAS);
        network->resident_bytes += e->count * sizeof *f->router_choice;
        TRY(directory_load_floats(network->dir, name, 1, e->count, &f->router_choice, error));
    }
    if (!e->adds_sum_bias)
        return WISP_OK;
    const size_t size = network->config.hidden_size;
    layer_tensor_name(name, layer, TENSOR_EXPERTS, TENSOR_BIAS);
    network->resident_bytes += size * sizeof *f->experts_bias;
    return directory_load_floats(network->dir, name, 1, size, &f->experts_bias, error);
}

static wisp_status load(struct network *network, const struct sparse_plan *plan, uint32_t layer,
                        struct tensor_cache *cache, wisp_error *error) {
    uint64_t bytes;
    (void)plan, (void)cache;
    if (!network->experts)
        TRY(open_store(network, error));
    TRY(load_router(network, layer, error));
    TRY(expert_store_load(network->experts, layer, &bytes, error));
    if (expert_store_is_limited(network->experts))
        return WISP_OK;
    const struct expert *pattern = expert_store_pattern(network->experts, layer);
    if (config_is_gated(&network->config))
        network_tally(network, &pattern->gate, network->config.experts.count);
    network_tally(network, &pattern->up, network->config.experts.count);
    network_tally(network, &pattern->down, network->config.experts.count);
    network->resident_bytes += (size_t)bytes;
    return WISP_OK;
}

/* A token uses a few experts of each layer. If their memory is limited, none counts as resident. */
static int64_t unread_bytes(const struct network *network, uint64_t computed,
                            uint64_t contributing) {
    const struct expert_config *e = &network->config.experts;
    (void)computed, (void)contributing;
    if (e->count == 0)
        return 0;
    const uint64_t all = expert_store_bytes(network->experts);
    const uint64_t resident = expert_store_is_limited(network->experts) ? 0 : all;
    return (int64_t)resident - (int64_t)(all / e->count * e->used);
}

/* Closes the store with the last layer that has experts. */
static void release(const struct network *network, uint32_t layer) {
    struct feed_forward *f = &network->feed_forward[layer];
    uint32_t next = layer + 1;
    linear_release(&f->router);
    memory_free(f->router_choice);
    memory_free(f->experts_bias);
    while (next < network->config.layers && !config_is_experts(&network->config, next))
        next++;
    if (next == network->config.layers)
        expert_store_close(network->experts);
}

/* ---- working memory ------------------------------------------------------------------------- */

/* Working memory of a member for n tokens, besides their inner floats. */
struct work {
    struct routed *pairs, *sorted; /* [n, used] */
    size_t *first;                 /* [experts + 1]: see route_sort */
    float *scores;                 /* [experts] */
    float *x, *y;                  /* [n, hidden_size]: of the tokens of one expert */
};

static void take_work(const struct model_config *c, size_t n, struct workspace *space,
                      struct work *w) {
    w->pairs = workspace_take(space, n, c->experts.used, sizeof *w->pairs);
    w->sorted = workspace_take(space, n, c->experts.used, sizeof *w->sorted);
    w->first = workspace_take(space, 1, c->experts.count + 1, sizeof *w->first);
    w->scores = workspace_take(space, 1, c->experts.count, sizeof *w->scores);
    w->x = workspace_take(space, n, c->hidden_size, sizeof *w->x);
    w->y = workspace_take(space, n, c->hidden_size, sizeof *w->y);
}

static size_t workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    struct workspace measured = {0};
    struct work unused;
    take_work(c, tokens, &measured, &unused);
    workspace_part(&measured,
                   linear_workspace_bytes(tokens, larger(c->hidden_size, c->experts.size)));
    return measured.used;
}

/* The inner floats of n tokens: the outputs of the router, and the halves of a layer by pairs of a
 * token and an expert, in the order of work.sorted. */
struct inner {
    float *outputs;   /* [n, experts] */
    float *up, *gate; /* [n, used, size] */
};

static struct inner inner_of(const struct expert_config *e, float *inner, size_t n) {
    float *up = inner + n * e->count;
    return (struct inner){inner, up, up + n * e->used * e->size};
}

/* ---- the pass ------------------------------------------------------------------------------- */

/* Tokens that a member computes, and which outputs of them. */
struct share {
    const struct network *network;
    const struct feed_forward *layer;
    size_t n;       /* tokens */
    const float *x; /* [n, hidden_size] */
    float *y;       /* [n, hidden_size] */
    struct inner inner;
    struct work work;
    struct pass_outputs neurons, outputs; /* of experts */
};

/* Chooses the experts of all tokens by the router's outputs. */
static void choose(const struct share *s) {
    const struct expert_config *e = &s->network->config.experts;
    const struct work *w = &s->work;
    for (size_t t = 0; t < s->n; t++)
        route_token(e, s->inner.outputs + t * e->count, s->layer->router_choice, (uint32_t)t,
                    w->scores, w->pairs + t * e->used);
    route_sort(w->pairs, s->n * e->used, e->count, w->first, w->sorted);
}

/* Computes the member's neurons of an expert for all of its tokens. */
static void compute_neurons(const struct share *s, const struct expert *expert, uint32_t index,
                            struct workspace space) {
    const size_t size = s->network->config.hidden_size, inner = s->network->config.experts.size;
    const struct pass_outputs own = s->neurons;
    const size_t first = s->work.first[index], n = s->work.first[index + 1] - first;
    float *up = s->inner.up + first * inner, *gate = s->inner.gate + first * inner;
    const float *x = s->x + s->work.sorted[first].token * size;
    for (size_t i = 0; i < n && n > 1; i++)
        memcpy(s->work.x + i * size, s->x + s->work.sorted[first + i].token * size,
               size * sizeof *x);
    x = n > 1 ? s->work.x : x;
    linear_apply_outputs(&expert->up, x, n, up, own.first, own.n, space);
    if (config_is_gated(&s->network->config))
        linear_apply_outputs(&expert->gate, x, n, gate, own.first, own.n, space);
    for (size_t i = 0; i < n && own.n > 0; i++)
        ffn_dense_activate(s->network, up + i * inner + own.first, gate + i * inner + own.first,
                           own.n);
}

/* Adds the member's outputs of an expert to those of its tokens. */
static void add_outputs(const struct share *s, const struct expert *expert, uint32_t index,
                        struct workspace space) {
    const size_t size = s->network->config.hidden_size, inner = s->network->config.experts.size;
    const struct pass_outputs own = s->outputs;
    const size_t first = s->work.first[index], n = s->work.first[index + 1] - first;
    const float *neurons = config_is_gated(&s->network->config) ? s->inner.gate : s->inner.up;
    linear_apply_outputs(&expert->down, neurons + first * inner, n, s->work.y, own.first, own.n,
                         space);
    for (size_t i = 0; i < n; i++) {
        const struct routed *pair = &s->work.sorted[first + i];
        const float *from = s->work.y + i * size + own.first;
        float *to = s->y + pair->token * size + own.first;
        for (size_t k = 0; k < own.n; k++)
            to[k] += pair->weight * from[k];
    }
}

/* Sets the member's outputs to what is added to those of experts. */
static void begin_outputs(const struct share *s) {
    const size_t size = s->network->config.hidden_size, bytes = s->outputs.n * sizeof *s->y;
    const float *bias = s->layer->experts_bias;
    for (size_t t = 0; t < s->n && s->outputs.n > 0; t++) {
        float *y = s->y + t * size + s->outputs.first;
        if (bias)
            memcpy(y, bias + s->outputs.first, bytes);
        else
            memset(y, 0, bytes);
    }
}

static bool is_used(const struct share *s, uint32_t expert) {
    return s->work.first[expert] < s->work.first[expert + 1];
}

static void count(struct pass *pass, uint32_t member, uint32_t layer, size_t tokens) {
    struct sparse_counts *counts = pass->member[member].counts;
    const struct expert_config *e = &pass->network->config.experts;
    if (!counts)
        return;
    counts[layer].tokens += tokens;
    counts[layer].computed += (uint64_t)tokens * e->used * e->size;
    counts[layer].contributing += (uint64_t)tokens * e->used * e->size;
}

static wisp_status run(struct pass *pass, uint32_t member, struct cursor at,
                       const struct feed_forward_work *work, const struct ffn_rows *rows,
                       struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct model_config *c = &network->config;
    struct share s = {.network = network,
                      .layer = &network->feed_forward[at.layer],
                      .n = rows->n,
                      .x = rows->x,
                      .y = rows->y,
                      .inner = inner_of(&c->experts, rows->inner, rows->n),
                      .neurons = {0, c->experts.size},
                      .outputs = {0, c->hidden_size}};
    (void)work;
    take_work(c, s.n, &space, &s.work);
    linear_apply(&s.layer->router, s.x, s.n, s.inner.outputs, space);
    choose(&s);
    count(pass, member, at.layer, s.n);
    begin_outputs(&s);
    for (uint32_t e = 0; e < c->experts.count; e++) {
        const struct expert *expert;
        if (!is_used(&s, e))
            continue;
        TRY(expert_store_hold(network->experts, at.layer, e, &expert, error));
        compute_neurons(&s, expert, e, space);
        add_outputs(&s, expert, e, space);
        expert_store_let_go(network->experts, at.layer, e);
    }
    pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    return WISP_OK;
}

/* ---- members that split outputs ------------------------------------------------------------- */

/* Experts that are computed between two barriers: those that are used among [first, end). */
struct wave {
    uint32_t first, end;
};

/* Returns the next wave. If experts may be absent it has at most those that a token uses, so that
 * a limit of memory is kept. */
static struct wave next_wave(const struct share *s, uint32_t first) {
    const struct expert_config *e = &s->network->config.experts;
    const uint32_t most = expert_store_is_limited(s->network->experts) ? e->used : e->count;
    struct wave wave = {first, first};
    for (uint32_t used = 0; wave.end < e->count; wave.end++)
        if (is_used(s, wave.end) && used++ == most)
            break;
    return wave;
}

/* Lets go of the member's share of the experts of a wave that are before `end`. */
static void let_go(const struct pass *pass, uint32_t member, struct cursor at,
                   const struct share *s, struct wave wave, uint32_t end) {
    for (uint32_t e = wave.first, i = 0; e < end; e++)
        if (is_used(s, e) && i++ % pass->members == member)
            expert_store_let_go(s->network->experts, at.layer, e);
}

/* Holds the experts of a wave, each member its share, so that several are read at a time. Returns
 * the same status to all. */
static wisp_status hold(struct pass *pass, uint32_t member, struct cursor at, const struct share *s,
                        struct wave wave, wisp_error *error) {
    const struct expert *unused;
    wisp_status own = WISP_OK;
    uint32_t e = wave.first;
    for (uint32_t i = 0; e < wave.end && own == WISP_OK; e++)
        if (is_used(s, e) && i++ % pass->members == member)
            own = expert_store_hold(s->network->experts, at.layer, e, &unused, error);
    const wisp_status status = pass_agree(pass, member, at, own, error);
    if (status != WISP_OK)
        let_go(pass, member, at, s, wave, own == WISP_OK ? e : e - 1);
    return status;
}

static wisp_status run_wave(struct pass *pass, uint32_t member, struct cursor at,
                            const struct share *s, struct wave wave, struct workspace space,
                            wisp_error *error) {
    const struct expert_store *store = s->network->experts;
    const bool limited = expert_store_is_limited(store);
    if (limited)
        TRY(hold(pass, member, at, s, wave, error));
    for (uint32_t e = wave.first; e < wave.end; e++)
        if (is_used(s, e))
            compute_neurons(s, expert_store_at(store, at.layer, e), e, space);
    pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    pass_barrier(pass, member, at);
    for (uint32_t e = wave.first; e < wave.end; e++)
        if (is_used(s, e))
            add_outputs(s, expert_store_at(store, at.layer, e), e, space);
    pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    if (limited) {
        pass_barrier(pass, member, at);
        let_go(pass, member, at, s, wave, wave.end);
    }
    return WISP_OK;
}

static wisp_status run_outputs(struct pass *pass, uint32_t member, struct cursor at, float *inner,
                               float *y, struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct model_config *c = &network->config;
    const struct expert *pattern = expert_store_pattern(network->experts, at.layer);
    const struct kernels *kernels = network->kernels;
    const size_t panel = pattern->up.kind->panel(kernels);
    const size_t step =
        config_is_gated(c) ? larger(panel, pattern->gate.kind->panel(kernels)) : panel;
    struct share s = {
        .network = network,
        .layer = &network->feed_forward[at.layer],
        .n = pass->tokens,
        .x = pass->x,
        .y = y,
        .inner = inner_of(&c->experts, inner, pass->tokens),
        .neurons = pass_share(pass, member, c->experts.size, step),
        .outputs = pass_share(pass, member, c->hidden_size, pattern->down.kind->panel(kernels))};
    take_work(c, s.n, &space, &s.work);
    pass_apply_outputs(pass, member, &s.layer->router, s.x, s.n, s.inner.outputs, space);
    pass_barrier(pass, member, at);
    choose(&s);
    if (member == 0)
        count(pass, member, at.layer, s.n);
    begin_outputs(&s);
    for (struct wave wave = {0}; wave.end < c->experts.count;) {
        wave = next_wave(&s, wave.end);
        TRY(run_wave(pass, member, at, &s, wave, space, error));
    }
    return WISP_OK;
}

static enum rest_part needs(const struct network *network) {
    (void)network;
    return REST_DENSE;
}

const struct ffn_kind ffn_experts = {.name = "experts",
                                     .takes = takes,
                                     .load = load,
                                     .release = release,
                                     .workspace_bytes = workspace_bytes,
                                     .needs = needs,
                                     .run = run,
                                     .run_outputs = run_outputs,
                                     .unread_bytes = unread_bytes};
