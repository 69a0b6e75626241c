/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/model_options.h"
#include "serve/server.h"

static const char usage[] =
    "usage: wisp serve [OPTION]...\n"
    "\n"
    "Answers requests over HTTP. If the model embeds: OpenAI's /v1/embeddings, and /embed,\n"
    "/similarity and /tokenize of text-embeddings-inference. If it scores texts for a query:\n"
    "/rerank, and Jina's /v1/rerank. If it generates: OpenAI's /v1/chat/completions,\n"
    "/v1/completions and /v1/responses, and Anthropic's /v1/messages. With any model: /v1/models,\n"
    "/info, /health and /metrics. Texts of simultaneous requests are embedded together. Ctrl-C "
    "and\n"
    "SIGTERM end the server after the requests under way have been answered.\n"
    "\n"
    "Needs the library CivetWeb (Debian: libcivetweb1).\n"
    "\n";

struct arguments {
    struct model_arguments model;
    struct server_options server;
    char key[512], upstream_key[512], upstream[1024];
    struct model_name others[MOST_MODELS - 1];
    char names[MOST_MODELS - 1][128];
};

/* Reads the first line of a file. Complains and returns an exit code if it has none. */
static int read_key(const char *option, char *key, const char *path) {
    FILE *file = fopen(path, "r");
    if (!file) {
        complain("%s: cannot open %s", option, path);
        return EXIT_USAGE;
    }
    const size_t size = sizeof((struct arguments *)NULL)->key;
    const bool got = fgets(key, (int)size, file) != NULL;
    fclose(file);
    key[strcspn(key, "\r\n")] = 0;
    if (!got || !*key || strlen(key) + 1 == size) {
        complain("%s: the first line of %s must be a key of 1 to 510 characters", option, path);
        return EXIT_USAGE;
    }
    return EXIT_GOOD;
}

static int take_key(void *field, const char *path) {
    return read_key("--api-key-file", field, path);
}

static int take_upstream_key(void *field, const char *path) {
    return read_key("--upstream-key-file", field, path);
}

/* Takes the address of a server, without what ends it. */
static int take_upstream(void *field, const char *url) {
    char *address = field;
    size_t length = strlen(url);
    const char *host = strncasecmp(url, "https://", 8) == 0  ? url + 8
                       : strncasecmp(url, "http://", 7) == 0 ? url + 7
                                                             : "";
    if (!*host || *host == '/') {
        complain("--upstream %s: expected a URL with http: or https:", url);
        return EXIT_USAGE;
    }
    if (strpbrk(host, "?#@ \\") || length >= sizeof((struct arguments *)NULL)->upstream) {
        complain("--upstream: a URL without a user, a query and a fragment; its key is that of "
                 "--upstream-key-file");
        return EXIT_USAGE;
    }
    while (url[length - 1] == '/')
        length--;
    if (length > 3 && strncmp(url + length - 3, "/v1", 3) == 0)
        length -= 3;
    memcpy(address, url, length);
    address[length] = 0;
    return EXIT_GOOD;
}

/* Adds a name to a list that is not full. */
static int add_visitor(struct visitor_list *list, const char *option, const char *name) {
    if (list->n == MOST_VISITORS) {
        complain("%s: more than %d", option, MOST_VISITORS);
        return EXIT_USAGE;
    }
    list->names[list->n++] = name;
    return EXIT_GOOD;
}

static int take_host(void *field, const char *name) {
    if (*name && !strpbrk(name, "/:@ "))
        return add_visitor(field, "--allow-host", name);
    complain("--allow-host: \"%s\" is not the name of a host, without a port", name);
    return EXIT_USAGE;
}

static int take_origin(void *field, const char *origin) {
    if (is_origin(origin))
        return add_visitor(field, "--allow-origin", origin);
    complain("--allow-origin: \"%s\" is not an origin, such as https://example.com:8443", origin);
    return EXIT_USAGE;
}

/* Takes NAME=PATH. */
static int take_other(void *arguments, const char *value) {
    struct arguments *a = arguments;
    const char *equals = strchr(value, '=');
    const size_t n = a->server.n_others, length = equals ? (size_t)(equals - value) : 0;
    if (length == 0 || length >= sizeof *a->names || !equals[1]) {
        complain("--also %s: expected NAME=PATH, with a name of 1 to %zu bytes", value,
                 sizeof *a->names - 1);
        return EXIT_USAGE;
    }
    if (n == MOST_MODELS - 1) {
        complain("--also: more than %d models", MOST_MODELS - 1);
        return EXIT_USAGE;
    }
    memcpy(a->names[n], value, length);
    a->others[n] = (struct model_name){a->names[n], equals + 1};
    a->server.n_others++;
    return EXIT_GOOD;
}

/* Takes a port; 0 is any that is free. */
static int take_port(void *field, const char *value) {
    unsigned long port;
    if (!parse_whole("port", value, 0, 65535, &port))
        return EXIT_USAGE;
    *(unsigned *)field = (unsigned)port;
    return EXIT_GOOD;
}

#define ARGUMENTS struct arguments

static const struct command_option options[] = {
    OPTION(TEXT, server.address, "address", 0, "ADDRESS",
           "listen here (default: 127.0.0.1, for this machine only)"),
    TAKEN(take_port, server.port, "port", 0, "N",
          "listen on this port; 0: any free port (default: 8080)"),
    OPTION(TEXT, server.name, "name", 0, "NAME",
           "the name of the model of --model (default: that in its file)"),
    TAKEN_BY_ALL(take_other, TEXT, "also", 0, "NAME=PATH",
                 "serve this model, too, to requests that name it: it is opened when\n"
                 "the first one comes; may be repeated"),
    OPTION(BYTES, server.models_memory, "models-memory", 0, "BYTES",
           "the most memory for the weights of all models together: those of\n"
           "--also that were used longest ago are closed for others (default:\n"
           "no limit)"),
    COUNT(server.models_wait, 0, 86400, "models-wait", 0, "SECONDS",
          "refuse with 503 a request whose model cannot be opened because one\n"
          "that has to close for it is in use this long (default: 30)"),
    TAKEN(take_key, key, "api-key-file", 0, "FILE",
          "require the key in the file's first line for every request except\n"
          "/health (default: the key in $WISP_API_KEY, if any)"),
    TAKEN(take_upstream, upstream, "upstream", 0, "URL",
          "send requests that name another model, and all others of POST that\n"
          "are not answered here, to this server"),
    TAKEN(take_upstream_key, upstream_key, "upstream-key-file", 0, "FILE",
          "the key for it, in the file's first line (default: the key in\n"
          "$WISP_UPSTREAM_KEY, else that of the request if none is asked for\n"
          "here)"),
    TAKEN(take_origin, server.visitors.origins, "allow-origin", 0, "ORIGIN",
          "let pages of this origin use the server, such as\n"
          "https://example.com, or * for all; may be repeated (pages of\n"
          "this machine are always allowed)"),
    TAKEN(take_host, server.visitors.hosts, "allow-host", 0, "NAME",
          "also answer requests to this host name, such as a proxy's; may be\n"
          "repeated (a server that other machines reach accepts any name)"),
    COUNT(server.connections, 1, 4096, "connections", 0, "N",
          "serve at most N connections at a time (default: 256)"),
    OPTION(TEXT, server.chat_format, "chat-format", 0, "NAME",
           "for models without a chat template: chatml or plain"),
    COUNT(server.parallel, 1, 256, "parallel", 0, "N",
          "generate at most N texts at a time (default: 4)"),
    COUNT(server.most_waiting, 1, 1 << 24, "queue", 0, "N",
          "let at most N texts wait; refuse more with 429 (default: 8192)"),
    COUNT(server.batch_tokens, 1, 1 << 24, "batch-tokens", 0, "N",
          "embed at most about N tokens together (default: 256, and 8192 on a\n"
          "device or if the model generates)"),
    COUNT(server.most_texts, 1, 1 << 24, "most-texts", 0, "N", "of a request (default: 2048)"),
    OPTION(BYTES, server.most_bytes, "most-bytes", 0, "BYTES", "of a request (default: 32M)"),
    OPTION(NONE, server.log, "log", 0, NULL,
           "write a JSON object for each request to standard error"),
    GROUP(model, model_options),
    GROUP(model, vector_cache_options),
    GROUP(model, cache_options),
    GROUP(model, prompt_cache_options),
    GROUP(model, memory_options),
    GROUP(model, kv_options),
    LAST_OPTION,
};

static const struct command_line this_command = {
    usage, options, 25,
    "\n"
    "Examples:\n"
    "  wisp serve\n"
    "  wisp serve --model hf:Qwen/Qwen3-0.6B-GGUF --port 8081\n"
    "\nExit code: 0 done, 1 serving failed, 2 wrong usage, 3 the model cannot be used.\n",
    NULL};

/* Opens a model of --also. Options of only the first model's file are left out. */
static wisp_status open_other(void *context, const char *path, wisp_model **model,
                              wisp_session **session, wisp_error *error) {
    const struct arguments *a = context;
    struct model_arguments arguments = a->model;
    arguments.header_sha256 = NULL;
    arguments.memory = 0;
    const wisp_status status = open_model_at(&arguments, path, model, session, error);
    if (status != WISP_OK)
        complain("%s", error->message); /* the client is told all but the path */
    return status;
}

/* Names the first model. Complains and returns an exit code if two models have one name. */
static int name_models(struct arguments *a) {
    wisp_model_info info;
    wisp_model_get_info(a->server.model, &info);
    if (!a->server.name)
        a->server.name = *info.name ? info.name : "wisp";
    for (size_t i = 0; i < a->server.n_others; i++)
        for (size_t k = 0; k <= i; k++) {
            const char *other = k < i ? a->others[k].name : a->server.name;
            if (strcmp(a->others[i].name, other) == 0) {
                complain("--also %s: two models have this name", other);
                return EXIT_USAGE;
            }
        }
    return EXIT_GOOD;
}

static int serve(struct arguments *a) {
    wisp_error error = {0};
    struct server *server = NULL;
    watch_signals(NULL);
    if (server_start(&a->server, &server, &error) != WISP_OK)
        return complain_of(&error);
    if (!program_is_quiet)
        fprintf(stderr, "serving %s at http://%s:%u (Ctrl-C ends)\n", a->server.name,
                a->server.address, server_port(server));
    while (wait_readable(-1))
        continue;
    if (!program_is_quiet)
        fputs("ending when all requests have their replies\n", stderr);
    server_stop(server);
    return EXIT_GOOD;
}

int command_serve(int argc, char **argv) {
    struct arguments a = {.server = server_defaults()};
    int code;
    if (!take_options(&this_command, &a, argc, argv, &code))
        return code;
    if (optind < argc) {
        complain("serve takes no arguments: %s", argv[optind]);
        return EXIT_USAGE;
    }
    code = check_caches(&a.model);
    if (code != EXIT_GOOD)
        return code;
    if (*a.key)
        a.server.api_key = a.key;
    if (*a.upstream)
        a.server.upstream = a.upstream;
    if (*a.upstream_key)
        a.server.upstream_key = a.upstream_key;
    a.server.threads = threads_of(&a.model);
    a.server.cache_type = a.model.cache_type;
    a.server.attention = a.model.attention;
    a.server.sparsity = (float)a.model.sparsity;
    a.server.kv_memory = a.model.kv_memory;
    a.server.prompt_cache = a.model.prompt_cache;
    a.server.vector_cache = a.model.vector_cache;
    a.server.vector_cache_bytes = a.model.vector_cache_size;
    a.server.prompt_cache_bytes = a.model.prompt_cache_size;
    a.server.others = a.others;
    a.server.open = open_other;
    a.server.context = &a;
    code = open_model(&a.model, &a.server.model, &a.server.session);
    if (code == EXIT_GOOD)
        code = name_models(&a);
    /* This session writes nothing, but says at once what cannot be done. */
    wisp_error error;
    if (code == EXIT_GOOD && a.model.kv_memory &&
        wisp_session_limit_kv_memory(a.server.session, a.model.kv_memory, NULL, &error) != WISP_OK)
        code = complain_of(&error);
    if (code == EXIT_GOOD && a.model.prompt_cache &&
        wisp_session_use_prompt_cache(a.server.session, a.model.prompt_cache,
                                      a.model.prompt_cache_size, &error) != WISP_OK)
        code = complain_of(&error);
    if (code == EXIT_GOOD)
        code = serve(&a);
    wisp_session_close(a.server.session);
    wisp_model_close(a.server.model);
    return code;
}
