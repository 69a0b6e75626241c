/* SPDX-License-Identifier: Apache-2.0
 * A server of models over HTTP. */
#ifndef WISP_SERVE_SERVER_H
#define WISP_SERVE_SERVER_H

#include "base/status.h"
#include "serve/models.h"
#include "serve/visitors.h"

struct server;

struct server_options {
    wisp_model *model;
    wisp_session *session;           /* used by the server only, until it stops */
    const char *name;                /* of the model in requests and replies */
    const struct model_name *others; /* [n_others]: models that are opened by `open` (models.h) */
    size_t n_others;
    unsigned long long models_memory; /* that open models may take; 0: no limit */
    unsigned long models_wait;        /* seconds that a request waits for models to close */
    wisp_status (*open)(void *context, const char *path, wisp_model **model, wisp_session **session,
                        wisp_error *error);
    void *context;
    const char *address;
    unsigned port;              /* 0: any that is free */
    const char *chat_format;    /* as in wisp_conversation */
    const char *api_key;        /* NULL: that of $WISP_API_KEY, if it has one */
    const char *upstream;       /* the address of another server; NULL: none (upstream.h) */
    const char *upstream_key;   /* NULL: that of $WISP_UPSTREAM_KEY, if it has one */
    struct visitors visitors;   /* the server finds out whether it is a loopback one */
    unsigned threads;           /* that embed, and of a text that is written */
    wisp_cache_type cache_type; /* of texts that are written */
    float sparsity;             /* as of `session`; 0: the model's */
    const char *attention;      /* as in wisp_session_options */
    uint64_t kv_memory;         /* of each session that writes; 0: no limit */
    const char *prompt_cache;   /* of sessions that write: see wisp_session_use_prompt_cache */
    uint64_t prompt_cache_bytes;
    const char *vector_cache; /* a folder; NULL: embeddings are not kept */
    uint64_t vector_cache_bytes;
    unsigned long parallel; /* texts that are written at a time */
    unsigned long connections, most_waiting, batch_tokens, most_texts;
    unsigned long long most_bytes;
    bool log; /* a line of JSON for each request, to standard error */
};

/* Returns the options that the help of `wisp serve` names as defaults. */
struct server_options server_defaults(void);

wisp_status server_start(const struct server_options *options, struct server **server,
                         wisp_error *error);

unsigned server_port(const struct server *server);

/* Waits until all requests have their replies, and frees the server. NULL is allowed. */
void server_stop(struct server *server);

#endif
