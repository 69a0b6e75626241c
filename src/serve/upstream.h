/* SPDX-License-Identifier: Apache-2.0
 * Another server, to which a server sends what its own models cannot do. */
#ifndef WISP_SERVE_UPSTREAM_H
#define WISP_SERVE_UPSTREAM_H

#include "serve/web.h"

struct upstream;

/* Opens the way to a server at `url` (http:// or https://, without "/" at its end). `key` is the
 * one for it; NULL: requests have that of their clients, if `passes_keys`. Both strings stay the
 * caller's. Fails with WISP_ERROR_UNSUPPORTED without libcurl, on the thread that starts. */
wisp_status upstream_open(const char *url, const char *key, bool passes_keys,
                          struct upstream **upstream, wisp_error *error);

/* NULL is allowed. No request may be under way. */
void upstream_close(struct upstream *upstream);

/* Returns whether a request's path can be asked for: it must not lead out of the address. */
bool upstream_has_path(const char *path);

/* Sends a POST request and its reply, which is streamed if its type is text/event-stream. Many
 * threads may do so at a time. Fails, before a reply, with WISP_ERROR_IO if there is no answer, or
 * a redirect, which could lead to a server that nobody named. */
wisp_status upstream_forward(struct upstream *upstream, struct web_request *request,
                             wisp_error *error);

#endif
