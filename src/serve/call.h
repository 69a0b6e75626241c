/* SPDX-License-Identifier: Apache-2.0
 * A request of `wisp serve` under way: the state that all routes share, and replies in JSON. */
#ifndef WISP_SERVE_CALL_H
#define WISP_SERVE_CALL_H

#include <stdatomic.h>

#include "base/json.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/text_buffer.h"
#include "serve/upstream.h"
#include "serve/visitors.h"
#include "serve/web.h"

struct api {
    struct models *models;
    atomic_uint_least64_t calls; /* that have an id */
    const char *api_key;         /* NULL: none is asked for */
    struct visitors visitors;
    size_t most_texts;         /* of a request */
    struct upstream *upstream; /* gets what this server cannot do; NULL: nobody */
    bool log;                  /* a line of JSON for each request, to standard error */
    struct metrics metrics;
};

/* A request under way: its JSON, and memory that lives until it is over. */
struct call {
    struct api *api;
    struct web_request *request;
    struct arena arena;
    const struct json *body;     /* an object */
    struct served_model *served; /* that the request names, while it has a body */
    unsigned retry_seconds;      /* after which a client may ask again; 0: replies do not say */
};

/* Replies with `text`, and frees it. If memory ran out, replies 500. */
void reply_json(struct call *call, struct text_buffer *text);

/* Replies with an error in OpenAI's form. `type` is "invalid_request_error", ... `field` names the
 * part of the request, or is NULL. */
__attribute__((format(printf, 5, 6))) void reply_problem(struct call *call, int status,
                                                         const char *type, const char *field,
                                                         const char *format, ...);

/* Replies 400 with "FIELD: PROBLEM". Returns false, for functions that do so after a reply. */
bool reply_invalid(struct call *call, const char *field, const char *problem);

/* Reads a flag of an object, and leaves *value if it is absent. Returns false after a reply. */
bool take_flag(struct call *call, const struct json *object, const char *field, bool *value);

/* Returns the message of an error without the path of the model's file, which is nobody's else. */
const char *public_message(const wisp_error *error);

/* Replies with an error of the library. */
void reply_error(struct call *call, const wisp_error *error);

/* Writes an id that no other call has: the prefix and hexadecimal digits. */
void call_new_id(struct call *call, const char *prefix, char *id, size_t size);

#endif
