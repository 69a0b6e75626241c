/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/batcher.h"

#include <pthread.h>
#include <stdlib.h>

enum { MOST_TEXTS = 1024 }; /* of a batch */

/* A job in the queue. It lives on the stack of the thread that waits for it. */
struct waiting {
    const struct batch_job *job;
    size_t taken, done; /* texts that were put into batches, and whose rows are written */
    wisp_status status; /* of the first batch that failed */
    wisp_error error;
    struct waiting *next;
    /* A lock of its own, so that threads whose jobs end together do not wait for one another. */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool has_ended;
};

/* Where a row of the batch belongs. */
struct place {
    struct waiting *owner;
    size_t index;
};

struct batcher {
    struct batcher_options options;
    size_t width, most_tokens; /* of the model */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct waiting *first; /* the queue */
    bool closing;
    struct batcher_counts counts;
    wisp_text texts[MOST_TEXTS];
    struct place places[MOST_TEXTS];
    float *rows; /* [MOST_TEXTS, width] */
};

static bool same_prompt(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Returns whether the texts of two jobs can be computed in one call. */
static bool is_like(const struct batch_job *a, const struct batch_job *b) {
    return a->dimensions == b->dimensions && a->query == b->query &&
           same_prompt(a->prompt, b->prompt);
}

/* Estimates the tokens of a text of a job: words of English have 4 to 5 bytes with their space. */
static size_t weight(const struct batcher *batcher, const struct batch_job *job, wisp_text text) {
    const size_t tokens = (text.length + (job->query ? job->query->length : 0)) / 4 + 2;
    return tokens < batcher->most_tokens ? tokens : batcher->most_tokens;
}

/* Moves the first job to the end of the queue. */
static void rotate(struct batcher *batcher) {
    struct waiting *moved = batcher->first;
    if (!moved || !moved->next)
        return;
    batcher->first = moved->next;
    moved->next = NULL;
    struct waiting *last = batcher->first;
    while (last->next)
        last = last->next;
    last->next = moved;
}

/* Takes a text of each job in turn, among those that are like the first, until
 * the batch has its tokens or no text is left. Returns the number of texts. */
static size_t gather(struct batcher *batcher) {
    rotate(batcher);
    const struct batch_job *like = batcher->first->job;
    size_t n = 0, tokens = 0, taken;
    do {
        taken = 0;
        for (struct waiting *w = batcher->first; w && n < MOST_TEXTS; w = w->next) {
            const struct batch_job *job = w->job;
            if (w->taken == job->n || !is_like(job, like) ||
                tokens >= batcher->options.batch_tokens)
                continue;
            batcher->texts[n] = job->texts[w->taken];
            batcher->places[n] = (struct place){w, w->taken};
            tokens += weight(batcher, job, job->texts[w->taken++]);
            n++, taken++;
        }
    } while (taken > 0 && n < MOST_TEXTS);
    return n;
}

/* Writes the rows of a batch where they belong. Takes the jobs from the queue of which this was the
 * last row, or which failed and of which no text is under way, and returns them, linked. */
static struct waiting *hand_out(struct batcher *batcher, size_t n, wisp_status status,
                                const wisp_error *error) {
    struct waiting *ended = NULL;
    for (size_t i = 0; i < n; i++) {
        struct waiting *owner = batcher->places[i].owner;
        const struct batch_job *job = owner->job;
        const size_t width = job->query ? 1 : job->dimensions ? job->dimensions : batcher->width;
        if (status == WISP_OK)
            memcpy(job->rows + batcher->places[i].index * width, batcher->rows + i * width,
                   width * sizeof(float));
        else if (owner->status == WISP_OK) {
            owner->status = status;
            owner->error = *error;
        }
        owner->done++;
        if (owner->status != WISP_OK) { /* its other texts are not worth computing */
            batcher->counts.waiting -= job->n - owner->taken;
            owner->taken = job->n;
        }
    }
    for (struct waiting **at = &batcher->first; *at;) {
        struct waiting *job = *at;
        if (job->done == job->job->n || job->status != WISP_OK) {
            *at = job->next;
            job->next = ended;
            ended = job;
        } else
            at = &job->next;
    }
    return ended;
}

/* Wakes the threads of jobs that have left the queue. A job is gone once its thread runs. */
static void wake(struct waiting *ended) {
    while (ended) {
        struct waiting *next = ended->next;
        pthread_mutex_lock(&ended->lock);
        ended->has_ended = true;
        pthread_cond_signal(&ended->ended);
        pthread_mutex_unlock(&ended->lock);
        ended = next;
    }
}

static bool has_work(const struct batcher *batcher) {
    for (const struct waiting *w = batcher->first; w; w = w->next)
        if (w->taken < w->job->n)
            return true;
    return false;
}

static wisp_status compute(struct batcher *batcher, const struct batch_job *like, size_t n,
                           wisp_error *error) {
    const wisp_embed_options options = {.prompt = like->prompt, .dimensions = like->dimensions};
    wisp_session *session = batcher->options.session;
    return like->query ? wisp_rerank(session, *like->query, batcher->texts, n, batcher->rows, error)
                       : wisp_embed(session, batcher->texts, n, &options, batcher->rows, error);
}

static void *run(void *context) {
    struct batcher *batcher = context;
    pthread_mutex_lock(&batcher->lock);
    for (;;) {
        while (!has_work(batcher) && !batcher->closing)
            pthread_cond_wait(&batcher->changed, &batcher->lock);
        if (!has_work(batcher))
            break;
        const size_t n = gather(batcher);
        const struct batch_job *like = batcher->first->job;
        batcher->counts.waiting -= n;
        batcher->counts.batches++;
        batcher->counts.texts += n;
        pthread_mutex_unlock(&batcher->lock);
        wisp_error error = {0};
        const wisp_status status = compute(batcher, like, n, &error);
        pthread_mutex_lock(&batcher->lock);
        struct waiting *ended = hand_out(batcher, n, status, &error);
        pthread_mutex_unlock(&batcher->lock);
        wake(ended);
        pthread_mutex_lock(&batcher->lock);
    }
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

wisp_status batcher_open(const struct batcher_options *options, struct batcher **batcher,
                         wisp_error *error) {
    *batcher = NULL;
    const size_t width = wisp_model_dimensions(options->model);
    struct batcher *made = calloc(1, sizeof *made);
    float *rows = malloc(MOST_TEXTS * width * sizeof *rows);
    if (!made || !rows) {
        free(made);
        free(rows);
        return fail_memory(error, sizeof *made + MOST_TEXTS * width * sizeof *rows);
    }
    wisp_model_info info;
    wisp_model_get_info(options->model, &info);
    made->options = *options;
    made->width = width;
    made->most_tokens = info.max_tokens;
    made->rows = rows;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
    if (pthread_create(&made->thread, NULL, run, made) != 0) {
        free(rows);
        free(made);
        return fail(error, WISP_ERROR_MEMORY, NULL, NULL, "cannot start a thread");
    }
    *batcher = made;
    return WISP_OK;
}

void batcher_close(struct batcher *batcher) {
    if (!batcher)
        return;
    pthread_mutex_lock(&batcher->lock);
    batcher->closing = true;
    pthread_cond_signal(&batcher->changed);
    pthread_mutex_unlock(&batcher->lock);
    pthread_join(batcher->thread, NULL);
    pthread_mutex_destroy(&batcher->lock);
    pthread_cond_destroy(&batcher->changed);
    free(batcher->rows);
    free(batcher);
}

wisp_status batcher_embed(struct batcher *batcher, const struct batch_job *job, bool *busy,
                          wisp_error *error) {
    struct waiting mine = {.job = job, .status = WISP_OK};
    *busy = false;
    if (job->n == 0)
        return WISP_OK;
    pthread_mutex_lock(&batcher->lock);
    /* A request that is larger than the queue is served when it is empty. */
    if (batcher->closing || (batcher->counts.waiting > 0 &&
                             batcher->counts.waiting + job->n > batcher->options.most_waiting)) {
        *busy = true;
        pthread_mutex_unlock(&batcher->lock);
        return fail(error, WISP_ERROR_MEMORY, NULL, NULL,
                    "%zu texts are waiting, and the queue takes %zu", batcher->counts.waiting,
                    batcher->options.most_waiting);
    }
    pthread_mutex_init(&mine.lock, NULL);
    pthread_cond_init(&mine.ended, NULL);
    struct waiting **last = &batcher->first;
    while (*last)
        last = &(*last)->next;
    *last = &mine;
    batcher->counts.waiting += job->n;
    pthread_cond_signal(&batcher->changed);
    pthread_mutex_unlock(&batcher->lock);
    pthread_mutex_lock(&mine.lock);
    while (!mine.has_ended)
        pthread_cond_wait(&mine.ended, &mine.lock);
    pthread_mutex_unlock(&mine.lock);
    pthread_cond_destroy(&mine.ended);
    pthread_mutex_destroy(&mine.lock);
    if (mine.status != WISP_OK && error)
        *error = mine.error;
    return mine.status;
}

struct batcher_counts batcher_get_counts(struct batcher *batcher) {
    pthread_mutex_lock(&batcher->lock);
    const struct batcher_counts counts = batcher->counts;
    pthread_mutex_unlock(&batcher->lock);
    return counts;
}
