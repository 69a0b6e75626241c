/* SPDX-License-Identifier: Apache-2.0
 * HTTP as the routes see it: requests with a body in memory, replies as a whole or as a stream. */
#ifndef WISP_SERVE_WEB_H
#define WISP_SERVE_WEB_H

#include "base/status.h"

struct web_server;
struct mg_connection;

struct web_request {
    const char *method;
    const char *path;   /* without the query */
    char *body;         /* terminated; "" if there is none */
    size_t length;      /* of the body */
    const char *origin; /* of the page that may read the reply; NULL: there is none */
    struct mg_connection *connection;
    int status; /* that was replied; 0 before */
    bool last;  /* the client is asked to close its connection after the reply */
};

struct web_options {
    const char *address;  /* to listen on: "127.0.0.1" */
    unsigned port;        /* 0: any that is free */
    unsigned connections; /* that are served at a time */
    size_t most_bytes;    /* of a body; larger ones get 413 */
    /* Returns whether to read the body and to handle the request; if not, it has replied. */
    bool (*admit)(void *context, struct web_request *request);
    void (*handle)(void *context, struct web_request *request);
    void *context; /* passed to both, which many threads call at a time */
};

/* Starts to serve. Fails with WISP_ERROR_IO if the address cannot be listened on. */
wisp_status web_start(const struct web_options *options, struct web_server **server,
                      wisp_error *error);

/* Returns the port that is served. */
unsigned web_port(const struct web_server *server);

/* Accepts no more connections, waits until all requests have their replies, and frees the server.
 * NULL is allowed. */
void web_stop(struct web_server *server);

/* Returns the value of a header, or NULL. */
const char *web_header(const struct web_request *request, const char *name);

/* Replies with a body. `more` has further header lines, each with its CR LF, or is NULL. */
void web_reply(struct web_request *request, int status, const char *type, const char *body,
               size_t length, const char *more);

/* Begins a reply of unknown length, sends a part of it, and ends it. A part that cannot be sent,
 * because the client has gone, returns false. */
void web_begin_stream(struct web_request *request, const char *type);
bool web_send(struct web_request *request, const char *bytes, size_t length);
void web_end_stream(struct web_request *request);

#endif
