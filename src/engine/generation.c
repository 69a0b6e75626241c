/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* Members that split the tokens of a pass compute at least MEMBER_MIN_TOKENS each. Where a pass has
 * fewer, they split the outputs of each layer instead, provided that a layer has SPLIT_LAYER_BYTES
 * of weights: reading these takes long enough for the barriers between layers to pay. */
enum { MEMBER_MIN_TOKENS = 6, SPLIT_LAYER_BYTES = 1 << 20 };

/* ---- sequences ------------------------------------------------------------------------------ */

wisp_status generation_open(wisp_session *session, size_t n, wisp_error *error) {
    const struct network *network = &session->model->network;
    const struct model_config *c = &network->config;
    const size_t convolutions = config_conv_layer(c, c->layers);
    const struct kv_shape shape = {.layers = c->layers - convolutions,
                                   .kv_heads = c->kv_heads,
                                   .head_size = c->head_size,
                                   .panel = network->kernels->f32_panel,
                                   .type = session->cache_type};
    if (!network->architecture->generates)
        return fail(error, WISP_ERROR_UNSUPPORTED, session->model->dir.file, "general.architecture",
                    "models of architecture %s generate no text", network->architecture->name);
    if (!session->generation)
        session->generation = calloc(1, sizeof *session->generation);
    struct generation *g = session->generation;
    if (!g)
        return fail_memory(error, sizeof *g);
    if (n <= g->count)
        return WISP_OK;
    struct sequence *sequences = realloc(g->sequences, n * sizeof *sequences);
    if (!sequences)
        return fail_memory(error, n * sizeof *sequences);
    g->sequences = sequences;
    for (; g->count < n; g->count++) {
        struct sequence *made = &g->sequences[g->count];
        *made = (struct sequence){0};
        wisp_status status = kv_cache_open(&made->cache, &shape, error);
        if (status == WISP_OK && convolutions > 0)
            status = conv_state_open(&made->conv, convolutions,
                                     (c->conv_taps - 1) * (size_t)c->hidden_size, error);
        if (status != WISP_OK) {
            conv_state_release(&made->conv);
            kv_cache_release(&made->cache);
            return status;
        }
    }
    return WISP_OK;
}

wisp_status generation_token_order(wisp_session *session, const struct token_order **order,
                                   wisp_error *error) {
    struct generation *g = session->generation;
    *order = &g->order;
    if (g->order.ids)
        return WISP_OK;
    const wisp_status status = token_order_open(&g->order, session->model->codec, error);
    if (status != WISP_OK)
        token_order_release(&g->order);
    return status;
}

bool generation_is_long(const wisp_session *session, size_t n) {
    const uint32_t long_after = session->model->network.config.long_after;
    return long_after > 0 && n > long_after;
}

wisp_status sequence_reserve(const wisp_session *session, struct sequence *sequence, size_t n,
                             wisp_error *error) {
    const struct network *network = &session->model->network;
    struct rope rope;
    network->architecture->rope(network, &rope);
    TRY(conv_state_reserve(&sequence->conv, n, error));
    return kv_cache_reserve(&sequence->cache, n, &rope, error);
}

wisp_status sequence_copy(const wisp_session *session, struct sequence *to,
                          const struct sequence *from, size_t n, wisp_error *error) {
    const bool is_long = from->cache.is_long;
    const size_t shared = sequence_shared(to, from->past.ids, n, is_long);
    sequence_rewind(to, shared, is_long);
    TRY(sequence_reserve(session, to, n, error));
    for (size_t i = shared; i < n; i++) {
        const wisp_status status = token_list_add(&to->past, from->past.ids[i], error);
        if (status != WISP_OK) {
            to->past.count = shared; /* of which the cache has the keys and values */
            return status;
        }
    }
    kv_cache_copy(&to->cache, &from->cache, shared, n);
    conv_state_copy(&to->conv, &from->conv, shared, n);
    to->cache.length = n;
    return WISP_OK;
}

/* ---- passes --------------------------------------------------------------------------------- */

/* A pass's logits and its batch, in the session's memory. */
struct batch_parts {
    float *logits;
    int32_t *ids;
    size_t *starts;
    struct kv_cache **caches;
    struct conv_state **states;
};

static struct batch_parts take_batch(struct workspace *space, size_t texts, size_t tokens,
                                     size_t rows, size_t vocabulary) {
    struct batch_parts p;
    p.logits = workspace_take(space, rows, vocabulary, sizeof *p.logits);
    p.ids = workspace_take(space, 1, tokens, sizeof *p.ids);
    p.starts = workspace_take(space, 1, texts + 1, sizeof *p.starts);
    p.caches = workspace_take(space, 1, texts, sizeof *p.caches);
    p.states = workspace_take(space, 1, texts, sizeof *p.states);
    return p;
}

wisp_status generation_begin(wisp_session *session, const struct addition *additions, size_t n,
                             bool all, wisp_error *error) {
    const struct network *network = &session->model->network;
    struct generation *g = session->generation;
    const size_t vocabulary = network->config.vocabulary_size;
    struct pass_size size = {.texts = n};
    for (size_t i = 0; i < n; i++) {
        const struct kv_cache *cache = &additions[i].sequence->cache;
        TRY(sequence_reserve(session, additions[i].sequence, cache->length + additions[i].n,
                             error));
        size.longest = larger(size.longest, cache->capacity);
        size.tokens += additions[i].n;
    }
    const size_t most = smaller(pool_size(session->team), PASS_MAX_MEMBERS);
    size.by_outputs = most > 1 && size.tokens < MEMBER_MIN_TOKENS * most && !network->sparse &&
                      network->architecture->by_outputs &&
                      network->resident_bytes / network->config.layers >= SPLIT_LAYER_BYTES;
    size.members =
        (uint32_t)(size.by_outputs ? most
                                   : smaller(larger(size.tokens / MEMBER_MIN_TOKENS, 1), most));
    const size_t rows = all ? size.tokens : n;
    struct workspace measured = {.used = pass_workspace_bytes(network, &size)};
    take_batch(&measured, n, size.tokens, rows, vocabulary);
    TRY(workspace_reserve(&g->space, measured.used, error));

    const struct batch_parts parts = take_batch(&g->space, n, size.tokens, rows, vocabulary);
    parts.starts[0] = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(parts.ids + parts.starts[i], additions[i].ids, additions[i].n * sizeof *parts.ids);
        parts.starts[i + 1] = parts.starts[i] + additions[i].n;
        parts.caches[i] = &additions[i].sequence->cache;
        parts.states[i] = &additions[i].sequence->conv;
    }
    struct pass *pass = &session->workers[0].pass;
    *pass = (struct pass){.network = network,
                          .batch = {.texts = n,
                                    .ids = parts.ids,
                                    .starts = parts.starts,
                                    .caches = parts.caches,
                                    .states = parts.states,
                                    .all_logits = all},
                          .rows = parts.logits,
                          .thresholds = session->thresholds,
                          .members = size.members,
                          .by_outputs = size.by_outputs,
                          .team = size.members > 1 ? session->team : NULL,
                          .hook = session_stop_if_cancelled,
                          .hook_context = session};
    for (uint32_t i = 0; i < size.members; i++)
        pass->member[i] = (struct pass_member){
            &session->workers[i].trace, session->workers[i].counts, &session->workers[i].tokens};
    pass_begin(pass, &g->space);
    return WISP_OK;
}

wisp_status generation_end(wisp_session *session, const struct addition *additions, size_t n,
                           double pause_at, bool *paused, const float **logits, wisp_error *error) {
    struct pass *pass = &session->workers[0].pass;
    *logits = pass->rows;
    session->pause = (struct pause){.at = pause_at};
    trace_start(&session->workers[0].trace);
    const wisp_status ran = pass_run(pass, error);
    *paused = session->pause.reached;
    session->pause = (struct pause){.at = INFINITY};
    if (ran != WISP_OK)
        return *paused ? WISP_OK : ran;
    const size_t rows = pass->batch.all_logits ? pass->tokens : n;
    for (size_t i = 0; i < rows * session->model->network.config.vocabulary_size; i++)
        if (!isfinite(pass->rows[i]))
            return fail(error, WISP_ERROR_FORMAT, session->model->dir.file, NULL,
                        "a logit is not finite: weights are not, or are too large");
    wisp_status status = WISP_OK;
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < additions[i].n && status == WISP_OK; t++)
            status = token_list_add(&additions[i].sequence->past, additions[i].ids[t], error);
    for (size_t i = 0; i < n; i++) {
        struct sequence *sequence = additions[i].sequence;
        if (status == WISP_OK) {
            sequence->cache.length += additions[i].n;
            conv_state_commit(&sequence->conv, additions[i].n);
        }
        sequence->past.count = sequence->cache.length;
    }
    if (status == WISP_OK)
        session->workers[0].stats.tokens += pass->tokens;
    return status;
}

wisp_status generation_pass(wisp_session *session, const struct addition *additions, size_t n,
                            bool all, const float **logits, wisp_error *error) {
    bool paused;
    TRY(generation_begin(session, additions, n, all, error));
    return generation_end(session, additions, n, INFINITY, &paused, logits, error);
}

uint64_t generation_read_bytes(const wisp_session *session, const struct sequence *sequence) {
    const struct network *network = &session->model->network;
    const struct model_config *config = &network->config;
    const struct kv_cache *cache = &sequence->cache;
    uint64_t positions = 0;
    for (uint32_t l = 0; l < config->layers; l++)
        if (!config_is_conv(config, l))
            positions +=
                config_is_local(config, l) ? smaller(cache->length, config->window) : cache->length;
    return network->resident_bytes + positions * kv_position_bytes(&cache->shape);
}

/* ---- calls ---------------------------------------------------------------------------------- */

wisp_status check_prompt_length(const wisp_session *session, size_t n, wisp_error *error) {
    const wisp_model *model = session->model;
    if (n == 0)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                    "is empty, and the model has no token that begins a text");
    if (n > model->max_tokens)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                    "%zu tokens, and the model's context has %u", n, model->max_tokens);
    return WISP_OK;
}

wisp_status check_ids(const wisp_session *session, const int32_t *ids, size_t n,
                      wisp_error *error) {
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= vocabulary)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "ids",
                        "id %d, where there are %zu tokens", ids[i], vocabulary);
    return WISP_OK;
}

wisp_status end_call(wisp_session *session, wisp_status status, wisp_error *error) {
    if (atomic_exchange(&session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return status;
}
