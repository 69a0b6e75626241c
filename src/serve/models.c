/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/models.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

struct models {
    struct models_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a model was opened, closed or given back */
    bool opening;           /* a thread opens a model */
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
    const char *pooling = served->info.pooling;
    const bool generates = !*pooling;
    const bool judges = generates && strcmp(served->info.architecture, "qwen3") == 0;
    served->ranks = judges || strcmp(pooling, "rank") == 0 || strcmp(pooling, "tokens") == 0;
    if (!generates || judges) {
        const struct models_options *options = &models->options;
        if (options->vector_cache && !served->ranks)
            TRY(wisp_vector_cache_open(served->session, options->vector_cache,
                                       options->vector_cache_bytes, &served->vectors, error));
        struct batcher_options batching = options->batching;
        batching.model = served->model;
        batching.session = served->session;
        TRY(batcher_open(&batching, &served->batcher, error));
    }
    if (!generates)
        return WISP_OK;
    struct writers_options writing = models->options.writing;
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

/* Returns the model that closes first for another: nobody uses it, or else it was used longest
 * ago. */
static struct served_model *find_victim(struct models *models, const struct served_model *own) {
    struct served_model *found = NULL;
    for (size_t i = 1; i < models->n; i++) {
        struct served_model *other = &models->all[i];
        if (!other->model || other == own)
            continue;
        const bool busy = other->users > 0, found_busy = found && found->users > 0;
        if (!found || (busy != found_busy ? found_busy : other->used < found->used))
            found = other;
    }
    return found;
}

/* Closes models until `bytes` of a model have room. The lock is held, but not while it waits. */
static wisp_status make_room(struct models *models, const struct served_model *served,
                             uint64_t bytes, wisp_error *error) {
    const uint64_t most = models->options.memory, first = models->all[0].bytes;
    if (most == 0)
        return WISP_OK;
    if (bytes > most - first)
        return fail(error, WISP_ERROR_MEMORY, NULL, NULL,
                    "it takes %llu bytes, and all models may take %llu, of which the first has "
                    "%llu",
                    (unsigned long long)bytes, (unsigned long long)most, (unsigned long long)first);
    while (bytes_of_others(models, served) > most - bytes) {
        struct served_model *victim = find_victim(models, served);
        victim->leaving = true;
        while (victim->users > 0)
            pthread_cond_wait(&models->changed, &models->lock);
        end(models, victim);
        victim->leaving = false;
        pthread_cond_broadcast(&models->changed);
    }
    return WISP_OK;
}

/* Opens a model. The lock is held, but not while the model is read. */
static wisp_status open_model(struct models *models, struct served_model *served,
                              wisp_error *error) {
    TRY(make_room(models, served, expected_bytes(models, served), error));
    struct served_model opened = {.of = served->of};
    pthread_mutex_unlock(&models->lock);
    wisp_status status = models->options.open(models->options.context, served->of.path,
                                              &opened.model, &opened.session, error);
    if (status == WISP_OK)
        status = begin(models, &opened, error);
    pthread_mutex_lock(&models->lock);
    served->bytes = opened.bytes;
    if (status == WISP_OK)
        status = make_room(models, served, opened.bytes, error);
    if (status != WISP_OK)
        end(models, &opened);
    else {
        served->model = opened.model;
        served->session = opened.session;
        served->info = opened.info;
        served->batcher = opened.batcher;
        served->ranks = opened.ranks;
        served->vectors = opened.vectors;
        served->writers = opened.writers;
    }
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
    made->all[0] = (struct served_model){.of.name = options->name,
                                         .chat_format = options->chat_format,
                                         .model = options->model,
                                         .session = options->session};
    for (size_t i = 0; i < options->n_others; i++)
        made->all[1 + i].of = options->others[i];
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->changed, NULL);
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

wisp_status models_take(struct models *models, struct served_model *served, wisp_error *error) {
    wisp_status status = WISP_OK;
    pthread_mutex_lock(&models->lock);
    while (served->leaving || (!served->model && models->opening))
        pthread_cond_wait(&models->changed, &models->lock);
    if (!served->model) {
        models->opening = true;
        status = open_model(models, served, error);
        models->opening = false;
        pthread_cond_broadcast(&models->changed);
    }
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
    for (size_t i = 0; i < models->n; i++) {
        const struct served_model *served = &models->all[i];
        sums.open += served->model != NULL;
        sums.bytes += served->model ? served->bytes : 0;
        count(served, &sums);
    }
    pthread_mutex_unlock(&models->lock);
    return sums;
}
