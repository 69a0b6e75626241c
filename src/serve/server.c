/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/server.h"

#include <stdlib.h>

#include "serve/api.h"

struct server {
    struct api api;
    struct web_server *web;
};

struct server_options server_defaults(void) {
    return (struct server_options){.address = "127.0.0.1",
                                   .port = 8080,
                                   .models_wait = 30,
                                   .connections = 256,
                                   .parallel = 4,
                                   .most_waiting = 8192,
                                   .most_texts = 2048,
                                   .most_bytes = 32000000};
}

/* Returns a key, or that of a variable of the environment, or NULL. */
static const char *key_of(const char *given, const char *variable) {
    const char *key = given ? given : getenv(variable);
    return key && *key ? key : NULL;
}

wisp_status server_start(const struct server_options *options, struct server **server,
                         wisp_error *error) {
    *server = NULL;
    struct server *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    struct api *api = &made->api;
    *api = (struct api){.api_key = key_of(options->api_key, "WISP_API_KEY"),
                        .visitors = options->visitors,
                        .most_texts = options->most_texts,
                        .log = options->log};
    api->visitors.loopback = is_loopback_host(options->address, strlen(options->address));
    metrics_begin(&api->metrics);
    const struct models_options models = {
        .model = options->model,
        .session = options->session,
        .name = options->name,
        .chat_format = options->chat_format,
        .others = options->others,
        .n_others = options->n_others,
        .memory = options->models_memory,
        .wait_seconds = (unsigned)options->models_wait,
        .open = options->open,
        .context = options->context,
        .vector_cache = options->vector_cache,
        .vector_cache_bytes = options->vector_cache_bytes,
        .batching = {.lanes = options->threads,
                     .sparsity = options->sparsity,
                     .most_waiting = options->most_waiting,
                     .batch_tokens = options->batch_tokens},
        .writing = {.session = {.threads = options->threads,
                                .cache_type = options->cache_type,
                                .attention = options->attention},
                    .kv_memory = options->kv_memory,
                    .prompt_cache = options->prompt_cache,
                    .prompt_cache_bytes = options->prompt_cache_bytes,
                    .sparsity = options->sparsity,
                    .sessions = options->parallel,
                    .most_waiting = options->connections}};
    wisp_status status = models_open(&models, &api->models, error);
    const struct web_options web = {.address = options->address,
                                    .port = options->port,
                                    .connections = (unsigned)options->connections,
                                    .most_bytes = (size_t)options->most_bytes,
                                    .admit = api_admit,
                                    .handle = api_handle,
                                    .context = api};
    if (status == WISP_OK && options->upstream)
        status =
            upstream_open(options->upstream, key_of(options->upstream_key, "WISP_UPSTREAM_KEY"),
                          !api->api_key, &api->upstream, error);
    if (status == WISP_OK)
        status = web_start(&web, &made->web, error);
    if (status != WISP_OK)
        server_stop(made);
    else
        *server = made;
    return status;
}

unsigned server_port(const struct server *server) {
    return web_port(server->web);
}

void server_stop(struct server *server) {
    if (!server)
        return;
    web_stop(server->web);
    models_close(server->api.models);
    upstream_close(server->api.upstream);
    free(server);
}
