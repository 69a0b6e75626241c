/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/api.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/checked.h"
#include "base/clock.h"

static const struct route *const tables[] = {embed_routes,     rerank_routes,   chat_routes,
                                             responses_routes, messages_routes, info_routes};

/* Compares in a time that does not depend on where the texts differ. */
static bool same_secret(const char *given, const char *secret) {
    const size_t length = strlen(given), expected = strlen(secret);
    volatile unsigned char differences = length != expected;
    for (size_t i = 0; i < length; i++)
        differences |= (unsigned char)(given[i] ^ secret[expected ? i % expected : 0]);
    return differences == 0;
}

static bool has_key(const struct api *api, const struct web_request *request) {
    static const char scheme[] = "Bearer ";
    const char *given = web_header(request, "Authorization");
    if (given && strncasecmp(given, scheme, sizeof scheme - 1) == 0)
        given += sizeof scheme - 1;
    else
        given = web_header(request, "x-api-key"); /* Anthropic's clients send this */
    return !api->api_key || (given && same_secret(given, api->api_key));
}

static const struct route *find_route(const struct web_request *request, bool *other_method) {
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct route *route = tables[t]; route->path; route++)
            if (strcmp(route->path, request->path) == 0) {
                if (strcmp(route->method, request->method) == 0)
                    return route;
                *other_method = true;
            }
    return NULL;
}

/* Parses the body of a request that has one. Returns false after a reply. */
static bool parse_body(struct call *call) {
    wisp_error error = {0};
    if (strcmp(call->request->method, "POST") != 0)
        return true;
    if (json_parse(&call->arena, call->request->body, call->request->length, "request", &call->body,
                   &error) != WISP_OK) {
        reply_problem(call, error.status == WISP_ERROR_MEMORY ? 500 : 400, "invalid_request_error",
                      NULL, "%s", error.message);
        return false;
    }
    if (json_is(call->body, JSON_OBJECT))
        return true;
    reply_problem(call, 400, "invalid_request_error", NULL, "the body must be a JSON object");
    return false;
}

static void log_request(const struct web_request *request, double seconds) {
    struct text_buffer text = {0};
    text_print(&text, "{\"method\":\"%s\",\"path\":", request->method);
    text_add_string(&text, wisp_text_of(request->path));
    text_print(&text, ",\"status\":%d,\"bytes\":%zu,\"seconds\":", request->status,
               request->length);
    text_add_number(&text, seconds, 4);
    text_add(&text, "}\n", 2);
    if (!text.failed)
        fwrite(text.bytes, 1, text.length, stderr);
    free(text.bytes);
}

/* Routes that tell whether the server is well are open to all. */
static bool is_open(const struct route *route) {
    return strcmp(route->path, "/health") == 0;
}

/* Counts and logs a request that has its reply. `route` is NULL if there is none for it. */
static void finish(struct api *api, const struct route *route, const struct web_request *request,
                   double begun) {
    const double seconds = clock_seconds() - begun;
    metrics_count(&api->metrics, route ? route->path : "other", request->status, seconds);
    if (api->log)
        log_request(request, seconds);
}

/* Replies to a browser that asks whether a page may send a request. Requests have no cookies, so
 * that a page may send all headers, of which * leaves one out. */
static void reply_preflight(struct web_request *request) {
    web_reply(request, 200, "text/plain", "", 0,
              "Access-Control-Allow-Methods: GET, POST\r\n"
              "Access-Control-Allow-Headers: *, Authorization\r\n"
              "Access-Control-Max-Age: 600\r\n");
}

bool api_admit(void *context, struct web_request *request) {
    struct api *api = context;
    struct call call = {.api = api, .request = request};
    const char *host = web_header(request, "Host"), *origin = web_header(request, "Origin");
    const double begun = clock_seconds();
    if (!visitors_have_host(&api->visitors, host))
        reply_problem(&call, 403, "invalid_request_error", "Host",
                      "this server answers requests to this machine, and this one is to %.200s: if "
                      "that is right, because a proxy is in front, start it with --allow-host and "
                      "that name",
                      host ? host : "none");
    else if (origin && !visitors_have_origin(&api->visitors, origin, host))
        reply_problem(&call, 403, "invalid_request_error", "Origin",
                      "pages of %.200s may not use this server: if they should, start it with "
                      "--allow-origin and that origin",
                      origin);
    else {
        request->origin = origin;
        if (!origin || strcmp(request->method, "OPTIONS") != 0)
            return true;
        reply_preflight(request);
    }
    finish(api, NULL, request, begun);
    return false;
}

/* Replies that no model has the name, and which names there are. */
static void refuse_name(struct call *call, const char *name) {
    struct text_buffer names = {0};
    const struct served_model *served;
    for (size_t i = 0; (served = models_at(call->api->models, i)); i++)
        text_print(&names, "%s%s", i ? ", " : "", served->of.name);
    reply_problem(call, 404, "invalid_request_error", "model",
                  "there is no model %.200s here: name one of %.*s", name,
                  names.failed ? 0 : (int)smaller(names.length, 400),
                  names.failed ? "" : names.bytes);
    free(names.bytes);
}

/* Sends a request to the other server. */
static void forward(struct call *call) {
    wisp_error error = {0};
    if (!upstream_has_path(call->request->path))
        reply_problem(call, 404, "invalid_request_error", NULL, "there is no %s for %s",
                      call->request->path, call->request->method);
    else if (upstream_forward(call->api->upstream, call->request, &error) != WISP_OK)
        reply_problem(call, 502, "server_error", NULL, "%s", error.message);
}

/* Returns whether the body names a model that is not one of this server's. */
static bool names_another(const struct call *call) {
    const struct json *given = json_get(call->body, "model");
    const struct served_model *served;
    if (!json_is(given, JSON_STRING))
        return false;
    for (size_t i = 0; (served = models_at(call->api->models, i)); i++)
        if (json_equals(given, served->of.name))
            return false;
    return true;
}

/* Takes the model that the body names. Returns false after a reply. */
static bool take_model(struct call *call) {
    struct models *models = call->api->models;
    const struct json *given = json_get(call->body, "model");
    const char *name = json_is(given, JSON_STRING) ? given->text : NULL;
    struct served_model *found = models_find(models, name);
    wisp_error error = {0};
    if (!found)
        refuse_name(call, name);
    else if (models_take(models, found, &call->retry_seconds, &error) == WISP_OK)
        call->served = found;
    else
        reply_problem(call, error.status == WISP_ERROR_MEMORY ? 503 : 500, "server_error", "model",
                      "the model %.200s cannot be opened: %s", found->of.name,
                      public_message(&error));
    return call->served != NULL;
}

/* Runs a route with the model that the request names, if it may name one. */
static void run_route(struct call *call, const struct route *route) {
    if (!call->body)
        route->run(call);
    else if (call->api->upstream && names_another(call))
        forward(call);
    else if (take_model(call)) {
        route->run(call);
        models_give(call->api->models, call->served);
    }
}

void api_handle(void *context, struct web_request *request) {
    struct api *api = context;
    struct call call = {.api = api, .request = request};
    const double begun = clock_seconds();
    bool other_method = false;
    const struct route *route = find_route(request, &other_method);
    const bool forwards =
        !route && !other_method && api->upstream && strcmp(request->method, "POST") == 0;
    if (!route && !forwards)
        reply_problem(&call, other_method ? 405 : 404, "invalid_request_error", NULL,
                      other_method ? "%s does not take %s" : "there is no %s for %s", request->path,
                      request->method);
    else if (!(route && is_open(route)) && !has_key(api, request))
        reply_problem(&call, 401, "authentication_error", "Authorization",
                      "the API key is missing or wrong");
    else if (forwards)
        forward(&call);
    else if (parse_body(&call))
        run_route(&call, route);
    arena_release(&call.arena);
    finish(api, route, request, begun);
}
