/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/writers.h"

#include <pthread.h>
#include <stdlib.h>

struct writers {
    struct writers_options options;
    pthread_mutex_t lock;
    pthread_cond_t given;
    wisp_session **all, **idle; /* [sessions]; of `idle` the last was used last */
    size_t n_all, n_idle, waiting;
};

wisp_status writers_open(const struct writers_options *options, struct writers **writers,
                         wisp_error *error) {
    const size_t bytes = options->sessions * sizeof(wisp_session *);
    struct writers *made = calloc(1, sizeof *made);
    wisp_session **all = malloc(bytes), **idle = malloc(bytes);
    *writers = NULL;
    if (!made || !all || !idle) {
        free(made);
        free(all);
        free(idle);
        return fail_memory(error, sizeof *made + 2 * bytes);
    }
    *made = (struct writers){.options = *options, .all = all, .idle = idle};
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->given, NULL);
    *writers = made;
    return WISP_OK;
}

void writers_close(struct writers *writers) {
    if (!writers)
        return;
    pthread_mutex_lock(&writers->lock);
    for (size_t i = 0; i < writers->n_all; i++)
        wisp_session_cancel(writers->all[i]);
    while (writers->n_idle < writers->n_all)
        pthread_cond_wait(&writers->given, &writers->lock);
    pthread_mutex_unlock(&writers->lock);
    for (size_t i = 0; i < writers->n_all; i++)
        wisp_session_close(writers->all[i]);
    pthread_mutex_destroy(&writers->lock);
    pthread_cond_destroy(&writers->given);
    free(writers->all);
    free(writers->idle);
    free(writers);
}

static wisp_status open_session(const struct writers_options *options, wisp_session **session,
                                wisp_error *error) {
    TRY(wisp_session_open(options->model, &options->session, session, error));
    wisp_status status = WISP_OK;
    if (options->kv_memory)
        status = wisp_session_limit_kv_memory(*session, options->kv_memory, NULL, error);
    if (status == WISP_OK && options->sparsity > 0)
        status = wisp_session_set_sparsity(*session, options->sparsity, error);
    if (status == WISP_OK && options->prompt_cache)
        status = wisp_session_use_prompt_cache(*session, options->prompt_cache,
                                               options->prompt_cache_bytes, error);
    if (status != WISP_OK) {
        wisp_session_close(*session);
        *session = NULL;
    }
    return status;
}

/* Takes an idle session, or opens one if there may be another. Sets *session to NULL if neither. */
static wisp_status find(struct writers *writers, wisp_session **session, wisp_error *error) {
    *session = NULL;
    if (writers->n_idle > 0)
        *session = writers->idle[--writers->n_idle];
    else if (writers->n_all < writers->options.sessions) {
        TRY(open_session(&writers->options, session, error));
        writers->all[writers->n_all++] = *session;
    }
    return WISP_OK;
}

wisp_status writers_take(struct writers *writers, wisp_session **session, bool *busy,
                         wisp_error *error) {
    pthread_mutex_lock(&writers->lock);
    wisp_status status = find(writers, session, error);
    *busy = status == WISP_OK && !*session && writers->waiting >= writers->options.most_waiting;
    if (*busy)
        status = fail(error, WISP_ERROR_MEMORY, NULL, NULL, "%zu requests are waiting",
                      writers->waiting);
    writers->waiting++;
    while (status == WISP_OK && !*session) {
        pthread_cond_wait(&writers->given, &writers->lock);
        status = find(writers, session, error);
    }
    writers->waiting--;
    pthread_mutex_unlock(&writers->lock);
    return status;
}

void writers_give(struct writers *writers, wisp_session *session) {
    pthread_mutex_lock(&writers->lock);
    writers->idle[writers->n_idle++] = session;
    pthread_cond_broadcast(&writers->given);
    pthread_mutex_unlock(&writers->lock);
}

struct writers_counts writers_get_counts(struct writers *writers) {
    pthread_mutex_lock(&writers->lock);
    const struct writers_counts counts = {writers->n_all - writers->n_idle, writers->waiting};
    pthread_mutex_unlock(&writers->lock);
    return counts;
}
