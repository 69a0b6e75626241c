/* SPDX-License-Identifier: Apache-2.0
 * The routes of `wisp serve`, and who may use them. */
#ifndef WISP_SERVE_API_H
#define WISP_SERVE_API_H

#include "serve/call.h"

/* A route answers with reply_json, reply_problem or a stream. */
struct route {
    const char *method, *path;
    void (*run)(struct call *call);
};

/* The last has no path. */
extern const struct route embed_routes[], rerank_routes[], chat_routes[], responses_routes[],
    messages_routes[], info_routes[];

/* Returns whether a request is handled: by its host and its origin. If not, it has its reply, as a
 * browser's question before a page's request has. */
bool api_admit(void *context, struct web_request *request);

/* Handles a request: finds its route, checks key and JSON, and counts it. */
void api_handle(void *context, struct web_request *request);

#endif
