/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/server.h"

#include <stdlib.h>

#include "serve/api.h"
#include "serve/writers.h"

struct server {
    struct api api;
    struct web_server *web;
};

struct server_options server_defaults(void) {
    return (struct server_options){.address = "127.0.0.1",
                                   .port = 8080,
                                   .connections = 64,
                                   .parallel = 4,
                                   .most_waiting = 8192,
                                   .batch_tokens = 8192,
                                   .most_texts = 2048,
                                   .most_bytes = 32000000};
}

static const char *key_of(const struct server_options *options) {
    const char *key = options->api_key ? options->api_key : getenv("WISP_API_KEY");
    return key && *key ? key : NULL;
}

wisp_status server_start(const struct server_options *options, struct server **server,
                         wisp_error *error) {
    *server = NULL;
    struct server *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    struct api *api = &made->api;
    *api = (struct api){.model = options->model,
                        .chat_format = options->chat_format,
                        .api_key = key_of(options),
                        .visitors = options->visitors,
                        .most_texts = options->most_texts,
                        .log = options->log};
    api->visitors.loopback = is_loopback_host(options->address, strlen(options->address));
    wisp_model_get_info(options->model, &api->info);
    api->name = options->name ? options->name : *api->info.name ? api->info.name : "wisp";
    metrics_begin(&api->metrics);
    wisp_status status = WISP_OK;
    api->ranks = strcmp(api->info.pooling, "rank") == 0;
    if (*api->info.pooling) {
        const struct batcher_options batching = {.model = options->model,
                                                 .session = options->session,
                                                 .most_waiting = options->most_waiting,
                                                 .batch_tokens = options->batch_tokens};
        status = batcher_open(&batching, &api->batcher, error);
    } else {
        const struct writers_options writing = {.model = options->model,
                                                .session = {.threads = options->threads,
                                                            .cache_type = options->cache_type,
                                                            .attention = options->attention},
                                                .kv_memory = options->kv_memory,
                                                .prompt_cache = options->prompt_cache,
                                                .prompt_cache_bytes = options->prompt_cache_bytes,
                                                .sessions = options->parallel,
                                                .most_waiting = options->connections};
        status = writers_open(&writing, &api->writers, error);
    }
    const struct web_options web = {.address = options->address,
                                    .port = options->port,
                                    .connections = (unsigned)options->connections,
                                    .most_bytes = (size_t)options->most_bytes,
                                    .admit = api_admit,
                                    .handle = api_handle,
                                    .context = api};
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

const char *server_model_name(const struct server *server) {
    return server->api.name;
}

void server_stop(struct server *server) {
    if (!server)
        return;
    web_stop(server->web);
    batcher_close(server->api.batcher);
    writers_close(server->api.writers);
    free(server);
}
