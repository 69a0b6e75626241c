/* SPDX-License-Identifier: Apache-2.0
 * The functions of CivetWeb that `wisp serve` calls. The library is loaded when it is needed, so
 * that the program starts without it.
 * Source: CivetWeb's documented C API, 1.10 and later. */
#ifndef WISP_SERVE_CIVETWEB_H
#define WISP_SERVE_CIVETWEB_H

#include "base/status.h"

struct mg_context;
struct mg_connection;

/* The beginning of the struct, which all versions share. */
struct mg_request_info {
    const char *request_method;
    const char *request_uri;
};

struct mg_server_port {
    int protocol, port, is_ssl, is_redirect;
    int reserved[4];
};

typedef int mg_request_handler(struct mg_connection *connection, void *context);

struct civetweb {
    unsigned (*init_library)(unsigned features);
    /* `callbacks` may be NULL. `options` are names and values in turn, then NULL. */
    struct mg_context *(*start)(const void *callbacks, void *user_data, const char **options);
    void (*stop)(struct mg_context *context);
    void (*set_request_handler)(struct mg_context *context, const char *uri,
                                mg_request_handler *handler, void *handler_context);
    /* Its handler returns whether a request may be handled. */
    void (*set_auth_handler)(struct mg_context *context, const char *uri,
                             mg_request_handler *handler, void *handler_context);
    int (*get_server_ports)(const struct mg_context *context, int size,
                            struct mg_server_port *ports);
    const struct mg_request_info *(*get_request_info)(const struct mg_connection *connection);
    const char *(*get_header)(const struct mg_connection *connection, const char *name);
    int (*read)(struct mg_connection *connection, void *buffer, size_t length);
    int (*write)(struct mg_connection *connection, const void *buffer, size_t length);
};

/* Loads the library and sets *civetweb to its functions, which stay until the process ends. Fails
 * with WISP_ERROR_UNSUPPORTED, and says what to install. */
wisp_status civetweb_load(const struct civetweb **civetweb, wisp_error *error);

#endif
