/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session.h"

#include <stdlib.h>

enum { MAX_THREADS = 1024 };

wisp_status wisp_session_open(const wisp_model *model, const wisp_session_options *options,
                              wisp_session **session, wisp_error *error) {
    uint32_t threads = options && options->threads ? options->threads : 1;
    struct pool *team = NULL;
    *session = NULL;
    if (threads > MAX_THREADS)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "threads", "%u is more than %d", threads,
                    MAX_THREADS);
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
    for (uint32_t i = 0; i < threads; i++)
        made->workers[i].trace.keeps_spans = options && options->trace;
    *session = made;
    return WISP_OK;
}

void wisp_session_close(wisp_session *session) {
    if (!session)
        return;
    pool_close(session->team);
    for (uint32_t i = 0; i < session->n_workers; i++) {
        workspace_release(&session->workers[i].text);
        workspace_release(&session->workers[i].batch);
        workspace_release(&session->workers[i].forward);
        trace_release(&session->workers[i].trace);
    }
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
        stats->workspace_bytes +=
            worker->text.capacity + worker->batch.capacity + worker->forward.capacity;
    }
}
