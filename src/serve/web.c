/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "serve/civetweb.h"
#include "serve/web.h"

/* A thread that serves. The library has a struct of a connection for each, which it uses for one
 * connection after the other. */
struct worker {
    const struct mg_connection *connection;
    double used; /* when its last request came */
};

/* How long a client may keep a connection without a request. */
static const double keep_alive_seconds = 30;

struct web_server {
    struct mg_context *context;
    struct web_options options;
    pthread_mutex_t lock;
    pthread_cond_t left;
    size_t active;          /* requests under way */
    bool ending;            /* new requests are refused */
    struct worker *workers; /* [options.connections], of which n_workers have served */
    size_t n_workers;
};

/* All servers of a process share the library. */
static const struct civetweb *library;

static const struct {
    int status;
    const char *reason;
} reasons[] = {{200, "OK"},
               {400, "Bad Request"},
               {401, "Unauthorized"},
               {403, "Forbidden"},
               {404, "Not Found"},
               {405, "Method Not Allowed"},
               {411, "Length Required"},
               {413, "Content Too Large"},
               {422, "Unprocessable Content"},
               {429, "Too Many Requests"},
               {500, "Internal Server Error"},
               {502, "Bad Gateway"},
               {503, "Service Unavailable"}};

static const char *reason_of(int status) {
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

const char *web_header(const struct web_request *request, const char *name) {
    return library->get_header(request->connection, name);
}

/* Writes all bytes. Returns false if the client has gone. */
static bool write_all(struct web_request *request, const char *bytes, size_t length) {
    while (length > 0) {
        const int written = library->write(request->connection, bytes, length);
        if (written <= 0)
            return false;
        bytes += written;
        length -= (size_t)written;
    }
    return true;
}

/* Writes the first lines of a reply, some bytes and `after`. All of a short reply goes out by one
 * call: each call sends a packet, since connections do not wait for more, and may wake the client.
 */
static bool write_behind(struct web_request *request, const char *lines, int n, const char *bytes,
                         size_t length, wisp_text after) {
    char joined[16 * 1024];
    const size_t first = (size_t)n;
    if (first + length + after.length > sizeof joined)
        return write_all(request, lines, first) && write_all(request, bytes, length) &&
               write_all(request, after.bytes, after.length);
    memcpy(joined, lines, first);
    memcpy(joined + first, bytes, length);
    memcpy(joined + first + length, after.bytes, after.length);
    return write_all(request, joined, first + length + after.length);
}

/* Writes the first lines of a reply, which end with `more` and an empty line, and its body. */
static void write_reply(struct web_request *request, int status, const char *type, const char *more,
                        const char *body, size_t length) {
    char head[1024], page[320] = "";
    request->status = status;
    if (request->origin)
        snprintf(page, sizeof page, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n",
                 request->origin);
    const int n =
        snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s%s%s\r\n", status,
                 reason_of(status), type, page, request->last ? "Connection: close\r\n" : "", more);
    write_behind(request, head, n, body, length, wisp_text_of(""));
}

void web_reply(struct web_request *request, int status, const char *type, const char *body,
               size_t length, const char *more) {
    char lines[256];
    snprintf(lines, sizeof lines, "Content-Length: %zu\r\n%s", length, more ? more : "");
    write_reply(request, status, type, lines, body, length);
}

void web_begin_stream(struct web_request *request, const char *type) {
    write_reply(request, 200, type, "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n", "",
                0);
}

bool web_send(struct web_request *request, const char *bytes, size_t length) {
    char size[24];
    const int n = snprintf(size, sizeof size, "%zx\r\n", length);
    return length == 0 || write_behind(request, size, n, bytes, length, wisp_text_of("\r\n"));
}

void web_end_stream(struct web_request *request) {
    write_all(request, "0\r\n\r\n", 5);
}

static void reply_text(struct web_request *request, int status, const char *text) {
    web_reply(request, status, "text/plain; charset=utf-8", text, strlen(text), NULL);
}

/* Reads the body of `length` bytes. Returns false if the client ends before. */
static bool read_body(struct web_request *request, size_t length) {
    request->body = malloc(length + 1);
    if (!request->body)
        return false;
    while (request->length < length) {
        const int n = library->read(request->connection, request->body + request->length,
                                    length - request->length);
        if (n <= 0)
            return false;
        request->length += (size_t)n;
    }
    request->body[length] = 0;
    return true;
}

/* Reads the request's body. Returns false after a reply, or if the client has gone. */
static bool take_body(const struct web_server *server, struct web_request *request) {
    const char *text = web_header(request, "Content-Length");
    if (!text && web_header(request, "Transfer-Encoding")) {
        reply_text(request, 411, "a request needs a Content-Length\n");
        return false;
    }
    char *end = NULL;
    errno = 0;
    const unsigned long long length = text ? strtoull(text, &end, 10) : 0;
    if (text && (errno != 0 || *end || *text < '0' || *text > '9')) {
        reply_text(request, 400, "invalid Content-Length\n");
        return false;
    }
    if (length > server->options.most_bytes) {
        reply_text(request, 413, "the body is larger than this server takes\n");
        return false;
    }
    return read_body(request, (size_t)length);
}

/* Notes that the thread of a connection serves, and returns whether all threads are held by
 * connections, as far as that can be told: a thread that had a request lately may have been left
 * since. While it is so, each connection ends after a reply, since others may wait for a thread. */
static bool note_worker(struct web_server *server, const struct mg_connection *connection) {
    const double now = clock_seconds();
    size_t mine = server->n_workers, held = 0;
    for (size_t i = 0; i < server->n_workers; i++) {
        if (server->workers[i].connection == connection)
            mine = i;
        else
            held += now - server->workers[i].used < keep_alive_seconds;
    }
    if (mine == server->n_workers && mine < server->options.connections)
        server->n_workers++;
    if (mine < server->n_workers)
        server->workers[mine] = (struct worker){connection, now};
    return held + 1 >= server->options.connections;
}

/* Returns false, and counts nothing, if the server ends. */
static bool enter(struct web_server *server, struct web_request *request) {
    pthread_mutex_lock(&server->lock);
    const bool good = !server->ending;
    request->last = note_worker(server, request->connection);
    server->active += good;
    pthread_mutex_unlock(&server->lock);
    return good;
}

static void leave(struct web_server *server) {
    pthread_mutex_lock(&server->lock);
    if (--server->active == 0)
        pthread_cond_signal(&server->left);
    pthread_mutex_unlock(&server->lock);
}

static int handle(struct mg_connection *connection, void *context) {
    struct web_server *server = context;
    const struct mg_request_info *info = library->get_request_info(connection);
    struct web_request request = {
        .method = info->request_method, .path = info->request_uri, .connection = connection};
    if (enter(server, &request)) {
        if (server->options.admit(server->options.context, &request) && take_body(server, &request))
            server->options.handle(server->options.context, &request);
        leave(server);
    } else {
        reply_text(&request, 503, "the server is ending\n");
    }
    free(request.body);
    return request.status ? request.status : 499;
}

/* Otherwise the library looks for passwords in a file .htpasswd, before each request. */
static int let_in(struct mg_connection *connection, void *context) {
    (void)connection, (void)context;
    return 1;
}

wisp_status web_start(const struct web_options *options, struct web_server **server,
                      wisp_error *error) {
    *server = NULL;
    TRY(civetweb_load(&library, error));
    struct web_server *made = calloc(1, sizeof *made);
    struct worker *workers = calloc(options->connections, sizeof *workers);
    if (!made || !workers) {
        free(made);
        free(workers);
        return fail_memory(error, sizeof *made + options->connections * sizeof *workers);
    }
    made->options = *options;
    made->workers = workers;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->left, NULL);
    char port[128], threads[24], keep_alive[24];
    snprintf(port, sizeof port, strchr(options->address, ':') ? "[%s]:%u" : "%s:%u",
             options->address, options->port);
    snprintf(threads, sizeof threads, "%u", options->connections);
    snprintf(keep_alive, sizeof keep_alive, "%.0f", keep_alive_seconds * 1000);
    const char *settings[] = {"listening_ports", port, "num_threads", threads, "enable_keep_alive",
                              "yes", "tcp_nodelay", "1", "keep_alive_timeout_ms", "30000",
                              "request_timeout_ms", "60000", "connection_queue", "256",
                              /* Else the library itself allows every page everything. */
                              "access_control_allow_methods", "", NULL};
    made->context = library->start(NULL, made, settings);
    if (!made->context) {
        free(made->workers);
        free(made);
        return fail(error, WISP_ERROR_IO, NULL, "port", "cannot listen on %s: is it in use?", port);
    }
    library->set_auth_handler(made->context, "**", let_in, NULL);
    library->set_request_handler(made->context, "**", handle, made);
    *server = made;
    return WISP_OK;
}

unsigned web_port(const struct web_server *server) {
    struct mg_server_port ports[4];
    const int n = library->get_server_ports(server->context, 4, ports);
    return n > 0 ? (unsigned)ports[0].port : 0;
}

void web_stop(struct web_server *server) {
    if (!server)
        return;
    pthread_mutex_lock(&server->lock);
    server->ending = true;
    while (server->active > 0) /* stopping the library would cut their replies */
        pthread_cond_wait(&server->left, &server->lock);
    pthread_mutex_unlock(&server->lock);
    library->stop(server->context);
    pthread_cond_destroy(&server->left);
    pthread_mutex_destroy(&server->lock);
    free(server->workers);
    free(server);
}
