/* SPDX-License-Identifier: Apache-2.0
 * Gated feed-forward layers that compute the tokens of prompts as dense layers do, and of tokens
 * that are generated only the neurons that the gates open (sparse/gathered.h). Both take the same
 * gates, and W_up and W_down are there twice: in panels, and by neuron. */
#include "models/ffn_gate.h"

#include "base/checked.h"
#include "models/feed_forward_block.h"
#include "models/ffn_dense.h"
#include "models/linears.h"
#include "sparse/gathered_frames.h"

static bool takes(const struct network *network, const struct sparse_plan *plan, uint32_t layer) {
    (void)network, (void)layer;
    return plan && plan->by_gate;
}

static wisp_status load(struct network *network, const struct sparse_plan *plan, uint32_t layer,
                        struct tensor_cache *cache, wisp_error *error) {
    const struct model_config *c = &network->config;
    struct gathered_ffn *gathered = &network->feed_forward[layer].gathered;
    TRY(ffn_dense.load(network, plan, layer, cache, error));
    TRY(gathered_load(gathered, network->dir, plan, network->kernels, c->hidden_size,
                      c->intermediate_size, layer, cache, error));
    if (WEIGHTS_MAY_REST && network->rest) {
        const size_t pool = network->neuron_pool ? gathered_pool_bytes(network->neuron_pool) : 0;
        TRY(gathered_frames_open(gathered, &network->neuron_pool, network->dir, layer, cache,
                                 error));
        network->resident_bytes += gathered_pool_bytes(network->neuron_pool) - pool;
    }
    network->resident_bytes += gathered->bytes;
    return WISP_OK;
}

/* Closes the pool with the last layer. */
static void release(const struct network *network, uint32_t layer) {
    gathered_release(&network->feed_forward[layer].gathered);
    if (WEIGHTS_MAY_REST && layer + 1 == network->config.layers)
        gathered_pool_close(network->neuron_pool);
}

static bool has_frames(const struct gathered_ffn *ffn) {
    return WEIGHTS_MAY_REST && ffn->frames;
}

static size_t workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    const size_t size = c->hidden_size, neurons = c->intermediate_size;
    size_t gathered = gathered_workspace_bytes(size, neurons);
    struct workspace measured = {0};
    if (WEIGHTS_MAY_REST && network->neuron_pool)
        gathered += gathered_frames_workspace_bytes(size, neurons);
    workspace_take(&measured, 1, neurons, sizeof(float)); /* scores */
    workspace_part(&measured, larger(ffn_dense.workspace_bytes(network, tokens), gathered));
    return measured.used;
}

uint64_t ffn_gate_unread_bytes(const struct network *network, uint64_t computed) {
    const struct model_config *c = &network->config;
    uint64_t held = 0, read = 0;
    for (uint32_t l = 0; l < c->layers && network->feed_forward[l].kind == &ffn_gate; l++) {
        const struct feed_forward *f = &network->feed_forward[l];
        const struct gathered_ffn *g = &f->gathered;
        const size_t group = gather_group_bytes(g->down_code, c->hidden_size);
        const size_t column = gather_column_bytes(g->down_code, c->hidden_size);
        held += f->up.bytes + f->down.bytes + g->bytes;
        read += computed / c->layers * (gather_row_bytes(g->up_code, c->hidden_size) + column);
        read += c->intermediate_size / GATHER_BLOCK * (group - GATHER_BLOCK * column);
        read += c->intermediate_size * sizeof *g->weights;
    }
    return read < held ? held - read : 0;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Tokens [first, end) of a batch that are computed in the same way. */
struct stretch {
    size_t first, end;
    bool dense;
};

static bool is_dense(const struct pass *pass, size_t text) {
    return !pass->gates || (pass->batch.prompts && pass->batch.prompts[text]);
}

/* Returns the stretch that begins at token `first`, up to token `end`. */
static struct stretch next_stretch(const struct pass *pass, size_t first, size_t end) {
    const size_t *starts = pass->batch.starts;
    size_t text = 0;
    while (starts[text + 1] <= first)
        text++;
    struct stretch s = {.first = first, .dense = is_dense(pass, text)};
    while (text < pass->batch.texts && starts[text] < end && is_dense(pass, text) == s.dense)
        s.end = smaller(starts[++text], end);
    return s;
}

/* The memory that a token has between the halves of a layer, in feed_forward_inner_size floats. */
struct token_inner {
    float *values;                /* [intermediate_size]: f(W_gate x) */
    struct gather_active *active; /* [intermediate_size / GATHER_BLOCK] */
};

static struct token_inner token_inner(const struct network *network, float *inner, size_t token) {
    const size_t neurons = network->config.intermediate_size;
    float *values = inner + token * 2 * neurons;
    _Static_assert(sizeof(struct gather_active) <= GATHER_BLOCK * sizeof(float),
                   "a group takes no more than its neurons");
    return (struct token_inner){.values = values,
                                .active = (struct gather_active *)(void *)(values + neurons)};
}

/* Computes f(gates) for n values of W_gate x. `ones` is overwritten. */
static void open_gates(const struct network *network, float *gates, float *ones, size_t n) {
    for (size_t i = 0; i < n; i++)
        ones[i] = 1;
    ffn_dense_activate(network, ones, gates, n);
}

static void count(struct pass *pass, uint32_t member, uint32_t layer, size_t tokens,
                  size_t neurons) {
    struct sparse_counts *counts = pass->member[member].counts;
    if (!counts)
        return;
    counts[layer].tokens += tokens;
    counts[layer].computed += neurons;
    counts[layer].contributing += neurons;
}

/* ---- members that split tokens -------------------------------------------------------------- */

static wisp_status run_token(struct pass *pass, uint32_t member, struct cursor at, const float *x,
                             float *y, float *inner, struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const struct gathered_ffn *gathered = &layer->gathered;
    const size_t neurons = network->config.intermediate_size;
    const struct token_inner own = token_inner(network, inner, 0);
    float *scores = workspace_take(&space, 1, neurons, sizeof *scores);
    wisp_status status = WISP_OK;
    linear_apply(&layer->gate, x, 1, own.values, space);
    open_gates(network, own.values, scores, neurons);
    pass_mark(pass, member, at, STAGE_FFN_UP);
    const float least = gathered_least(gathered, pass->gates[at.layer], own.values, scores);
    if (has_frames(gathered))
        gathered_frames_begin(gathered);
    count(pass, member, at.layer, 1,
          gathered_apply(gathered, x, own.values, least, 0, neurons, own.active, space));
    if (has_frames(gathered))
        status = gathered_frames_status(gathered, error);
    if (status == WISP_OK)
        gathered_outputs(gathered, own.active, 0, network->config.hidden_size, y);
    if (has_frames(gathered))
        gathered_frames_end(gathered);
    pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    return status;
}

static wisp_status run(struct pass *pass, uint32_t member, struct cursor at,
                       const struct feed_forward_work *work, const struct ffn_rows *rows,
                       struct workspace space, wisp_error *error) {
    const size_t size = pass->network->config.hidden_size, end = rows->first + rows->n;
    for (struct stretch s = {.end = rows->first}; s.end < end;) {
        s = next_stretch(pass, s.end, end);
        const size_t from = (s.first - rows->first) * size;
        const struct ffn_rows part = {.first = s.first,
                                      .n = s.end - s.first,
                                      .x = rows->x + from,
                                      .y = rows->y + from,
                                      .inner = rows->inner};
        if (s.dense) {
            TRY(ffn_dense.run(pass, member, at, work, &part, space, error));
            count(pass, member, at.layer, part.n, part.n * pass->network->config.intermediate_size);
        }
        for (size_t t = 0; t < part.n && !s.dense; t++)
            TRY(run_token(pass, member, at, part.x + t * size, part.y + t * size, part.inner, space,
                          error));
    }
    return WISP_OK;
}

/* ---- members that split outputs ------------------------------------------------------------- */

/* Computes tokens [s.first, s.end), of which no other stretch is dense or not. */
static wisp_status run_stretch(struct pass *pass, uint32_t member, struct cursor at,
                               struct stretch s, float *inner, float *y, struct workspace space,
                               wisp_error *error) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const struct gathered_ffn *gathered = &layer->gathered;
    const size_t neurons = network->config.intermediate_size, size = network->config.hidden_size;
    const struct gate_limit limit = pass->gates[at.layer];
    const size_t step = larger(layer->gate.kind->panel(network->kernels), GATHER_BLOCK);
    const struct pass_outputs own = pass_share(pass, member, neurons, step);
    const struct pass_outputs outputs = pass_share(pass, member, size, GATHER_STRIP);
    float *scores = workspace_take(&space, 1, neurons, sizeof *scores);
    for (size_t t = s.first; t < s.end && own.n > 0; t++) {
        const struct token_inner token = token_inner(network, inner, t);
        linear_apply_outputs(&layer->gate, pass->x + t * size, 1, token.values, own.first, own.n,
                             space);
        open_gates(network, token.values + own.first, scores, own.n);
    }
    pass_mark(pass, member, at, STAGE_FFN_UP);
    if (has_frames(gathered) && member == 0)
        gathered_frames_begin(gathered);
    if (limit.most > 0 || has_frames(gathered))
        pass_barrier(pass, member, at);
    for (size_t t = s.first; t < s.end; t++) {
        const struct token_inner token = token_inner(network, inner, t);
        const float least = gathered_least(gathered, limit, token.values, scores);
        const size_t computed = gathered_apply(gathered, pass->x + t * size, token.values, least,
                                               own.first, own.n, token.active, space);
        count(pass, member, at.layer, member == 0, computed);
    }
    pass_barrier(pass, member, at);
    const wisp_status status =
        has_frames(gathered) ? gathered_frames_status(gathered, error) : WISP_OK;
    for (size_t t = s.first; t < s.end && outputs.n > 0 && status == WISP_OK; t++)
        gathered_outputs(gathered, token_inner(network, inner, t).active, outputs.first,
                         outputs.first + outputs.n, y + t * size);
    pass_mark(pass, member, at, STAGE_FFN_SPARSE);
    if (has_frames(gathered)) {
        pass_barrier(pass, member, at);
        if (member == 0)
            gathered_frames_end(gathered);
    }
    return status;
}

static wisp_status run_outputs(struct pass *pass, uint32_t member, struct cursor at, float *inner,
                               float *y, struct workspace space, wisp_error *error) {
    const size_t neurons = pass->network->config.intermediate_size;
    for (struct stretch s = {0}; s.end < pass->tokens;) {
        s = next_stretch(pass, s.end, pass->tokens);
        if (!s.dense) {
            TRY(run_stretch(pass, member, at, s, inner, y, space, error));
            continue;
        }
        ffn_dense_run_outputs(pass, member, at, s.first, s.end - s.first, inner, y, space);
        if (member == 0)
            count(pass, member, at.layer, s.end - s.first, (s.end - s.first) * neurons);
    }
    return WISP_OK;
}

/* If neurons may be absent, W_up and W_down rest, and are read as a whole only for prompts. */
static enum rest_part needs(const struct network *network) {
    return WEIGHTS_MAY_REST && network->neuron_pool ? REST_CHOICE : REST_DENSE;
}

static enum rest_part needs_too(const struct pass *pass) {
    bool dense = false;
    for (size_t text = 0; text < pass->batch.texts; text++)
        dense = dense || is_dense(pass, text);
    return dense && needs(pass->network) == REST_CHOICE ? REST_DENSE : REST_PARTS;
}

static size_t linears(const struct network *network, uint32_t layer, struct linear_entry *out) {
    const struct feed_forward *f = &network->feed_forward[layer];
    const size_t n = ffn_dense.linears(network, layer, out);
    for (size_t i = 0; i < n; i++)
        out[i].chooses = has_frames(&f->gathered) && out[i].linear == &f->gate;
    return n;
}

const struct ffn_kind ffn_gate = {.name = "gate",
                                  .takes = takes,
                                  .load = load,
                                  .release = release,
                                  .linears = linears,
                                  .workspace_bytes = workspace_bytes,
                                  .needs = needs,
                                  .needs_too = needs_too,
                                  .run = run,
                                  .run_outputs = run_outputs};
