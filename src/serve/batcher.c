/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/batcher.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/checked.h"

enum { MOST_TEXTS = 1024 }; /* of a batch */

/* A lane that takes fewer tokens, although others have nothing to do, reads the weights too often.
 */
enum { LANE_MIN_TOKENS = 64 };

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

/* A thread that embeds one batch after the other. */
struct lane {
    struct batcher *batcher;
    wisp_session *session;
    pthread_t thread;
    pthread_cond_t woken; /* its one waiter is the thread (host/pool_threads.c says why) */
    bool idle;            /* waits, and nobody has woken it since */
    wisp_text texts[MOST_TEXTS];
    struct place places[MOST_TEXTS];
    float *rows; /* [MOST_TEXTS, width] */
};

struct batcher {
    struct batcher_options options;
    size_t width, most_tokens; /* of the model */
    pthread_mutex_t lock;
    struct waiting *first; /* the queue */
    size_t computing;      /* lanes */
    bool alone;            /* one of them computes by the options' session, with all its threads */
    bool closing;
    struct batcher_counts counts;
    size_t n_lanes; /* with a thread */
    struct lane *lanes;
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
    const size_t tokens = (text.length + (job->query ? job->query->length : 0) + 3) / 4 + 2;
    return smaller(tokens, batcher->most_tokens);
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

static bool has_work(const struct batcher *batcher) {
    for (const struct waiting *w = batcher->first; w; w = w->next)
        if (w->taken < w->job->n)
            return true;
    return false;
}

/* Returns the tokens of a batch: a lane's share of what waits, so that none is without. */
static size_t share(const struct batcher *batcher) {
    const size_t most = batcher->options.batch_tokens, lanes = batcher->n_lanes;
    size_t tokens = 0;
    if (lanes == 1)
        return most;
    for (const struct waiting *w = batcher->first; w; w = w->next)
        for (size_t i = w->taken; i < w->job->n && tokens < lanes * most; i++)
            tokens += weight(batcher, w->job, w->job->texts[i]);
    return smaller(larger(tokens / lanes + 1, LANE_MIN_TOKENS), most);
}

/* Takes a text of each job in turn, among those that are like the first, until
 * the batch has its tokens or no text is left. Returns the number of texts. */
static size_t gather(struct lane *lane) {
    struct batcher *batcher = lane->batcher;
    const size_t most = share(batcher);
    rotate(batcher);
    const struct batch_job *like = NULL;
    size_t n = 0, tokens = 0, taken;
    do {
        taken = 0;
        for (struct waiting *w = batcher->first; w && n < MOST_TEXTS; w = w->next) {
            const struct batch_job *job = w->job;
            if (w->taken == job->n || (like && !is_like(job, like)))
                continue;
            const wisp_text text = job->texts[w->taken];
            const size_t more = weight(batcher, job, text);
            if (n > 0 && tokens + more > most)
                continue;
            like = job;
            lane->texts[n] = text;
            lane->places[n] = (struct place){w, w->taken++};
            tokens += more;
            n++, taken++;
        }
    } while (taken > 0 && n < MOST_TEXTS);
    return n;
}

/* Writes the rows of a batch where they belong. Takes the jobs from the queue of which this was the
 * last row, or which failed and of which no text is under way, and returns them, linked. */
static struct waiting *hand_out(struct lane *lane, size_t n, wisp_status status,
                                const wisp_error *error) {
    struct batcher *batcher = lane->batcher;
    struct waiting *ended = NULL;
    for (size_t i = 0; i < n; i++) {
        struct waiting *owner = lane->places[i].owner;
        const struct batch_job *job = owner->job;
        const size_t width = job->query ? 1 : job->dimensions ? job->dimensions : batcher->width;
        if (status == WISP_OK)
            memcpy(job->rows + lane->places[i].index * width, lane->rows + i * width,
                   width * sizeof(float));
        else if (owner->status == WISP_OK) {
            owner->status = status;
            owner->error = *error;
        }
        owner->done++;
        if (owner->status != WISP_OK) { /* its other texts are not worth computing */
            batcher->counts.waiting -= job->n - owner->taken;
            owner->done += job->n - owner->taken;
            owner->taken = job->n;
        }
    }
    for (struct waiting **at = &batcher->first; *at;) {
        struct waiting *job = *at;
        if (job->done == job->job->n) {
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

/* Wakes a lane if texts wait and one is idle, unless all threads compute a batch. */
static void wake_lane(struct batcher *batcher) {
    for (size_t i = 0; i < batcher->n_lanes && !batcher->alone && has_work(batcher); i++)
        if (batcher->lanes[i].idle) {
            batcher->lanes[i].idle = false;
            pthread_cond_signal(&batcher->lanes[i].woken);
            return;
        }
}

static void wake_all(struct batcher *batcher) {
    for (size_t i = 0; i < batcher->n_lanes; i++)
        pthread_cond_signal(&batcher->lanes[i].woken);
}

static wisp_status compute(struct lane *lane, wisp_session *session, size_t n, wisp_error *error) {
    const struct batch_job *like = lane->places[0].owner->job;
    const wisp_embed_options options = {.prompt = like->prompt, .dimensions = like->dimensions};
    return like->query ? wisp_rerank(session, *like->query, lane->texts, n, lane->rows, error)
                       : wisp_embed(session, lane->texts, n, &options, lane->rows, error);
}

/* Computes a batch. The lock is held, but not while the batch is computed. If nothing else is to be
 * done, all threads compute it. */
static void run_batch(struct lane *lane) {
    struct batcher *batcher = lane->batcher;
    const size_t n = gather(lane);
    const bool alone = batcher->computing == 0 && !has_work(batcher);
    batcher->alone = alone;
    batcher->computing++;
    batcher->counts.waiting -= n;
    batcher->counts.batches++;
    batcher->counts.texts += n;
    wake_lane(batcher);
    pthread_mutex_unlock(&batcher->lock);
    wisp_error error = {0};
    const wisp_status status =
        compute(lane, alone ? batcher->options.session : lane->session, n, &error);
    pthread_mutex_lock(&batcher->lock);
    batcher->computing--;
    if (alone)
        batcher->alone = false;
    struct waiting *ended = hand_out(lane, n, status, &error);
    wake_lane(batcher);
    pthread_mutex_unlock(&batcher->lock);
    wake(ended);
    pthread_mutex_lock(&batcher->lock);
}

static void *run(void *context) {
    struct lane *lane = context;
    struct batcher *batcher = lane->batcher;
    pthread_mutex_lock(&batcher->lock);
    while (!batcher->closing || has_work(batcher)) {
        if (has_work(batcher) && !batcher->alone) {
            run_batch(lane);
            continue;
        }
        lane->idle = true;
        pthread_cond_wait(&lane->woken, &batcher->lock);
        lane->idle = false;
    }
    wake_all(batcher); /* one that waited for a batch of all threads may have no other to wake it */
    pthread_mutex_unlock(&batcher->lock);
    return NULL;
}

/* Starts a lane. One alone computes by the options' session, which no other uses then. */
static wisp_status start_lane(struct batcher *batcher, struct lane *lane, wisp_error *error) {
    const struct batcher_options *options = &batcher->options;
    const size_t bytes = MOST_TEXTS * batcher->width * sizeof *lane->rows;
    wisp_status status = WISP_OK;
    lane->batcher = batcher;
    lane->session = options->session;
    lane->rows = malloc(bytes);
    pthread_cond_init(&lane->woken, NULL);
    if (!lane->rows)
        return fail_memory(error, bytes);
    if (options->lanes > 1)
        status = wisp_session_open(options->model, NULL, &lane->session, error);
    if (status == WISP_OK && options->lanes > 1 && options->sparsity > 0)
        status = wisp_session_set_sparsity(lane->session, options->sparsity, error);
    if (status == WISP_OK && pthread_create(&lane->thread, NULL, run, lane) != 0)
        status = fail(error, WISP_ERROR_MEMORY, NULL, NULL, "cannot start a thread");
    batcher->n_lanes += status == WISP_OK;
    return status;
}

static void end_lane(struct batcher *batcher, struct lane *lane) {
    if (!lane->batcher)
        return;
    if (lane->session != batcher->options.session)
        wisp_session_close(lane->session);
    pthread_cond_destroy(&lane->woken);
    free(lane->rows);
}

wisp_status batcher_open(const struct batcher_options *options, struct batcher **batcher,
                         wisp_error *error) {
    *batcher = NULL;
    struct batcher *made = calloc(1, sizeof *made);
    struct lane *lanes = calloc(options->lanes, sizeof *lanes);
    if (!made || !lanes) {
        free(made);
        free(lanes);
        return fail_memory(error, sizeof *made + options->lanes * sizeof *lanes);
    }
    wisp_model_info info;
    wisp_model_get_info(options->model, &info);
    made->options = *options;
    made->width = wisp_model_dimensions(options->model);
    made->most_tokens = info.max_tokens;
    made->lanes = lanes;
    pthread_mutex_init(&made->lock, NULL);
    wisp_status status = WISP_OK;
    pthread_mutex_lock(&made->lock); /* lanes that run see all */
    for (size_t i = 0; i < options->lanes && status == WISP_OK; i++)
        status = start_lane(made, &lanes[i], error);
    pthread_mutex_unlock(&made->lock);
    if (status == WISP_OK)
        *batcher = made;
    else
        batcher_close(made);
    return status;
}

void batcher_close(struct batcher *batcher) {
    if (!batcher)
        return;
    pthread_mutex_lock(&batcher->lock);
    batcher->closing = true;
    wake_all(batcher);
    pthread_mutex_unlock(&batcher->lock);
    for (size_t i = 0; i < batcher->n_lanes; i++)
        pthread_join(batcher->lanes[i].thread, NULL);
    for (size_t i = 0; i < batcher->options.lanes; i++)
        end_lane(batcher, &batcher->lanes[i]);
    pthread_mutex_destroy(&batcher->lock);
    free(batcher->lanes);
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
    wake_lane(batcher);
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
