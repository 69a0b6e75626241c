/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/civetweb.h"

#ifdef WISP_CIVETWEB

/* A static program has the library itself. */
unsigned mg_init_library(unsigned features);
struct mg_context *mg_start(const void *callbacks, void *user_data, const char **options);
void mg_stop(struct mg_context *context);
void mg_set_request_handler(struct mg_context *context, const char *uri,
                            mg_request_handler *handler, void *handler_context);
void mg_set_auth_handler(struct mg_context *context, const char *uri, mg_request_handler *handler,
                         void *handler_context);
int mg_get_server_ports(const struct mg_context *context, int size, struct mg_server_port *ports);
const struct mg_request_info *mg_get_request_info(const struct mg_connection *connection);
const char *mg_get_header(const struct mg_connection *connection, const char *name);
int mg_read(struct mg_connection *connection, void *buffer, size_t length);
int mg_write(struct mg_connection *connection, const void *buffer, size_t length);

wisp_status civetweb_load(const struct civetweb **civetweb, wisp_error *error) {
    static const struct civetweb linked = {mg_init_library,
                                           mg_start,
                                           mg_stop,
                                           mg_set_request_handler,
                                           mg_set_auth_handler,
                                           mg_get_server_ports,
                                           mg_get_request_info,
                                           mg_get_header,
                                           mg_read,
                                           mg_write};
    (void)error;
    linked.init_library(0);
    *civetweb = &linked;
    return WISP_OK;
}

#elif defined(WISP_STATIC)

wisp_status civetweb_load(const struct civetweb **civetweb, wisp_error *error) {
    *civetweb = NULL;
    return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                "serve: this program was built without CivetWeb: it is static, and cannot load "
                "libraries");
}

#else

#include <dlfcn.h>
#include <stddef.h>

static const struct {
    const char *name;
    size_t place; /* in struct civetweb */
} functions[] = {
    {"mg_init_library", offsetof(struct civetweb, init_library)},
    {"mg_start", offsetof(struct civetweb, start)},
    {"mg_stop", offsetof(struct civetweb, stop)},
    {"mg_set_request_handler", offsetof(struct civetweb, set_request_handler)},
    {"mg_set_auth_handler", offsetof(struct civetweb, set_auth_handler)},
    {"mg_get_server_ports", offsetof(struct civetweb, get_server_ports)},
    {"mg_get_request_info", offsetof(struct civetweb, get_request_info)},
    {"mg_get_header", offsetof(struct civetweb, get_header)},
    {"mg_read", offsetof(struct civetweb, read)},
    {"mg_write", offsetof(struct civetweb, write)},
};

wisp_status civetweb_load(const struct civetweb **civetweb, wisp_error *error) {
    static const char *const libraries[] = {"libcivetweb.so.1", "libcivetweb.1.dylib",
                                            "libcivetweb.so"};
    static struct civetweb loaded;
    *civetweb = NULL;
    void *library = NULL;
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !library; i++)
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                    "serve: this machine has no CivetWeb, the HTTP library: install it (Debian: "
                    "libcivetweb1)");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (!symbol)
            return fail(error, WISP_ERROR_UNSUPPORTED, NULL, NULL,
                        "serve: this machine's CivetWeb has no %s: version 1.10 or later is needed",
                        functions[i].name);
        /* ISO C has no conversion of a pointer to a function pointer; POSIX lets them be copied. */
        memcpy((char *)&loaded + functions[i].place, &symbol, sizeof symbol);
    }
    loaded.init_library(0);
    *civetweb = &loaded;
    return WISP_OK;
}

#endif
