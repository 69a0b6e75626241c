/* SPDX-License-Identifier: Apache-2.0
 * Single requests of the Hub's servers, one at a time. A request is made again if the server is out
 * of order for a moment. Redirects are followed here and not by libcurl: never from https to http,
 * and a token goes only to the origin that it was given for. */
#ifndef WISP_HTTP_HUB_REQUEST_H
#define WISP_HTTP_HUB_REQUEST_H

#include "http/answer.h"

enum { URL_BYTES = 4096 };

/* The answer to a request: that of the last server it was redirected to. */
struct hub_answer {
    struct answer common;
    char location[URL_BYTES];
    char commit[256], linked_etag[256], linked_size[32];
    char error_code[64], error_message[256];
};

/* Requests, one after the other. */
struct hub_client {
    const struct curl *curl;
    void *multi;
    long timeout;
    const char *token; /* NULL: none is sent */
    bool (*cancelled)(void);
    uint64_t random; /* the state of base/random.h, by which pauses differ */
    /* Whether the last request failed by its connection, or by a server that is out of order. */
    bool broke, outage;
};

struct hub_request {
    const char *url;
    bool head;         /* only headers are asked for */
    bool ends_at_link; /* an answer that describes the file which it redirects to is the last */
    uint64_t from;     /* the first byte that is wanted */
    /* Called before the first byte of a body, and for each part of it. A failure ends the request.
     * NULL: there is no body. */
    wisp_status (*begin)(void *context, const struct hub_answer *answer, wisp_error *error);
    wisp_status (*take)(void *context, const void *bytes, size_t length, wisp_error *error);
    void *context;
};

/* Fails as curl_load does. The caller calls hub_client_close, also after a failure. */
wisp_status hub_client_open(struct hub_client *client, const char *url, bool (*cancelled)(void),
                            wisp_error *error);

void hub_client_close(struct hub_client *client);

/* Makes a request, whose answer is of a status below 400 then. Fails with WISP_ERROR_NOT_FOUND,
 * WISP_ERROR_IO and WISP_ERROR_CANCELLED, and as the functions of the request do. */
wisp_status hub_request_run(struct hub_client *client, struct hub_request *request,
                            struct hub_answer *answer, wisp_error *error);

/* Waits. Fails with WISP_ERROR_CANCELLED. */
wisp_status hub_client_pause(const struct hub_client *client, double seconds, wisp_error *error);

#endif
