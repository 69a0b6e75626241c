/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/upstream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "http/answer.h"
#include "http/curl.h"
#include "serve/text_buffer.h"

/* A handle of libcurl that is idle. It keeps its connection. */
struct line {
    void *easy;
    struct line *next;
};

struct upstream {
    const struct curl *curl;
    const char *url, *key;
    bool passes_keys;
    long timeout; /* seconds for connecting; a reply may take as long as its model */
    pthread_mutex_t lock;
    struct line *idle;
};

/* A request on its way. */
struct flight {
    struct web_request *request;
    struct answer answer;
    char type[128];
    char retry[64];
    struct text_buffer body; /* of a reply that is not streamed */
    bool streams, left;      /* the client has gone */
};

wisp_status upstream_open(const char *url, const char *key, bool passes_keys,
                          struct upstream **upstream, wisp_error *error) {
    *upstream = NULL;
    long timeout;
    const struct curl *curl;
    TRY(http_read_timeout(&timeout, error));
    TRY(curl_load(url, &curl, error));
    struct upstream *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    *made = (struct upstream){
        .curl = curl, .url = url, .key = key, .passes_keys = passes_keys, .timeout = timeout};
    pthread_mutex_init(&made->lock, NULL);
    *upstream = made;
    return WISP_OK;
}

void upstream_close(struct upstream *upstream) {
    if (!upstream)
        return;
    for (struct line *line = upstream->idle, *next; line; line = next) {
        next = line->next;
        upstream->curl->easy_cleanup(line->easy);
        free(line);
    }
    pthread_mutex_destroy(&upstream->lock);
    free(upstream);
}

bool upstream_has_path(const char *path) {
    bool good = path[0] == '/';
    for (const char *c = path; *c && good; c++)
        good = *c > ' ' && *c < 127 && *c != '\\' && *c != '#' && strncmp(c, "..", 2) != 0 &&
               strncasecmp(c, "%2e", 3) != 0;
    return good;
}

/* ---- lines ---------------------------------------------------------------------------------- */

static struct line *take_line(struct upstream *upstream) {
    pthread_mutex_lock(&upstream->lock);
    struct line *line = upstream->idle;
    if (line)
        upstream->idle = line->next;
    pthread_mutex_unlock(&upstream->lock);
    if (line)
        return line;
    line = calloc(1, sizeof *line);
    if (line)
        line->easy = upstream->curl->easy_init();
    if (line && line->easy)
        return line;
    free(line);
    return NULL;
}

static void give_line(struct upstream *upstream, struct line *line) {
    pthread_mutex_lock(&upstream->lock);
    line->next = upstream->idle;
    upstream->idle = line;
    pthread_mutex_unlock(&upstream->lock);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Adds "NAME: VALUE" to *headers, unless the value is NULL. Returns false if there is no memory. */
static bool add_header(const struct curl *curl, const char *name, const char *value,
                       void **headers) {
    char line[1024];
    if (!value)
        return true;
    const int n = snprintf(line, sizeof line, "%s: %s", name, value);
    void *longer = n < 0 || (size_t)n >= sizeof line ? NULL : curl->slist_append(*headers, line);
    if (longer)
        *headers = longer;
    return longer != NULL;
}

static bool add_headers(const struct upstream *upstream, const struct web_request *request,
                        void **headers) {
    static const char *const passed[] = {"Accept", "anthropic-version"};
    static const char *const keys[] = {"Authorization", "x-api-key"};
    const struct curl *curl = upstream->curl;
    const char *type = web_header(request, "Content-Type");
    char own[640];
    snprintf(own, sizeof own, "Bearer %s", upstream->key ? upstream->key : "");
    *headers = NULL;
    /* Without this libcurl asks before it sends a body of more than a kilobyte. */
    void *first = curl->slist_append(NULL, "Expect:");
    *headers = first;
    bool good =
        first && add_header(curl, "Content-Type", type ? type : "application/json", headers);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
        good = good && add_header(curl, passed[i], web_header(request, passed[i]), headers);
    if (upstream->key)
        return good && add_header(curl, "Authorization", own, headers);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && upstream->passes_keys; i++)
        good = good && add_header(curl, keys[i], web_header(request, keys[i]), headers);
    return good;
}

static size_t on_header(char *line, size_t size, size_t n, void *context) {
    struct flight *f = context;
    const size_t length = size * n;
    if (answer_take_line(&f->answer, line, length)) {
        *f->type = *f->retry = '\0';
        return length;
    }
    answer_copy_header(line, length, "Content-Type", f->type, sizeof f->type);
    answer_copy_header(line, length, "Retry-After", f->retry, sizeof f->retry);
    return length;
}

static const char *type_of(const struct flight *f) {
    return *f->type ? f->type : "application/json";
}

/* Takes a part of the reply. Returning less than its length ends the request. */
static size_t on_body(char *bytes, size_t size, size_t n, void *context) {
    struct flight *f = context;
    const size_t length = size * n;
    if (!f->streams && f->answer.status == 200 &&
        strncasecmp(f->type, "text/event-stream", 17) == 0) {
        f->streams = true;
        web_begin_stream(f->request, type_of(f));
    }
    if (f->streams)
        f->left = !web_send(f->request, bytes, length);
    else
        text_add(&f->body, bytes, length);
    return f->left || f->body.failed ? 0 : length;
}

static void set_options(const struct upstream *upstream, void *easy, const char *url, void *headers,
                        struct flight *f, char *reason) {
    const struct curl *curl = upstream->curl;
    http_set_common(curl, easy, url, upstream->timeout);
    curl->easy_setopt(easy, CURL_LOW_SPEED_LIMIT, 0L); /* a model may think before it writes */
    curl->easy_setopt(easy, CURL_POST, 1L);
    curl->easy_setopt(easy, CURL_POST_FIELDS, f->request->body);
    curl->easy_setopt(easy, CURL_POST_FIELD_SIZE, (long)f->request->length);
    curl->easy_setopt(easy, CURL_HTTP_HEADER, headers);
    curl->easy_setopt(easy, CURL_HEADER_FUNCTION, on_header);
    curl->easy_setopt(easy, CURL_HEADER_DATA, (void *)f);
    curl->easy_setopt(easy, CURL_WRITE_FUNCTION, on_body);
    curl->easy_setopt(easy, CURL_WRITE_DATA, (void *)f);
    curl->easy_setopt(easy, CURL_ERROR_BUFFER, reason);
}

/* Replies with an answer that has come to its end. */
static void reply(struct flight *f) {
    char more[96];
    snprintf(more, sizeof more, "Retry-After: %s\r\n", f->retry);
    if (f->streams)
        web_end_stream(f->request);
    else
        web_reply(f->request, (int)f->answer.status, type_of(f), f->body.bytes ? f->body.bytes : "",
                  f->body.length, *f->retry ? more : NULL);
}

/* Ends a stream of which the other server did not send the end. */
static void break_stream(struct flight *f) {
    static const char event[] =
        "data: {\"error\":{\"message\":\"the other server has not sent all of its reply\","
        "\"type\":\"server_error\",\"param\":null,\"code\":502}}\n\n";
    if (!f->left && web_send(f->request, event, sizeof event - 1))
        web_end_stream(f->request);
}

wisp_status upstream_forward(struct upstream *upstream, struct web_request *request,
                             wisp_error *error) {
    const struct curl *curl = upstream->curl;
    struct flight f = {.request = request};
    char reason[CURL_ERROR_BYTES] = "", url[2048];
    void *headers = NULL;
    int result = CURL_OUT_OF_MEMORY;
    const int n = snprintf(url, sizeof url, "%s%s", upstream->url, request->path);
    struct line *line = n > 0 && (size_t)n < sizeof url ? take_line(upstream) : NULL;
    if (line && add_headers(upstream, request, &headers)) {
        set_options(upstream, line->easy, url, headers, &f, reason);
        result = curl->easy_perform(line->easy);
    }
    if (line)
        give_line(upstream, line);
    curl->slist_free_all(headers);
    wisp_status status = WISP_OK;
    const bool redirects = f.answer.status >= 300 && f.answer.status < 400;
    if (result == CURL_OK && !redirects)
        reply(&f);
    else if (f.streams)
        break_stream(&f);
    else
        status = fail(error, WISP_ERROR_IO, NULL, NULL, "the other server cannot be asked: %s",
                      result == CURL_OK ? "it answers with a redirect"
                      : *reason         ? reason
                                        : curl->easy_strerror(result));
    free(f.body.bytes);
    return status;
}
