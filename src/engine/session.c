/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/number_text.h"
#include "base/product.h"
#include "engine/device_texts.h"
#include "engine/sequence.h"
#include "engine/text_store.h"
#include "models/rest.h"

/* Returns the recalls [n_workers] of a layer. */
static struct recall *recalls_of(const wisp_session *session, size_t layer) {
    return session->recalls + layer * session->n_workers;
}

/* Makes a recall for each layer and worker, to which the worker's counts then point. */
static wisp_status open_recalls(wisp_session *session, wisp_error *error) {
    const struct network *network = &session->model->network;
    const size_t layers = network->config.layers, n = layers * session->n_workers;
    session->recalls = calloc(n + 1, sizeof *session->recalls); /* calloc(0) may be NULL */
    if (!session->recalls)
        return fail_memory(error, n * sizeof *session->recalls);
    wisp_status status = WISP_OK;
    for (uint32_t l = 0; l < layers && status == WISP_OK; l++) {
        TRY(rest_wake(network, REST_DENSE, l, error));
        for (uint32_t i = 0; i < session->n_workers && status == WISP_OK; i++) {
            struct recall *recall = recalls_of(session, l) + i;
            const struct sparse_ffn *ffn = &network->feed_forward[l].sparse;
            status =
                recall_open(recall, ffn->neurons, ffn->activation, ffn->kernels->sparse, error);
            session->workers[i].counts[l].recall = recall;
        }
        rest_sleep(network, REST_DENSE, l);
    }
    return status;
}

/* Makes counts for all layers and, for sparse ones, recalls and thresholds if they are needed.
 */
static wisp_status open_layers(wisp_session *session, bool recall, wisp_error *error) {
    const struct network *network = &session->model->network;
    const size_t layers = network->config.layers;
    for (uint32_t i = 0; i < session->n_workers; i++) {
        struct worker *worker = &session->workers[i];
        worker->counts = calloc(layers, sizeof *worker->counts);
        /* The first has the map, of a model without layers, too. */
        worker->attention = calloc(larger(layers, 1), sizeof *worker->attention);
        if (!worker->counts || !worker->attention)
            return fail_memory(error, layers * sizeof *worker->counts);
        TRY(token_rows_open(&worker->tokens, &network->tokens, error));
    }
    if (recall && session->model->predictor != WISP_PREDICTOR_DENSE &&
        !session->model->plan.by_gate)
        TRY(open_recalls(session, error));
    if (!model_has_sparsity(session->model))
        return WISP_OK;
    return wisp_session_set_sparsity(session, model_default_sparsity(session->model), error);
}

/* Reads a choice of policies, which only models that generate text have. */
static wisp_status choose_attention(const wisp_model *model, const char *text,
                                    struct attention_choice *choice, wisp_error *error) {
    const struct model_config *c = &model->network.config;
    if (!attention_chosen_by || config_embeds(c))
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "attention",
                    "policies are for models that generate text");
    return attention_chosen_by(&model->dir, c->layers - config_conv_layer(c, c->layers),
                               c->kv_heads, text, choice, error);
}

/* Sets the session's policies. */
static wisp_status open_attention(wisp_session *session, const wisp_session_options *options,
                                  wisp_error *error) {
    const wisp_model *model = session->model;
    struct attention_choice *choice = &session->attention;
    *choice = attention_default(!config_embeds(&model->network.config));
    if (options && options->attention)
        TRY(choose_attention(model, options->attention, choice, error));
    TRY(pass_check_attention(&model->network, choice, error));
    return device_texts_check(model, options, choice, error);
}

wisp_status wisp_session_open(const wisp_model *model, const wisp_session_options *options,
                              wisp_session **session, wisp_error *error) {
    uint32_t threads = options && options->threads ? options->threads : 1;
    struct pool *team = NULL;
    TRY(require(session, "session", error));
    *session = NULL;
    TRY(require(model, "model", error));
    if (threads > POOL_MAX_THREADS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "threads", "%u is more than %d", threads,
                    POOL_MAX_THREADS);
    if (options && !wisp_cache_type_name(options->cache_type))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "cache_type",
                    "invalid wisp_cache_type value %d", (int)options->cache_type);
    if (options && options->recall && model->dir.residency.lacks_neurons)
        return fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "recall",
                    "recall needs all neurons, but cold ones are not loaded (hot_only)");
    if (WEIGHTS_MAY_REST && model->limit_due)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "memory",
                    "the model was opened with a limit, and wisp_model_limit_memory sets it");
    TRY(pool_open(threads, &team, error));
    threads = pool_size(team);
    const size_t bytes = sizeof(wisp_session) + threads * sizeof(struct worker);
    wisp_session *made = calloc(1, bytes);
    if (!made) {
        pool_close(team);
        return fail_memory(error, bytes);
    }
    made->model = model;
    made->team = team;
    made->n_workers = threads;
    made->cache_type = options ? options->cache_type : WISP_CACHE_AUTO;
    made->skip_absent = options && options->skip_absent;
    made->pause.at = INFINITY;
    wisp_status status = open_attention(made, options, error);
    made->has_frames = neuron_cold_take(&model->network.neurons);
    if (status == WISP_OK && !made->has_frames)
        status = fail(error, WISP_ERROR_UNSUPPORTED, model->dir.file, "memory",
                      "limited memory serves one session, and another is open");
    for (uint32_t i = 0; i < threads && status == WISP_OK; i++)
        if (!trace_open(&made->workers[i].trace, STAGES, options && options->trace))
            status = fail_memory(error, STAGES * sizeof(double));
    if (status == WISP_OK)
        status = open_layers(made, options && options->recall, error);
    if (status == WISP_OK)
        *session = made;
    else
        wisp_session_close(made);
    return status;
}

wisp_status session_stop_if_cancelled(void *context, struct cursor at, const float *x,
                                      wisp_error *error) {
    wisp_session *session = context;
    struct pause *pause = &session->pause;
    (void)at;
    if (atomic_load(&session->cancelled))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    /* Nothing pauses within a block (x is NULL there), nor before the first one of a run: every run
     * makes progress. */
    if (isinf(pause->at) || !x || pause->blocks++ == 0 || clock_seconds() < pause->at)
        return WISP_OK;
    pause->reached = true;
    return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "paused");
}

/* Sets the limits of layers that choose neurons by their gates. */
static wisp_status set_gates(wisp_session *session, float share, wisp_error *error) {
    const wisp_model *model = session->model;
    const size_t layers = model->network.config.layers;
    if (!session->gates)
        session->gates = calloc(layers, sizeof *session->gates);
    if (!session->gates)
        return fail_memory(error, layers * sizeof *session->gates);
    for (size_t l = 0; l < layers; l++)
        session->gates[l] = gathered_limit(&model->network.feed_forward[l].gathered, &model->plan,
                                           share, model->predictor == WISP_PREDICTOR_TOPK);
    return WISP_OK;
}

wisp_status wisp_session_set_sparsity(wisp_session *session, float sparsity, wisp_error *error) {
    TRY(require(session, "session", error));
    const wisp_model *model = session->model;
    if (session->job)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "sparsity", "a call of wisp_embed waits");
    if (!model_has_sparsity(model))
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "sparsity",
                    "the model runs with the predictor %s, which does not skip a share of neurons",
                    wisp_predictor_name(model->predictor));
    if (!(sparsity >= 0 && sparsity < 1))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "sparsity", "%s is not from 0 to below 1",
                    number_text((double)sparsity, 6).text);
    const float own = model_default_sparsity(model);
    if (model->plan.levels == 1 && fabsf(sparsity - own) > SPARSE_SAME_SHARE)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "sparsity",
                    "the file has thresholds for %s only", number_text((double)own, 6).text);
    if (TEXT_IS_PREDICTED && model->plan.levels == 0 && model->predictor == WISP_PREDICTOR_GATE &&
        sparsity > 0)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "sparsity",
                    "without thresholds of gates, which wisp calibrate makes, only neurons whose "
                    "gates are 0 are left out");
    if (model->plan.by_gate && !model->plan.predicts)
        return set_gates(session, 1 - sparsity, error);
    const struct network *network = &model->network;
    const uint32_t layers = network->config.layers;
    const size_t intermediate_size = network->config.intermediate_size;
    float *thresholds = calloc(layers * intermediate_size, sizeof *thresholds);
    wisp_status status =
        thresholds ? WISP_OK : fail_memory(error, layers * intermediate_size * sizeof *thresholds);
    for (uint32_t l = 0; l < layers && status == WISP_OK; l++) {
        status = rest_wake(network, REST_THRESHOLDS, l, error);
        if (status != WISP_OK)
            break;
        sparse_ffn_thresholds(&network->feed_forward[l].sparse, &model->plan, 1 - sparsity,
                              thresholds + l * intermediate_size);
        rest_sleep(network, REST_THRESHOLDS, l);
    }
    if (status == WISP_OK && !session->thresholds) {
        session->thresholds = thresholds;
        return WISP_OK;
    }
    if (status == WISP_OK) /* in place: a pass of requests that waits points to them */
        memcpy(session->thresholds, thresholds, layers * intermediate_size * sizeof *thresholds);
    free(thresholds);
    return status;
}

bool wisp_session_get_layer_stats(const wisp_session *session, uint32_t layer,
                                  wisp_layer_stats *stats) {
    const struct model_config *config = &session->model->network.config;
    *stats = (wisp_layer_stats){0};
    if (layer >= config->layers)
        return false;
    const bool dense = session->model->predictor == WISP_PREDICTOR_DENSE;
    for (uint32_t i = 0; i < session->n_workers; i++) {
        const struct worker *worker = &session->workers[i];
        const struct sparse_counts *counts = &worker->counts[layer];
        stats->tokens += dense ? worker->stats.tokens : counts->tokens;
        stats->computed += counts->computed;
        stats->contributing += counts->contributing;
        stats->seconds += counts->seconds;
        stats->keys_visible += worker->attention[layer].visible;
        stats->keys_seen += worker->attention[layer].seen;
        stats->kv_bytes += worker->attention[layer].bytes;
    }
    const bool experts = config_is_experts(config, layer);
    stats->neurons =
        stats->tokens * (experts ? (uint64_t)config->experts.count * config->experts.size
                                 : config->intermediate_size);
    if (dense && !experts)
        stats->computed = stats->contributing = stats->neurons;
    if (session->recalls) {
        const struct recall_totals totals =
            recall_sum(recalls_of(session, layer), session->n_workers);
        stats->compared = stats->computed;
        stats->needed = totals.needed;
        stats->found = totals.found;
    }
    return true;
}

void wisp_session_close(wisp_session *session) {
    if (!session)
        return;
    wisp_embed_give_up(session);
    if (session->has_frames)
        neuron_cold_leave(&session->model->network.neurons);
    free(session->needs.ranges);
    free(session->chunk_sums);
    pool_close(session->team);
    for (uint32_t i = 0; i < session->n_workers; i++) {
        workspace_release(&session->workers[i].text);
        workspace_release(&session->workers[i].batch);
        workspace_release(&session->workers[i].forward);
        trace_release(&session->workers[i].trace);
        token_rows_release(&session->workers[i].tokens);
        if (session->workers[i].attention)
            free(session->workers[i].attention->map);
        free(session->workers[i].counts);
        free(session->workers[i].attention);
    }
    const size_t n =
        session->recalls ? session->model->network.config.layers * session->n_workers : 0;
    for (size_t i = 0; i < n; i++)
        recall_release(&session->recalls[i]);
    generation_close(session->generation);
    if (DEVICES_EXIST)
        device_texts_close(session->model, session->on_device);
    if (session->kv_tier)
        session->kv_tier->close(session->kv_tier);
    prompt_cache_close(session->prompts);
    judge_close(session->judge);
    free(session->attention.masks);
    free(session->recalls);
    free(session->thresholds);
    free(session->gates);
    free(session);
}

void wisp_session_cancel(wisp_session *session) {
    atomic_store(&session->cancelled, true);
}

void wisp_session_get_stats(const wisp_session *session, wisp_stats *stats) {
    *stats = (wisp_stats){0};
    for (uint32_t i = 0; i < session->n_workers; i++) {
        const struct worker *worker = &session->workers[i];
        stats->texts += worker->stats.texts;
        stats->tokens += worker->stats.tokens;
        stats->truncated_texts += worker->stats.truncated_texts;
        for (size_t stage = 0; stage < STAGES; stage++)
            stats->stage_seconds[stage] += worker->trace.seconds[stage];
        stats->workspace_bytes += worker->text.capacity + worker->batch.capacity +
                                  worker->forward.capacity + worker->tokens.bytes;
    }
    wisp_kv_stats kv;
    wisp_session_get_kv_stats(session, &kv);
    stats->workspace_bytes += generation_bytes(session->generation) + kv.resident_bytes;
}

bool wisp_session_get_kv_stats(const wisp_session *session, wisp_kv_stats *stats) {
    *stats = (wisp_kv_stats){0};
    if (session->kv_tier)
        session->kv_tier->get_stats(session->kv_tier, stats);
    return session->kv_tier != NULL;
}
