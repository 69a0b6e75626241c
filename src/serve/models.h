/* SPDX-License-Identifier: Apache-2.0
 * The models of `wisp serve`. The first is open as long as the server runs. The others open when a
 * request names them, and close when others need their memory, those used longest ago first. */
#ifndef WISP_SERVE_MODELS_H
#define WISP_SERVE_MODELS_H

#include "serve/batcher.h"
#include "serve/writers.h"

enum { MOST_MODELS = 64 };

struct model_name {
    const char *name, *path;
};

struct served_model {
    struct model_name of; /* the first has no path */
    /* The fields below are valid while the model is open, as it is for whoever has taken it. */
    wisp_model *model;
    wisp_session *session;
    wisp_model_info info;
    struct batcher *batcher;    /* NULL: the model neither makes embeddings nor scores texts */
    bool ranks;                 /* the model scores texts, and makes no embeddings */
    wisp_vector_cache *vectors; /* of embeddings; NULL: none is kept */
    struct writers *writers;    /* NULL: the model writes no text */
    const char *chat_format;    /* of a model that writes, without a template; NULL: its own */
    /* The rest is for models.c. */
    uint64_t bytes; /* in memory, when it was open last; 0: it never was */
    uint64_t used;  /* a number that grows with each use */
    size_t users;
    size_t askers; /* requests for which it has to close: until then nobody else gets it */
};

struct models_options {
    wisp_model *model; /* the first, which is the caller's, as its session is */
    wisp_session *session;
    const char *name;
    const char *chat_format;         /* of models without a template; NULL: none */
    const struct model_name *others; /* [n_others] */
    size_t n_others;
    uint64_t memory;       /* that open models may take together; 0: no limit */
    unsigned wait_seconds; /* that a request waits at most for models that have to close */
    /* Opens another model, while no other call of it runs. */
    wisp_status (*open)(void *context, const char *path, wisp_model **model, wisp_session **session,
                        wisp_error *error);
    void *context;
    const char *vector_cache; /* a folder; NULL: none */
    uint64_t vector_cache_bytes;
    struct batcher_options batching; /* of each model: model and session are filled in, and of
                                        `lanes` 1 where threads cannot compute apart; batch_tokens
                                        0: as many as suit the model */
    struct writers_options writing;  /* likewise */
};

struct models;

wisp_status models_open(const struct models_options *options, struct models **models,
                        wisp_error *error);

/* Closes all but what was given open. No model may be taken. NULL is allowed. */
void models_close(struct models *models);

/* Returns the model with an index, or NULL. What changes of it is for those who have taken it. */
struct served_model *models_at(struct models *models, size_t index);

bool models_is_open(struct models *models, const struct served_model *served);

/* Returns the model of a name, or NULL. No name is that of the first, as any is if there is no
 * other. */
struct served_model *models_find(struct models *models, const char *name);

/* Opens a model if it is not open, and keeps it open until models_give. Waits while others use what
 * has to close for it; meanwhile other models may be opened. Fails with WISP_ERROR_MEMORY if they
 * use it for too long, and then says in *retry_seconds, which is 0 otherwise, when it is worth to
 * ask again; if the limit leaves no room for it; and as `open` does. */
wisp_status models_take(struct models *models, struct served_model *served, unsigned *retry_seconds,
                        wisp_error *error);

void models_give(struct models *models, struct served_model *served);

struct models_counts {
    size_t open;    /* models */
    uint64_t bytes; /* that these take */
    size_t waiting; /* requests, for models that have to close */
    struct batcher_counts embedding;
    wisp_vector_cache_stats vectors;
    struct writers_counts writing;
};

/* Returns the sums over all models: of what grows, also those of models that were closed. */
struct models_counts models_get_counts(struct models *models);

#endif
