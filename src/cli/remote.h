/* SPDX-License-Identifier: Apache-2.0
 * Models by URL: the whole file is fetched into the cache and opened there, or its cold neurons and
 * tokens come by ranges when texts need them. */
#ifndef WISP_CLI_REMOTE_H
#define WISP_CLI_REMOTE_H

#include "cli/cli.h"
#include "http/fetch.h"

/* Ranges that are waited for. */
struct remote_needs {
    wisp_range *ranges; /* [capacity], n of them in use */
    size_t n, capacity;
};

/* A model whose cold rows come from a server. Zeros mean that there is none. */
struct remote_model {
    bool active;    /* its rows come by remote_embed */
    bool offline;   /* nothing is fetched */
    char *url;      /* NULL: nothing is open */
    char name[256]; /* of the model in errors: the URL without its query */
    struct cached_file cached;
    struct server_file server;
    unsigned char *buffer; /* [capacity]: a range, while the model takes it */
    size_t capacity;
    struct remote_needs needs;
};

/* Opens the model at a URL. With arguments->hot_only and a `remote`, which the caller closes after
 * the model, it opens the model from its hot bytes and makes `remote` active, unless the whole file
 * is in the cache or the server sends no ranges. With arguments->offline it uses only the cache.
 * Fails as wisp_model_open and server_file_ask do, and with WISP_ERROR_NOT_FOUND if the cache
 * lacks what it needs. */
wisp_status remote_open(const char *url, const struct model_arguments *arguments,
                        const wisp_model_options *options, wisp_model **model, wisp_error *error);

/* Does what wisp_embed does, and fetches the rows that are absent: when the call first waits, those
 * of the tokens of all its texts. */
wisp_status remote_embed(struct remote_model *remote, wisp_session *session, const wisp_text *texts,
                         size_t n, const wisp_embed_options *options, float *rows,
                         wisp_error *error);

/* Releases what remote_open made, if it was called. The model must have been closed. */
void remote_close(struct remote_model *remote);

#endif
