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

static wisp_status open_generation(wisp_session *session, wisp_error *error) {
    const struct network *network = &session->model->network;
    const struct kv_shape shape = {.layers = network->config.layers,
                                   .kv_heads = network->config.kv_heads,
                                   .head_size = network->config.head_size,
                                   .panel = network->kernels->f32_panel};
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

/* The hook of a pass: stops it when the session is cancelled, and pauses it before a block when the
 * time is over. The first block that it is asked about runs in any case, so that every call goes
 * on. */
static wisp_status stop_or_pause(void *context, struct cursor at, const float *x,
                                 wisp_error *error) {
    wisp_session *session = context;
    struct generation *g = session->generation;
    TRY(session_stop_if_cancelled(session, at, x, error));
    if (!x || g->blocks++ == 0 || clock_seconds() < g->pause_at)
        return WISP_OK;
    g->paused = true;
    return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "paused");
}

/* Prepares a pass over n ids that follow the cached ones. The ids must stay until the pass has
 * ended. Its rows, the logits of the last id, or of all ids, lie in the session's memory until the
 * next pass. */
static wisp_status begin_pass(wisp_session *session, const int32_t *ids, size_t n, bool all,
                              wisp_error *error) {
    const struct network *network = &session->model->network;
    struct generation *g = session->generation;
    const size_t vocabulary = network->config.vocabulary_size;
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
    g->starts[0] = 0;
    g->starts[1] = n;
    g->caches[0] = &g->cache;
    *pass = (struct pass){.network = network,
                          .batch = {.texts = 1,
                                    .ids = ids,
                                    .starts = g->starts,
                                    .caches = g->caches,
                                    .all_logits = all},
                          .thresholds = session->thresholds,
                          .members = members,
                          .by_outputs = by_outputs,
                          .team = members > 1 ? session->team : NULL,
                          .hook = stop_or_pause,
                          .hook_context = session};
    pass->rows = workspace_take(&g->space, all ? n : 1, vocabulary, sizeof(float));
    for (uint32_t i = 0; i < members; i++)
        pass->member[i] = (struct pass_member){
            &session->workers[i].trace, session->workers[i].counts, &session->workers[i].tokens};
    pass_begin(pass, &g->space);
    return WISP_OK;
}

/* Runs the pass that begin_pass has prepared, or the rest of it, and adds its ids to the past. */
static wisp_status end_pass(wisp_session *session, wisp_error *error) {
    struct generation *g = session->generation;
    struct pass *pass = &session->workers[0].pass;
    const size_t n = g->starts[1], rows = pass->batch.all_logits ? n : 1;
    trace_start(&session->workers[0].trace);
    TRY(pass_run(pass, error));
    for (size_t i = 0; i < rows * session->model->network.config.vocabulary_size; i++)
        if (!isfinite(pass->rows[i]))
            return fail(error, WISP_ERROR_FORMAT, session->model->dir.file, NULL,
                        "a logit is not finite: weights are not, or are too large");
    for (size_t i = 0; i < n; i++)
        TRY(token_list_add(&g->past, pass->batch.ids[i], error));
    g->cache.length += n;
    session->workers[0].stats.tokens += n;
    return WISP_OK;
}

/* Drops from the cache what differs from a text of n ids, and its last id, whose logits are needed.
 * Returns the number of ids that are left. */
static size_t keep_common(struct generation *g, const int32_t *ids, size_t n) {
    size_t common = 0;
    while (common < n - 1 && common < g->past.count && ids[common] == g->past.ids[common])
        common++;
    g->cache.length = g->past.count = common;
    return common;
}

static wisp_status check_length(const wisp_session *session, size_t n, wisp_error *error) {
    const wisp_model *model = session->model;
    if (n > model->max_tokens)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                    "%zu tokens, and the model's context has %u", n, model->max_tokens);
    return WISP_OK;
}

/* ---- the calls ------------------------------------------------------------------------------ */

wisp_status writer_open(struct writer *w, wisp_session *session, wisp_text prompt,
                        const wisp_generate_options *options, wisp_error *error) {
    const wisp_model *model = session->model;
    *w = (struct writer){.session = session};
    if (options)
        w->options = *options;
    TRY(require_texts(&prompt, 1, error));
    pool_renew(session->team);
    TRY(open_generation(session, error));
    TRY(codec_encode(model->codec, prompt, true, &w->prompt, error));
    const size_t n = w->prompt.count;
    if (n == 0)
        return fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                    "is empty, and the model has no token that begins a text");
    TRY(check_length(session, n, error));
    TRY(reply_open(&w->reply, model, &w->options, w->prompt.ids, n, &w->result, error));
    w->result.prompt_tokens = n;
    w->result.reused_tokens = keep_common(session->generation, w->prompt.ids, n);
    return WISP_OK;
}

void writer_close(struct writer *w) {
    reply_release(&w->reply);
    free(w->prompt.ids);
}

/* Takes the step that is due: the rest of a pass that was paused, a pass over the next tokens of
 * the prompt or over the last token, or the choice of a token after its pass. */
static wisp_status step(struct writer *w, wisp_error *error) {
    struct generation *g = w->session->generation;
    const size_t n = w->prompt.count, at = g->cache.length;
    if (!w->in_pass && at == n + w->result.tokens) {
        bool more;
        TRY(reply_step(&w->reply, w->session->workers[0].pass.rows, &w->last, &more, error));
        w->ended = !more;
        return WISP_OK;
    }
    if (!w->in_pass)
        TRY(begin_pass(w->session, at < n ? w->prompt.ids + at : &w->last,
                       at < n ? smaller(n - at, PROMPT_TOKENS) : 1, false, error));
    w->in_pass = true;
    TRY(end_pass(w->session, error));
    w->in_pass = false;
    return WISP_OK;
}

wisp_status writer_run(struct writer *w, double seconds, wisp_error *error) {
    wisp_session *session = w->session;
    struct generation *g = session->generation;
    double begun = clock_seconds(), now = begun;
    wisp_status status;
    g->pause_at = begun + seconds;
    g->paused = false;
    do {
        double *spent =
            g->cache.length < w->prompt.count ? &w->result.prompt_seconds : &w->result.seconds;
        g->blocks = 0;
        status = step(w, error);
        now = clock_seconds();
        *spent += now - begun;
        begun = now;
    } while (status == WISP_OK && !w->ended && now < g->pause_at);
    if (g->paused)
        return WISP_OK;
    if (atomic_exchange(&session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return status;
}

wisp_status wisp_generate(wisp_session *session, wisp_text prompt,
                          const wisp_generate_options *options, wisp_generation *result,
                          wisp_error *error) {
    struct writer writer;
    if (result)
        *result = (wisp_generation){0};
    TRY(require(session, "session", error));
    wisp_status status = writer_open(&writer, session, prompt, options, error);
    if (status == WISP_OK)
        status = writer_run(&writer, INFINITY, error);
    if (result)
        *result = writer.result;
    writer_close(&writer);
    return status;
}

wisp_status wisp_logits(wisp_session *session, const int32_t *ids, size_t n, float *logits,
                        wisp_error *error) {
    TRY(require(session, "session", error));
    TRY(require(ids, "ids", error));
    TRY(require(logits, "logits", error));
    pool_renew(session->team);
    TRY(open_generation(session, error));
    struct generation *g = session->generation;
    const size_t vocabulary = session->model->network.config.vocabulary_size;
    TRY(check_length(session, n, error));
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= vocabulary)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "ids",
                        "id %d, where there are %zu tokens", ids[i], vocabulary);
    g->cache.length = g->past.count = 0;
    g->pause_at = INFINITY;
    wisp_status status = WISP_OK;
    for (size_t done = 0, count; done < n && status == WISP_OK; done += count) {
        count = smaller(n - done, PROMPT_TOKENS);
        status = begin_pass(session, ids + done, count, true, error);
        if (status == WISP_OK)
            status = end_pass(session, error);
        if (status == WISP_OK)
            memcpy(logits + done * vocabulary, session->workers[0].pass.rows,
                   count * vocabulary * sizeof *logits);
    }
    if (atomic_exchange(&session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
    return status;
}
