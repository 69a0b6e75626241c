/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/device_texts.h"
#include "models/feed_forward_block.h"

/* Members that split the tokens of a pass compute at least MEMBER_MIN_TOKENS each. If a pass has
 * fewer, they split the outputs of each layer instead, provided that a layer has SPLIT_LAYER_BYTES
 * of weights: reading these takes long enough for the barriers between layers to pay. */
enum { MEMBER_MIN_TOKENS = 6, SPLIT_LAYER_BYTES = 1 << 20 };

/* ---- sequences ------------------------------------------------------------------------------ */

/* Returns the type of the session's caches. int8 products of weights lose more than int8 keys and
 * values do, and no kernel set is slower with these (bench/RESULTS-attention.md). */
static enum kv_type cache_type_of(const wisp_session *session) {
    static const enum kv_type types[] = {
        [WISP_CACHE_F16] = KV_F16, [WISP_CACHE_INT8] = KV_INT8, [WISP_CACHE_F32] = KV_F32};
    if (texts_on_device(session->model))
        return KV_F16;
    if (session->cache_type == WISP_CACHE_AUTO)
        return session->model->compute == WISP_COMPUTE_INT8 ? KV_INT8 : KV_F32;
    return types[session->cache_type];
}

wisp_cache_type wisp_session_get_cache_type(const wisp_session *session) {
    static const wisp_cache_type types[] = {
        [KV_F32] = WISP_CACHE_F32, [KV_F16] = WISP_CACHE_F16, [KV_INT8] = WISP_CACHE_INT8};
    return types[cache_type_of(session)];
}

wisp_status generation_open(wisp_session *session, size_t n, wisp_error *error) {
    const struct network *network = &session->model->network;
    const struct model_config *c = &network->config;
    const size_t convolutions = config_conv_layer(c, c->layers);
    const struct kv_shape shape = {.layers = c->layers - convolutions,
                                   .kv_heads = c->kv_heads,
                                   .head_size = c->head_size,
                                   .panel = network->kernels->f32_panel,
                                   .type = cache_type_of(session)};
    const struct attention_policy *policy = session->attention.decode;
    if (config_embeds(c))
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
        made->cache.shape.kept_bytes = policy->kept_bytes ? policy->kept_bytes(&shape) : 0;
        if (status == WISP_OK && session->kv_tier)
            status = kv_cache_limit(&made->cache, session->kv_tier, error);
        if (status == WISP_OK && texts_on_device(session->model))
            status = device_text_open(session->model, &session->on_device, made, error);
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
    if (g->order.same)
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
    if (texts_on_device(session->model))
        return device_text_reserve(session->model, sequence, n, error);
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
    const wisp_status status = texts_on_device(session->model)
                                   ? device_text_copy(session->model, to, from, shared, n, error)
                                   : kv_cache_copy(&to->cache, &from->cache, shared, n, error);
    if (status != WISP_OK) {
        to->past.count = shared;
        return status;
    }
    conv_state_copy(&to->conv, &from->conv, shared, n);
    to->cache.length = n;
    return generation_check(session, error);
}

wisp_status generation_check(const wisp_session *session, wisp_error *error) {
    struct kv_tier *tier = session->kv_tier;
    const wisp_status status = tier ? tier->check(tier, error) : WISP_OK;
    if (status == WISP_OK)
        return WISP_OK;
    for (size_t i = 0; i < session->generation->count; i++)
        sequence_rewind(&session->generation->sequences[i], 0, false);
    tier->forget_all(tier);
    return status;
}

/* ---- passes --------------------------------------------------------------------------------- */

/* A pass's logits and its batch, in the session's memory. */
struct batch_parts {
    float *logits;
    int32_t *ids;
    size_t *starts;
    struct kv_cache **caches;
    struct conv_state **states;
    bool *prompts;
    struct device_sequence **on_device;
    size_t *lengths;
    float *limits;      /* [layers]: of scores of neurons */
    uint32_t *computed; /* [layers]: neurons, which a device counts */
};

static struct batch_parts take_batch(struct workspace *space, size_t texts, size_t tokens,
                                     size_t rows, const struct model_config *config) {
    struct batch_parts p = {0};
    p.logits = workspace_take(space, rows, config->vocabulary_size, sizeof *p.logits);
    p.ids = workspace_take(space, 1, tokens, sizeof *p.ids);
    p.starts = workspace_take(space, 1, texts + 1, sizeof *p.starts);
    p.caches = workspace_take(space, 1, texts, sizeof *p.caches);
    p.states = workspace_take(space, 1, texts, sizeof *p.states);
    p.prompts = workspace_take(space, 1, texts, sizeof *p.prompts);
    p.on_device = workspace_take(space, 1, texts, sizeof *p.on_device);
    p.lengths = workspace_take(space, 1, texts, sizeof *p.lengths);
    if (DEVICES_EXIST) {
        p.limits = workspace_take(space, 1, config->layers, sizeof *p.limits);
        p.computed = workspace_take(space, 1, config->layers, sizeof *p.computed);
    }
    return p;
}

/* Returns the neurons that the session has computed, and that contributed. */
static struct neuron_totals count_computed(const wisp_session *session) {
    struct neuron_totals all = {0};
    for (uint32_t i = 0; i < session->n_workers; i++)
        for (uint32_t l = 0; l < session->model->network.config.layers; l++) {
            all.computed += session->workers[i].counts[l].computed;
            all.contributing += session->workers[i].counts[l].contributing;
        }
    return all;
}

/* Returns the keys that the session's key-value heads have looked at. */
static uint64_t keys_looked_at(const wisp_session *session) {
    uint64_t seen = 0;
    for (uint32_t i = 0; i < session->n_workers; i++)
        for (uint32_t l = 0; l < session->model->network.config.layers; l++)
            seen += session->workers[i].attention[l].seen;
    return seen / session->model->network.config.kv_heads;
}

/* Tells a step of a device which neurons to compute. A step that reads a prompt computes all. */
static void choose_neurons(const wisp_session *session, const struct addition *additions, size_t n,
                           const struct batch_parts *parts, struct device_step *step) {
    const struct gate_limit *gates = session->gates; /* all layers have the same number */
    for (size_t i = 0; i < n; i++)
        if (additions[i].is_prompt)
            gates = NULL;
    if (!gates)
        return;
    step->neurons = gates[0].most;
    for (uint32_t l = 0; l < session->model->network.config.layers; l++)
        parts->limits[l] = gates[l].least;
    if (step->neurons == 0)
        step->least = parts->limits;
}

/* Counts the neurons that a step of a device has computed, of `tokens` tokens. */
static void count_neurons(wisp_session *session, size_t tokens) {
    for (uint32_t l = 0; l < session->model->network.config.layers; l++) {
        struct sparse_counts *counts = &session->workers[0].counts[l];
        counts->tokens += tokens;
        counts->computed += session->generation->step.computed[l];
        counts->contributing = counts->computed;
    }
}

wisp_status generation_begin(wisp_session *session, const struct addition *additions, size_t n,
                             bool all, wisp_error *error) {
    const struct network *network = &session->model->network;
    struct generation *g = session->generation;
    struct pass_size size = {.texts = n, .attention = session->attention};
    for (size_t i = 0; i < n; i++) {
        const struct kv_cache *cache = &additions[i].sequence->cache;
        TRY(sequence_reserve(session, additions[i].sequence, cache->length + additions[i].n,
                             error));
        size.longest = larger(size.longest, cache->capacity);
        size.tokens += additions[i].n;
    }
    const size_t most = smaller(pool_size(session->team), PASS_MAX_MEMBERS);
    size.by_outputs = most > 1 && size.tokens < MEMBER_MIN_TOKENS * most &&
                      feed_forward_splits_outputs(network) && network->architecture->by_outputs &&
                      network->resident_bytes / network->config.layers >= SPLIT_LAYER_BYTES;
    size.members = size.by_outputs
                       ? step_members_begin(&g->step_members, (uint32_t)most, size.tokens)
                       : (uint32_t)smaller(larger(size.tokens / MEMBER_MIN_TOKENS, 1), most);
    const bool on_device = texts_on_device(session->model);
    const size_t rows = on_device ? 0 : all ? size.tokens : n; /* a device has them */
    struct workspace measured = {.used = on_device ? 0 : pass_workspace_bytes(network, &size)};
    take_batch(&measured, n, size.tokens, rows, &network->config);
    TRY(workspace_reserve(&g->space, measured.used, error));

    const struct batch_parts parts = take_batch(&g->space, n, size.tokens, rows, &network->config);
    parts.starts[0] = 0;
    for (size_t i = 0; i < n; i++) {
        memcpy(parts.ids + parts.starts[i], additions[i].ids, additions[i].n * sizeof *parts.ids);
        parts.starts[i + 1] = parts.starts[i] + additions[i].n;
        parts.caches[i] = &additions[i].sequence->cache;
        parts.states[i] = &additions[i].sequence->conv;
        parts.prompts[i] = additions[i].is_prompt;
        parts.on_device[i] = additions[i].sequence->on_device;
        parts.lengths[i] = additions[i].sequence->cache.length;
    }
    g->step = (struct device_step){.texts = n,
                                   .ids = parts.ids,
                                   .starts = parts.starts,
                                   .sequences = parts.on_device,
                                   .lengths = parts.lengths,
                                   .all_logits = all,
                                   .computed = parts.computed};
    if (on_device)
        choose_neurons(session, additions, n, &parts, &g->step);
    struct pass *pass = &session->workers[0].pass;
    *pass = (struct pass){.network = network,
                          .batch = {.texts = n,
                                    .ids = parts.ids,
                                    .starts = parts.starts,
                                    .caches = parts.caches,
                                    .states = parts.states,
                                    .prompts = parts.prompts,
                                    .all_logits = all},
                          .rows = parts.logits,
                          .thresholds = session->thresholds,
                          .gates = session->gates,
                          .attention = session->attention,
                          .members = size.members,
                          .by_outputs = size.by_outputs,
                          .team = size.members > 1 ? session->team : NULL,
                          .hook = session_stop_if_cancelled,
                          .hook_context = session};
    for (uint32_t i = 0; i < size.members; i++)
        pass->member[i] =
            (struct pass_member){&session->workers[i].trace, session->workers[i].counts,
                                 session->workers[i].attention, &session->workers[i].tokens};
    g->neurons = count_computed(session);
    g->looked_at = keys_looked_at(session);
    if (on_device)
        pass->tokens = size.tokens;
    else
        pass_begin(pass, &g->space);
    return WISP_OK;
}

/* Runs the step that generation_begin has prepared, unless the session is cancelled. */
static wisp_status run_on_device(wisp_session *session, const float **logits, wisp_error *error) {
    TRY(session_stop_if_cancelled(session, (struct cursor){0}, NULL, error));
    return device_texts_step(session->model, session->on_device, &session->generation->step, logits,
                             error);
}

wisp_status generation_end(wisp_session *session, const struct addition *additions, size_t n,
                           double pause_at, bool *paused, const float **logits, wisp_error *error) {
    struct pass *pass = &session->workers[0].pass;
    const bool on_device = texts_on_device(session->model);
    *logits = pass->rows;
    session->pause = (struct pause){.at = pause_at};
    trace_start(&session->workers[0].trace);
    const double start = clock_seconds(), waited = pool_waited(session->team);
    const wisp_status ran =
        on_device ? run_on_device(session, logits, error) : pass_run(pass, error);
    const double end = clock_seconds();
    *paused = session->pause.reached;
    if (ran == WISP_OK && pass->by_outputs && !on_device)
        step_members_end(&session->generation->step_members, end - start,
                         pool_waited(session->team) - waited, end);
    session->pause = (struct pause){.at = INFINITY};
    TRY(generation_check(session, error));
    if (ran != WISP_OK)
        return *paused ? WISP_OK : ran;
    if (on_device && session->gates)
        count_neurons(session, pass->tokens);
    struct neuron_totals *neurons = &session->generation->neurons;
    const struct neuron_totals now = count_computed(session);
    neurons->computed = (now.computed - neurons->computed) / pass->tokens;
    neurons->contributing = (now.contributing - neurons->contributing) / pass->tokens;
    session->generation->looked_at =
        (keys_looked_at(session) - session->generation->looked_at) / pass->tokens;
    const size_t rows = pass->batch.all_logits ? pass->tokens : n;
    for (size_t i = 0; i < rows * session->model->network.config.vocabulary_size; i++)
        if (!isfinite((*logits)[i]))
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
            sequence->cache.kept_steps = (sequence->cache.length - 1) / KV_STEP;
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
    if (WEIGHTS_MAY_REST && network->rest)
        return 0;
    const struct neuron_totals *neurons = &session->generation->neurons;
    int64_t bytes = (int64_t)network->resident_bytes;
    for (size_t i = 0; ffn_kinds[i]; i++)
        if (ffn_kinds[i]->unread_bytes)
            bytes -= ffn_kinds[i]->unread_bytes(network, neurons->computed, neurons->contributing);
    return (uint64_t)bytes +
           session->generation->looked_at * kv_position_bytes(&sequence->cache.shape);
}

/* ---- calls ---------------------------------------------------------------------------------- */

size_t prompt_bound(const wisp_model *model, const wisp_generate_options *options) {
    enum { CONTEXTS = 4, TOKENS = 4096 };
    const size_t context = model->max_tokens;
    if (options && options->context_shift)
        return 0;
    return context < (SIZE_MAX - TOKENS) / CONTEXTS ? CONTEXTS * context + TOKENS : SIZE_MAX;
}

wisp_status check_prompt_bound(const wisp_model *model, const struct token_list *prompt,
                               wisp_status status, wisp_error *error) {
    if (!prompt->is_full)
        return status;
    return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                "more than %zu tokens, but the model's context has %u", prompt->most,
                model->max_tokens);
}

wisp_status encode_prompt(const wisp_model *model, wisp_text prompt,
                          const wisp_generate_options *options, struct token_list *ids,
                          wisp_error *error) {
    ids->most = prompt_bound(model, options);
    wisp_status status = codec_encode(model->codec, prompt, true, ids, error);
    status = check_prompt_bound(model, ids, status, error);
    ids->most = 0; /* they may grow with the text */
    return status;
}

wisp_status check_prompt_length(const wisp_session *session, size_t n, wisp_error *error) {
    const wisp_model *model = session->model;
    if (n == 0)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                    "is empty, and the model has no token that begins a text");
    if (n > model->max_tokens)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                    "%zu tokens, but the model's context has %u", n, model->max_tokens);
    return WISP_OK;
}

wisp_status check_ids(const wisp_session *session, const int32_t *ids, size_t n,
                      wisp_error *error) {
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= vocabulary)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "ids", "id %d, but there are %zu tokens",
                        ids[i], vocabulary);
    return WISP_OK;
}

wisp_status end_call(wisp_session *session, wisp_status status, wisp_error *error) {
    if (atomic_exchange(&session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return status;
}
