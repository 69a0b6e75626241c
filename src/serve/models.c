/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/models.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"

/* Tokens that are embedded together unless the options say: as many as one thread computes at once,
 * so that a text waits for no more, or as keep a device busy. */
enum { LANE_TOKENS = 256, BATCH_TOKENS = 8192 };

struct models {
    struct models_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a model was opened, closed or given back */
    bool opening;           /* a thread opens a model */
    size_t waiting;         /* requests, for models that have to close */
    uint64_t uses;
    struct models_counts closed; /* what models that were closed leave */
    size_t n;
    struct served_model all[MOST_MODELS];
};

/* ---- opening and closing -------------------------------------------------------------------- */

/* Makes an open model ready for requests. */
static wisp_status begin(const struct models *models, struct served_model *served,
                         wisp_error *error) {
    wisp_model_get_info(served->model, &served->info);
    served->bytes = served->info.resident_bytes;
    const bool generates = !*served->info.pooling;
    served->ranks = wisp_model_ranks(served->model);
    if (!generates || served->ranks) {
        const struct models_options *options = &models->options;
        if (options->vector_cache && !served->ranks)
            TRY(wisp_vector_cache_open(served->session, options->vector_cache,
                                       options->vector_cache_bytes, &served->vectors, error));
        struct batcher_options batching = options->batching;
        batching.model = served->model;
        batching.session = served->session;
        const bool by_lanes = !generates && strcmp(served->info.device, "cpu") == 0;
        batching.lanes = by_lanes ? batching.lanes : 1;
        if (batching.batch_tokens == 0)
            batching.batch_tokens = by_lanes ? LANE_TOKENS : BATCH_TOKENS;
        TRY(batcher_open(&batching, &served->batcher, error));
    }
    if (!generates)
        return WISP_OK;
    struct writers_options writing = models->options.writing;
    wisp_text template;
    if (wisp_model_chat_template(served->model, &template, NULL) == WISP_ERROR_NOT_FOUND)
        served->chat_format = models->options.chat_format;
    writing.model = served->model;
    return writers_open(&writing, &served->writers, error);
}

/* Adds what is counted of a model that is open. */
static void count(const struct served_model *served, struct models_counts *sums) {
    wisp_vector_cache_stats vectors;
    if (served->batcher) {
        const struct batcher_counts counts = batcher_get_counts(served->batcher);
        sums->embedding.waiting += counts.waiting;
        sums->embedding.batches += counts.batches;
        sums->embedding.texts += counts.texts;
    }
    if (served->vectors) {
        wisp_vector_cache_get_stats(served->vectors, &vectors);
        sums->vectors.found += vectors.found;
        sums->vectors.computed += vectors.computed;
        sums->vectors.lost += vectors.lost;
    }
    if (served->writers) {
        const struct writers_counts counts = writers_get_counts(served->writers);
        sums->writing.writing += counts.writing;
        sums->writing.waiting += counts.waiting;
    }
}

static void end(struct models *models, struct served_model *served) {
    count(served, &models->closed);
    batcher_close(served->batcher);
    writers_close(served->writers);
    wisp_vector_cache_close(served->vectors);
    served->batcher = NULL;
    served->writers = NULL;
    served->vectors = NULL;
    if (served->of.path) {
        wisp_session_close(served->session);
        wisp_model_close(served->model);
        served->session = NULL;
        served->model = NULL;
    }
}

/* Returns what a model takes, as far as that is known before it is open: the first time the size of
 * its file, but no more than it could have. Without a limit the result is not used. */
static uint64_t expected_bytes(const struct models *models, const struct served_model *served) {
    struct stat info;
    const uint64_t room = models->options.memory - models->all[0].bytes;
    if (served->bytes > 0 || stat(served->of.path, &info) != 0 || !S_ISREG(info.st_mode))
        return served->bytes;
    return (uint64_t)info.st_size < room ? (uint64_t)info.st_size : room;
}

static uint64_t bytes_of_others(const struct models *models, const struct served_model *own) {
    uint64_t sum = 0;
    for (size_t i = 0; i < models->n; i++)
        if (models->all[i].model && &models->all[i] != own)
            sum += models->all[i].bytes;
    return sum;
}

/* Returns the bytes of models that may close at once. */
static uint64_t bytes_of_idle(const struct models *models, const struct served_model *own) {
    uint64_t sum = 0;
    for (size_t i = 1; i < models->n; i++)
        if (models->all[i].model && &models->all[i] != own && models->all[i].users == 0)
            sum += models->all[i].bytes;
    return sum;
}

/* Returns the model that closes first for another, of those that were used longest ago: one that
 * was asked to, when nobody uses it; one that nobody uses, if that is enough; else one that is
 * used, so that none closes in vain. */
static struct served_model *find_victim(struct models *models, const struct served_model *own,
                                        bool enough) {
    struct served_model *found = NULL;
    int best = 0;
    for (size_t i = 1; i < models->n; i++) {
        struct served_model *other = &models->all[i];
        if (!other->model || other == own)
            continue;
        const bool idle = other->users == 0;
        const int rank = idle && other->askers > 0 ? 0 : idle == enough ? 1 : 2;
        if (!found || (rank != best ? rank < best : other->used < found->used)) {
            found = other;
            best = rank;
        }
    }
    return found;
}

/* Closes models until `bytes` of a model have room, or until the next is in use: *busy. */
static wisp_status make_room(struct models *models, const struct served_model *served,
                             uint64_t bytes, struct served_model **busy, wisp_error *error) {
    *busy = NULL;
    const uint64_t most = models->options.memory, first = models->all[0].bytes;
    if (most == 0)
        return WISP_OK;
    if (bytes > most - first)
        return fail(error, WISP_ERROR_MEMORY, NULL, NULL,
                    "it takes %llu bytes, and all models may take %llu, of which the first has "
                    "%llu",
                    (unsigned long long)bytes, (unsigned long long)most, (unsigned long long)first);
    uint64_t others;
    while ((others = bytes_of_others(models, served)) > most - bytes) {
        const bool enough = bytes_of_idle(models, served) >= others - (most - bytes);
        struct served_model *victim = find_victim(models, served, enough);
        if (victim->users > 0) {
            *busy = victim;
            break;
        }
        end(models, victim);
        pthread_cond_broadcast(&models->changed);
    }
    return WISP_OK;
}

/* Opens a model that seems to have room. If it takes more than was expected, and what would have to
 * close is in use, it stays closed, and is expected to take this much. The lock is held, but not
 * while the model is read. */
static wisp_status open_model(struct models *models, struct served_model *served,
                              wisp_error *error) {
    struct served_model opened = {.of = served->of}, *busy = NULL;
    models->opening = true;
    pthread_mutex_unlock(&models->lock);
    wisp_status status = models->options.open(models->options.context, served->of.path,
                                              &opened.model, &opened.session, error);
    if (status == WISP_OK)
        status = begin(models, &opened, error);
    pthread_mutex_lock(&models->lock);
    served->bytes = opened.bytes;
    if (status == WISP_OK)
        status = make_room(models, served, opened.bytes, &busy, error);
    if (status != WISP_OK || busy)
        end(models, &opened);
    else {
        served->model = opened.model;
        served->session = opened.session;
        served->info = opened.info;
        served->batcher = opened.batcher;
        served->ranks = opened.ranks;
        served->vectors = opened.vectors;
        served->writers = opened.writers;
        served->chat_format = opened.chat_format;
    }
    models->opening = false;
    pthread_cond_broadcast(&models->changed);
    return status;
}

/* ---- the list ------------------------------------------------------------------------------- */

wisp_status models_open(const struct models_options *options, struct models **models,
                        wisp_error *error) {
    *models = NULL;
    struct models *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    made->options = *options;
    made->n = 1 + options->n_others;
    made->all[0] = (struct served_model){
        .of.name = options->name, .model = options->model, .session = options->session};
    for (size_t i = 0; i < options->n_others; i++)
        made->all[1 + i].of = options->others[i];
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    wisp_status status = begin(made, &made->all[0], error);
    if (status == WISP_OK && options->memory > 0 && made->all[0].bytes > options->memory)
        status = fail(error, WISP_ERROR_ARGUMENT, NULL, "models-memory",
                      "the first model takes %llu bytes, more than the %llu of all",
                      (unsigned long long)made->all[0].bytes, (unsigned long long)options->memory);
    if (status != WISP_OK)
        models_close(made);
    else
        *models = made;
    return status;
}

void models_close(struct models *models) {
    if (!models)
        return;
    for (size_t i = 0; i < models->n; i++)
        end(models, &models->all[i]);
    pthread_cond_destroy(&models->changed);
    pthread_mutex_destroy(&models->lock);
    free(models);
}

struct served_model *models_at(struct models *models, size_t index) {
    return index < models->n ? &models->all[index] : NULL;
}

bool models_is_open(struct models *models, const struct served_model *served) {
    pthread_mutex_lock(&models->lock);
    const bool is_open = served->model != NULL;
    pthread_mutex_unlock(&models->lock);
    return is_open;
}

struct served_model *models_find(struct models *models, const char *name) {
    if (!name || models->n == 1)
        return &models->all[0];
    for (size_t i = 0; i < models->n; i++)
        if (strcmp(models->all[i].of.name, name) == 0)
            return &models->all[i];
    return NULL;
}

static void note_use(struct models *models, struct served_model *served) {
    served->users++;
    served->used = ++models->uses;
}

/* Asks a model to close, instead of the one that was asked before. NULL: none. */
static void ask(struct models *models, struct served_model **asked, struct served_model *victim) {
    if (*asked == victim)
        return;
    if (*asked && --(*asked)->askers == 0)
        pthread_cond_broadcast(&models->changed);
    if (victim)
        victim->askers++;
    *asked = victim;
}

/* Waits for a change of the models because one is in use that has to close. *until is when that
 * ends; 0: it begins now. Fails if the time has come. */
static wisp_status wait_for(struct models *models, const struct served_model *used, double *until,
                            unsigned *retry_seconds, wisp_error *error) {
    const unsigned seconds = models->options.wait_seconds;
    const double now = clock_seconds();
    if (*until == 0)
        *until = now + seconds;
    if (now >= *until) {
        *retry_seconds = seconds ? seconds : 1;
        return fail(error, WISP_ERROR_MEMORY, NULL, NULL,
                    "the model %s has to close for another, and its requests did not end within %u "
                    "s",
                    used->of.name, seconds);
    }
    const struct timespec at = {.tv_sec = (time_t)*until, .tv_nsec = (long)(fmod(*until, 1) * 1e9)};
    models->waiting++;
    pthread_cond_timedwait(&models->changed, &models->lock, &at);
    models->waiting--;
    return WISP_OK;
}

wisp_status models_take(struct models *models, struct served_model *served, unsigned *retry_seconds,
                        wisp_error *error) {
    struct served_model *asked = NULL;
    double until = 0;
    wisp_status status = WISP_OK;
    *retry_seconds = 0;
    pthread_mutex_lock(&models->lock);
    while (status == WISP_OK && !(served->model && served->askers == 0)) {
        struct served_model *used = NULL;
        if (served->model)
            used = served; /* it closes for another */
        else if (!models->opening)
            status = make_room(models, served, expected_bytes(models, served), &used, error);
        ask(models, &asked, used == served ? NULL : used);
        if (status != WISP_OK)
            break;
        if (used)
            status = wait_for(models, used, &until, retry_seconds, error);
        else if (models->opening)
            pthread_cond_wait(&models->changed, &models->lock);
        else if ((status = open_model(models, served, error)) == WISP_OK && served->model)
            break; /* even if others ask it to close already */
    }
    ask(models, &asked, NULL);
    if (status == WISP_OK)
        note_use(models, served);
    pthread_mutex_unlock(&models->lock);
    return status;
}

void models_give(struct models *models, struct served_model *served) {
    pthread_mutex_lock(&models->lock);
    if (--served->users == 0)
        pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
}

struct models_counts models_get_counts(struct models *models) {
    pthread_mutex_lock(&models->lock);
    struct models_counts sums = models->closed;
    sums.waiting = models->waiting;
    for (size_t i = 0; i < models->n; i++) {
        const struct served_model *served = &models->all[i];
        sums.open += served->model != NULL;
        sums.bytes += served->model ? served->bytes : 0;
        count(served, &sums);
    }
    pthread_mutex_unlock(&models->lock);
    return sums;
}
