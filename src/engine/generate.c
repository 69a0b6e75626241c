/* SPDX-License-Identifier: Apache-2.0
 * Generates text: runs passes over the prompt, then samples one token after the other and runs a
 * pass over each. A session keeps the keys and values of its last text, so that a prompt which
 * begins as that text did is computed from where the two differ. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "engine/generation.h"
#include "engine/sampler.h"
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
                                   .panel = network->kernels->f32_panel,
                                   .type = session->cache_type};
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

size_t generation_bytes(const struct generation *g) {
    return g ? kv_cache_bytes(&g->cache) + g->space.capacity +
                   g->past.capacity * sizeof *g->past.ids
             : 0;
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

/* ---- the text ------------------------------------------------------------------------------- */

/* Text that was generated and not yet handed out: the rest of it decides whether it is a stop, or
 * completes its last character. */
struct pending {
    char *bytes;
    size_t length, capacity;
};

static wisp_status append(struct pending *p, wisp_text text, wisp_error *error) {
    if (text.length > p->capacity - p->length) {
        const size_t capacity = 2 * (p->length + text.length) + 64;
        char *bytes = realloc(p->bytes, capacity);
        if (!bytes)
            return fail_memory(error, capacity);
        p->bytes = bytes;
        p->capacity = capacity;
    }
    if (text.length > 0)
        memcpy(p->bytes + p->length, text.bytes, text.length);
    p->length += text.length;
    return WISP_OK;
}

/* Returns where the first stop text begins, or `length` where there is none. */
static size_t find_stop(const struct pending *p, const wisp_generate_options *o) {
    for (size_t i = 0; i < p->length; i++)
        for (size_t k = 0; k < o->stops; k++) {
            const size_t n = strlen(o->stop[k]);
            if (n > 0 && n <= p->length - i && memcmp(p->bytes + i, o->stop[k], n) == 0)
                return i;
        }
    return p->length;
}

/* Returns how many bytes at the start can be handed out: those before the last place that may begin
 * a stop text, and before an incomplete character at the end. */
static size_t safe_length(const struct pending *p, const wisp_generate_options *o) {
    size_t safe = p->length;
    for (size_t back = 1; back <= 3 && back <= p->length; back++) {
        const unsigned char c = (unsigned char)p->bytes[p->length - back];
        if ((c & 0xC0) == 0x80)
            continue;
        if (c >= 0xC0 && back < (c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u))
            safe = p->length - back;
        break;
    }
    for (size_t k = 0; k < o->stops; k++) {
        const size_t n = strlen(o->stop[k]);
        for (size_t i = p->length > n ? p->length - n : 0; i < safe; i++)
            if (memcmp(p->bytes + i, o->stop[k], smaller(n, p->length - i)) == 0)
                safe = i;
    }
    return safe;
}

/* Hands out the first n bytes. Returns false where the caller wants no more. */
static bool hand_out(struct pending *p, size_t n, const wisp_generate_options *o) {
    const bool more = n == 0 || !o->text || o->text(o->context, (wisp_text){p->bytes, n});
    p->length -= n;
    if (p->length > 0)
        memmove(p->bytes, p->bytes + n, p->length);
    return more;
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* Generates after the prompt. On return the result is complete. */
static wisp_status generate(wisp_session *session, const int32_t *prompt, size_t n,
                            const wisp_generate_options *o, struct sampler *sampler,
                            struct pending *pending, wisp_generation *result, wisp_error *error) {
    const wisp_model *model = session->model;
    const float *logits;
    const double start = clock_seconds();
    size_t most = model->max_tokens - n + 1;
    if (o->max_tokens > 0)
        most = smaller(most, o->max_tokens);
    TRY(read_prompt(session, prompt, n, &result->reused_tokens, &logits, error));
    result->prompt_tokens = n;
    result->prompt_seconds = clock_seconds() - start;
    for (size_t i = 0; i < n; i++)
        sampler_count(sampler, prompt[i]);
    const double first = clock_seconds();
    result->end = most == o->max_tokens ? WISP_END_LENGTH : WISP_END_CONTEXT;
    while (result->tokens < most) {
        const int32_t id = sampler_next(sampler, logits);
        if (codec_is_end(model->codec, id)) {
            result->end = WISP_END_TOKEN;
            break;
        }
        result->tokens++;
        sampler_count(sampler, id);
        TRY(append(pending, codec_decode(model->codec, id), error));
        const size_t stop = find_stop(pending, o);
        if (stop < pending->length) {
            pending->length = stop;
            result->end = WISP_END_STOP;
            break;
        }
        if (!hand_out(pending, safe_length(pending, o), o)) {
            pending->length = 0;
            result->end = WISP_END_CALLER;
            break;
        }
        if (result->tokens < most)
            TRY(run_pass(session, &id, 1, false, &logits, error));
    }
    hand_out(pending, pending->length, o);
    result->seconds = clock_seconds() - first;
    return WISP_OK;
}

wisp_status wisp_generate(wisp_session *session, wisp_text prompt,
                          const wisp_generate_options *options, wisp_generation *result,
                          wisp_error *error) {
    const wisp_generate_options defaults = {0}, *o = options ? options : &defaults;
    wisp_generation unused = {0}, *r = result ? result : &unused;
    struct token_list ids = {0};
    struct sampler sampler = {0};
    struct pending pending = {0};
    *r = (wisp_generation){0};
    TRY(require(session, "session", error));
    TRY(require_texts(&prompt, 1, error));
    if (o->stops > 0)
        TRY(require((const void *)o->stop, "stop", error));
    pool_renew(session->team);
    TRY(open_generation(session, error));
    const wisp_model *model = session->model;
    wisp_status status = codec_encode(model->codec, prompt, true, &ids, error);
    if (status == WISP_OK && ids.count == 0)
        status = fail(error, WISP_ERROR_ARGUMENT, model->dir.file, "prompt",
                      "is empty, and the model has no token that begins a text");
    if (status == WISP_OK)
        status = check_length(session, ids.count, error);
    if (status == WISP_OK)
        status = sampler_open(&sampler, &o->sampling, model->network.config.vocabulary_size, error);
    if (status == WISP_OK)
        status = generate(session, ids.ids, ids.count, o, &sampler, &pending, r, error);
    sampler_release(&sampler);
    free(pending.bytes);
    free(ids.ids);
    if (atomic_exchange(&session->cancelled, false))
        return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
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
