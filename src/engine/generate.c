/* SPDX-License-Identifier: Apache-2.0
 * Generates text: runs passes over the prompt, then samples one token after the other and runs a
 * pass over each. A session keeps the keys and values of its last text, so that a prompt which
 * begins as that text did is computed from where the two differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "engine/generation.h"
#include "engine/reply.h"
#include "engine/session.h"

/* Tokens of a prompt that one pass computes: enough to use each loaded weight often. */
enum { PROMPT_TOKENS = 512 };

/* Members that split the tokens of a pass compute at least this many each. Of fewer tokens they
 * split the outputs of each layer instead, provided that a layer's weights take long enough to read
 * for the barriers between layers to pay. */
enum { MEMBER_MIN_TOKENS = 6, SPLIT_LAYER_BYTES = 1 << 20 };

/* ---- the session's memory of a text --------------------------------------------------------- */

wisp_status generation_open(wisp_session *session, wisp_error *error) {
    const struct network *network = &session->model->network;
    const struct kv_shape shape = {.layers = network->config.layers,
                                   .kv_heads = network->config.kv_heads,
                                   .head_size = network->config.head_size,
                                   .panel = network->kernels->f32_panel};
    pool_renew(session->team);
    if (session->generation)
        return WISP_OK;
    if (!network->architecture->generates)
        return fail(error, WISP_ERROR_UNSUPPORTED, session->model->dir.file, "general.architecture",
                    "models of architecture %s generate no text", network->architecture->name);
    struct generation *g = calloc(1, sizeof *g);
    if (!g)
        return fail_memory(error, sizeof *g);
    const wisp_status status = kv_cache_open(&g->cache, &shape, error);
    if (status == WISP_OK)
        session->generation = g;
    else
        free(g);
    return status;
}

void generation_close(struct generation *g) {
    if (!g)
        return;
    kv_cache_release(&g->cache);
    workspace_release(&g->space);
    free(g->past.ids);
    free(g);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* Runs one pass over n ids that follow the cached ones. Points *logits to those of the last id, or
 * of all ids, which lie in the session's memory until the next pass. */
static wisp_status run_pass(wisp_session *session, const int32_t *ids, size_t n, bool all,
                            const float **logits, wisp_error *error) {
    const struct network *network = &session->model->network;
    struct generation *g = session->generation;
    const size_t vocabulary = network->config.vocabulary_size, starts[] = {0, n};
    struct kv_cache *caches[] = {&g->cache};
    struct rope rope;
    network->architecture->rope(network, &rope);
    TRY(kv_cache_reserve(&g->cache, g->cache.length + n, &rope, error));
    const size_t most = smaller(pool_size(session->team), PASS_MAX_MEMBERS);
    const bool by_outputs = most > 1 && n < MEMBER_MIN_TOKENS * most && !network->sparse &&
                            network->architecture->by_outputs &&
                            network->resident_bytes / network->config.layers >= SPLIT_LAYER_BYTES;
    const uint32_t members =
        (uint32_t)(by_outputs ? most : smaller(larger(n / MEMBER_MIN_TOKENS, 1), most));
    const struct pass_size size = {.texts = 1,
                                   .tokens = n,
                                   .longest = g->cache.capacity,
                                   .members = members,
                                   .by_outputs = by_outputs};
    struct workspace measured = {.used = pass_workspace_bytes(network, &size)};
    workspace_take(&measured, all ? n : 1, vocabulary, sizeof(float));
    TRY(workspace_reserve(&g->space, measured.used, error));

    struct pass *pass = &session->workers[0].pass;
    *pass = (struct pass){
        .network = network,
        .batch = {.texts = 1, .ids = ids, .starts = starts, .caches = caches, .all_logits = all},
        .thresholds = session->thresholds,
        .members = members,
        .by_outputs = by_outputs,
        .team = members > 1 ? session->team : NULL,
        .hook = session_stop_if_cancelled,
        .hook_context = session};
    pass->rows = workspace_take(&g->space, all ? n : 1, vocabulary, sizeof(float));
    for (uint32_t i = 0; i < members; i++)
        pass->member[i] = (struct pass_member){
            &session->workers[i].trace, session->workers[i].counts, &session->workers[i].tokens};
    pass_begin(pass, &g->space);
    *logits = pass->rows;
    trace_start(&session->workers[0].trace);
    TRY(pass_run(pass, error));
    for (size_t i = 0; i < (all ? n : 1) * vocabulary; i++)
        if (!isfinite(pass->rows[i]))
            return fail(error, WISP_ERROR_FORMAT, session->model->dir.file, NULL,
                        "a logit is not finite: weights are not, or are too large");
    for (size_t i = 0; i < n; i++)
        TRY(token_list_add(&g->past, ids[i], error));
    g->cache.length += n;
    session->workers[0].stats.tokens += n;
    return WISP_OK;
}

/* Computes what the cache does not have of a text of n ids, and points *logits to those of the last
 * id. Sets *reused to the number of ids that the cache had. */
static wisp_status read_prompt(wisp_session *session, const int32_t *ids, size_t n, size_t *reused,
                               const float **logits, wisp_error *error) {
    struct generation *g = session->generation;
    size_t done = 0;
    while (done < n - 1 && done < g->past.count && ids[done] == g->past.ids[done])
        done++;
    *reused = g->cache.length = g->past.count = done;
    for (size_t step; done < n; done += step) {
        step = smaller(n - done, PROMPT_TOKENS);
        TRY(run_pass(session, ids + done, step, false, logits, error));
    }
    return WISP_OK;
}

static wisp_status check_length(const wisp_session *session, size_t n, wisp_error *error) {
    const wisp_model *model = session->model;
    if (n > model->max_tokens)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                    "%zu tokens, and the model's context has %u", n, model->max_tokens);
    return WISP_OK;
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* Generates after the prompt. On return the result is complete. */
static wisp_status generate(wisp_session *session, const int32_t *prompt, size_t n,
                            struct reply *reply, wisp_generation *result, wisp_error *error) {
    const float *logits;
    const double start = clock_seconds();
    int32_t id;
    bool more;
    TRY(read_prompt(session, prompt, n, &result->reused_tokens, &logits, error));
    result->prompt_tokens = n;
    result->prompt_seconds = clock_seconds() - start;
    const double first = clock_seconds();
    TRY(reply_step(reply, logits, &id, &more, error));
    while (more) {
        TRY(run_pass(session, &id, 1, false, &logits, error));
        TRY(reply_step(reply, logits, &id, &more, error));
    }
    result->seconds = clock_seconds() - first;
    return WISP_OK;
}

wisp_status generate_from(wisp_session *session, const struct token_list *prompt,
                          const wisp_generate_options *options, wisp_generation *result,
                          wisp_error *error) {
    const wisp_generate_options defaults = {0}, *o = options ? options : &defaults;
    wisp_generation unused = {0}, *r = result ? result : &unused;
    const wisp_model *model = session->model;
    struct reply reply = {0};
    wisp_status status = WISP_OK;
    *r = (wisp_generation){0};
    if (prompt->count == 0)
        status = fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                      "is empty, and the model has no token that begins a text");
    if (status == WISP_OK)
        status = check_length(session, prompt->count, error);
    if (status == WISP_OK)
        status = reply_open(&reply, model, o, prompt->ids, prompt->count, r, error);
    if (status == WISP_OK)
        status = generate(session, prompt->ids, prompt->count, &reply, r, error);
    reply_release(&reply);
    if (atomic_exchange(&session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return status;
}

wisp_status wisp_generate(wisp_session *session, wisp_text prompt,
                          const wisp_generate_options *options, wisp_generation *result,
                          wisp_error *error) {
    struct token_list ids = {0};
    TRY(require(session, "session", error));
    TRY(require_texts(&prompt, 1, error));
    TRY(generation_open(session, error));
    wisp_status status = codec_encode(session->model->codec, prompt, true, &ids, error);
    if (status == WISP_OK)
        status = generate_from(session, &ids, options, result, error);
    free(ids.ids);
    return status;
}

wisp_status wisp_logits(wisp_session *session, const int32_t *ids, size_t n, float *logits,
                        wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(ids, "ids", error));
    TRY(require(logits, "logits", error));
    TRY(generation_open(session, error));
    struct generation *g = session->generation;
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    TRY(check_length(session, n, error));
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= vocabulary)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "ids",
                        "id %d, where there are %zu tokens", ids[i], vocabulary);
    g->cache.length = g->past.count = 0;
    wisp_status status = WISP_OK;
    for (size_t done = 0, step; done < n && status == WISP_OK; done += step) {
        const float *rows;
        step = smaller(n - done, PROMPT_TOKENS);
        status = run_pass(session, ids + done, step, true, &rows, error);
        if (status == WISP_OK)
            memcpy(logits + done * vocabulary, rows, step * vocabulary * sizeof *rows);
    }
    if (atomic_exchange(&session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return status;
}
