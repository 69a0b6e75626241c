/* SPDX-License-Identifier: Apache-2.0
 * Gated feed-forward layers that compute the tokens of prompts as dense layers do, and of tokens
 * that are generated only the neurons that the gates open (sparse/gathered.h). W_up and W_down are
 * there twice: in panels, and by neuron. With a low-rank predictor (sparse/ffn.h) so is W_gate, of
 * which tokens that are generated read only the rows of the neurons that are predicted. */
#include "models/ffn_gate.h"

#include <string.h>

#include "base/checked.h"
#include "base/product.h"
#include "models/feed_forward_block.h"
#include "models/ffn_dense.h"
#include "models/linears.h"
#include "sparse/gathered_frames.h"

static bool takes(const struct network *network, const struct sparse_plan *plan, uint32_t layer) {
    (void)network, (void)layer;
    return plan && plan->by_gate;
}

static bool has_predictor(const struct feed_forward *layer) {
    return TEXT_IS_PREDICTED && layer->sparse.rank > 0;
}

/* P x + p is behind the groups in a token's memory (token_hidden). */
size_t ffn_gate_most_rank(size_t neurons) {
    return neurons - neurons / GATHER_BLOCK * sizeof(struct gather_active) / sizeof(float);
}

static wisp_status load_predictor(struct network *network, const struct sparse_plan *plan,
                                  uint32_t layer, wisp_error *error) {
    const struct model_config *c = &network->config;
    struct sparse_ffn *predictor = &network->feed_forward[layer].sparse;
    const size_t most = ffn_gate_most_rank(c->intermediate_size);
    char name[TENSOR_NAME_BYTES];
    if (WEIGHTS_MAY_REST && network->rest)
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file, "memory",
                    "models that generate with lowrank have all weights in memory");
    *predictor = (struct sparse_ffn){.kernels = network->kernels,
                                     .hidden_size = c->hidden_size,
                                     .intermediate_size = c->intermediate_size};
    TRY(sparse_ffn_load_predictor(predictor, network->dir, plan, layer, error));
    network->resident_bytes += predictor->bytes;
    if (predictor->rank > most)
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file,
                    layer_tensor_name(name, layer, TENSOR_PREDICTOR_P, TENSOR_WEIGHT),
                    "a rank of %zu; at most %zu is supported for %u neurons", predictor->rank, most,
                    c->intermediate_size);
    if (predictor->compensation.n > 0)
        return fail(error, WISP_ERROR_UNSUPPORTED, network->dir->file,
                    layer_tensor_name(name, layer, TENSOR_COMPENSATION, TENSOR_WEIGHT),
                    "layers of models that generate have no compensation");
    return WISP_OK;
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
    return TEXT_IS_PREDICTED && plan->predicts ? load_predictor(network, plan, layer, error)
                                               : WISP_OK;
}

/* Closes the pool with the last layer. */
static void release(const struct network *network, uint32_t layer) {
    struct gathered_ffn *gathered = &network->feed_forward[layer].gathered;
    if (WEIGHTS_MAY_REST)
        gathered_frames_close(gathered->frames);
    gathered_release(gathered);
    if (TEXT_IS_PREDICTED)
        sparse_ffn_release(&network->feed_forward[layer].sparse);
    if (WEIGHTS_MAY_REST && layer + 1 == network->config.layers)
        gathered_pool_close(network->neuron_pool);
}

static bool has_frames(const struct gathered_ffn *ffn) {
    return WEIGHTS_MAY_REST && ffn->frames;
}

/* The neurons that a predictor lets through. */
struct predicted {
    uint64_t *mask; /* [sparse_mask_words] */
    uint16_t *list; /* [intermediate_size] */
    float *gates;   /* [intermediate_size]: those of the list */
};

static struct predicted take_predicted(struct workspace *space, size_t neurons) {
    return (struct predicted){
        .mask = workspace_take(space, 1, sparse_mask_words(neurons), sizeof(uint64_t)),
        .list = workspace_take(space, 1, neurons, sizeof(uint16_t)),
        .gates = workspace_take(space, 1, neurons, sizeof(float))};
}

static size_t workspace_bytes(const struct network *network, size_t tokens) {
    const struct model_config *c = &network->config;
    const size_t size = c->hidden_size, neurons = c->intermediate_size;
    size_t gathered = gathered_workspace_bytes(size, neurons);
    struct workspace measured = {0};
    if (WEIGHTS_MAY_REST && network->neuron_pool)
        gathered += gathered_frames_workspace_bytes(size, neurons);
    workspace_take(&measured, 1, neurons, sizeof(float)); /* scores */
    if (TEXT_IS_PREDICTED)
        take_predicted(&measured, neurons);
    workspace_part(&measured, larger(ffn_dense.workspace_bytes(network, tokens), gathered));
    return measured.used;
}

static int64_t unread_bytes(const struct network *network, uint64_t computed,
                            uint64_t contributing) {
    const struct model_config *c = &network->config;
    uint64_t held = 0, read = 0;
    for (uint32_t l = 0; l < c->layers && network->feed_forward[l].kind == &ffn_gate; l++) {
        const struct feed_forward *f = &network->feed_forward[l];
        const struct gathered_ffn *g = &f->gathered;
        const size_t group = gather_group_bytes(g->down_code, c->hidden_size);
        const size_t column = gather_column_bytes(g->down_code, c->hidden_size);
        const bool predicts = has_predictor(f);
        held += f->up.bytes + f->down.bytes + g->bytes;
        held += predicts ? f->gate.bytes + f->sparse.bytes : 0;
        read += contributing / c->layers * (gather_row_bytes(g->up_code, c->hidden_size) + column);
        if (predicts)
            read += computed / c->layers * gather_row_bytes(g->gate_code, c->hidden_size) +
                    f->sparse.p.bytes + f->sparse.q.bytes +
                    c->intermediate_size * sizeof *f->sparse.thresholds;
        read += c->intermediate_size / GATHER_BLOCK * (group - GATHER_BLOCK * column);
        read += c->intermediate_size * sizeof *g->weights;
    }
    return read < held ? (int64_t)(held - read) : 0;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Tokens [first, end) of a batch that are computed in the same way. */
struct stretch {
    size_t first, end;
    bool dense;
};

static bool is_dense(const struct pass *pass, size_t text) {
    return (!pass->gates && !(TEXT_IS_PREDICTED && pass->thresholds)) ||
           (pass->batch.prompts && pass->batch.prompts[text]);
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
                  size_t computed, size_t contributing) {
    struct sparse_counts *counts = pass->member[member].counts;
    if (!counts)
        return;
    counts[layer].tokens += tokens;
    counts[layer].computed += computed;
    counts[layer].contributing += contributing;
}

static void count_dense(struct pass *pass, uint32_t member, uint32_t layer, size_t tokens) {
    const size_t neurons = tokens * pass->network->config.intermediate_size;
    count(pass, member, layer, tokens, neurons, neurons);
}

/* The P x + p of a token. */
static float *token_hidden(const struct network *network, float *inner, size_t token) {
    const size_t groups = network->config.intermediate_size / GATHER_BLOCK;
    return (float *)(void *)(token_inner(network, inner, token).active + groups);
}

/* Returns the neurons of those in `own` that the predictor lets through. Sets their values in
 * values [intermediate_size], and those of the others in `own` to 0. hidden [rank] is P x + p of
 * x. */
static size_t predict(const struct pass *pass, struct cursor at, const float *x,
                      const float *hidden, struct pass_outputs own, float *values,
                      struct workspace space) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const size_t neurons = network->config.intermediate_size;
    const float *thresholds = pass->thresholds + at.layer * neurons + own.first;
    const struct predicted found = take_predicted(&space, neurons);
    float *ones = workspace_take(&space, 1, neurons, sizeof *ones);
    size_t n = 0;
    linear_apply_outputs(&layer->sparse.q, hidden, 1, values, own.first, own.n, space);
    network->kernels->sparse->choose(values + own.first, thresholds, own.n, found.mask);
    for (size_t w = 0; w < sparse_mask_words(own.n); w++)
        for (uint64_t bits = found.mask[w]; bits; bits &= bits - 1)
            found.list[n++] = (uint16_t)(own.first + w * 64 + (unsigned)__builtin_ctzll(bits));
    gathered_gates(&layer->gathered, x, found.list, n, found.gates, space);
    open_gates(network, found.gates, ones, n);
    memset(values + own.first, 0, own.n * sizeof *values);
    for (size_t i = 0; i < n; i++)
        values[found.list[i]] = found.gates[i];
    return n;
}

/* ---- members that split tokens -------------------------------------------------------------- */

static wisp_status run_token(struct pass *pass, uint32_t member, struct cursor at, const float *x,
                             float *y, float *inner, struct workspace space, wisp_error *error) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const struct gathered_ffn *gathered = &layer->gathered;
    const size_t neurons = network->config.intermediate_size;
    const struct token_inner own = token_inner(network, inner, 0);
    size_t predicted = 0;
    float least = 0;
    wisp_status status = WISP_OK;
    if (has_predictor(layer)) {
        float *hidden = token_hidden(network, inner, 0);
        linear_apply(&layer->sparse.p, x, 1, hidden, space);
        predicted =
            predict(pass, at, x, hidden, (struct pass_outputs){0, neurons}, own.values, space);
    } else {
        struct workspace part = space;
        float *scores = workspace_take(&part, 1, neurons, sizeof *scores);
        linear_apply(&layer->gate, x, 1, own.values, part);
        open_gates(network, own.values, scores, neurons);
        least = gathered_least(gathered, pass->gates[at.layer], own.values, scores);
    }
    pass_mark(pass, member, at, STAGE_FFN_UP);
    if (has_frames(gathered))
        gathered_frames_begin(gathered);
    const size_t opened =
        gathered_apply(gathered, x, own.values, least, 0, neurons, own.active, space);
    count(pass, member, at.layer, 1, larger(predicted, opened), opened);
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
            count_dense(pass, member, at.layer, part.n);
        }
        for (size_t t = 0; t < part.n && !s.dense; t++)
            TRY(run_token(pass, member, at, part.x + t * size, part.y + t * size, part.inner, space,
                          error));
    }
    return WISP_OK;
}

/* ---- members that split outputs ------------------------------------------------------------- */

/* Sets the values of a member's neurons of the stretch, and returns how many are predicted. */
static size_t set_values(struct pass *pass, uint32_t member, struct cursor at, struct stretch s,
                         struct pass_outputs own, float *inner, struct workspace space) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const size_t size = network->config.hidden_size;
    const bool predicts = has_predictor(layer);
    struct workspace part = space;
    float *ones = workspace_take(&part, 1, network->config.intermediate_size, sizeof *ones);
    size_t predicted = 0;
    for (size_t t = s.first; t < s.end && predicts; t++)
        pass_apply_outputs(pass, member, &layer->sparse.p, pass->x + t * size, 1,
                           token_hidden(network, inner, t), space);
    if (predicts)
        pass_barrier(pass, member, at);
    for (size_t t = s.first; t < s.end && own.n > 0; t++) {
        const float *x = pass->x + t * size;
        float *values = token_inner(network, inner, t).values;
        if (predicts) {
            predicted += predict(pass, at, x, token_hidden(network, inner, t), own, values, space);
        } else {
            linear_apply_outputs(&layer->gate, x, 1, values, own.first, own.n, part);
            open_gates(network, values + own.first, ones, own.n);
        }
    }
    return predicted;
}

/* Returns the step between the neurons of members: panels of the products that compute gates, and
 * whole groups. */
static size_t neuron_step(const struct network *network, const struct feed_forward *layer) {
    const struct linear *first = has_predictor(layer) ? &layer->sparse.q : &layer->gate;
    return larger(first->kind->panel(network->kernels), GATHER_BLOCK);
}

/* Computes tokens [s.first, s.end), of which no other stretch is dense or not. */
static wisp_status run_stretch(struct pass *pass, uint32_t member, struct cursor at,
                               struct stretch s, float *inner, float *y, struct workspace space,
                               wisp_error *error) {
    const struct network *network = pass->network;
    const struct feed_forward *layer = &network->feed_forward[at.layer];
    const struct gathered_ffn *gathered = &layer->gathered;
    const size_t neurons = network->config.intermediate_size, size = network->config.hidden_size;
    const struct gate_limit limit = pass->gates ? pass->gates[at.layer] : (struct gate_limit){0};
    const struct pass_outputs own = pass_share(pass, member, neurons, neuron_step(network, layer));
    const struct pass_outputs outputs = pass_share(pass, member, size, GATHER_STRIP);
    const size_t predicted = set_values(pass, member, at, s, own, inner, space);
    size_t opened = 0;
    float *scores = workspace_take(&space, 1, neurons, sizeof *scores);
    pass_mark(pass, member, at, STAGE_FFN_UP);
    if (has_frames(gathered) && member == 0)
        gathered_frames_begin(gathered);
    if (limit.most > 0 || has_frames(gathered))
        pass_barrier(pass, member, at);
    for (size_t t = s.first; t < s.end; t++) {
        const struct token_inner token = token_inner(network, inner, t);
        const float least = gathered_least(gathered, limit, token.values, scores);
        opened += gathered_apply(gathered, pass->x + t * size, token.values, least, own.first,
                                 own.n, token.active, space);
    }
    count(pass, member, at.layer, member == 0 ? s.end - s.first : 0, larger(predicted, opened),
          opened);
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
    for (struct stretch s = {0}; s.end < pass->tokens;) {
        s = next_stretch(pass, s.end, pass->tokens);
        if (!s.dense) {
            TRY(run_stretch(pass, member, at, s, inner, y, space, error));
            continue;
        }
        ffn_dense_run_outputs(pass, member, at, s.first, s.end - s.first, inner, y, space);
        if (member == 0)
            count_dense(pass, member, at.layer, s.end - s.first);
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
                                  .run_outputs = run_outputs,
                                  .unread_bytes = unread_bytes};
