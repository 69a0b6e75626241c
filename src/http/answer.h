/* SPDX-License-Identifier: Apache-2.0
 * Headers of a server's answer, and what all requests of libcurl have in common. */
#ifndef WISP_HTTP_ANSWER_H
#define WISP_HTTP_ANSWER_H

#include "http/curl.h"

enum {
    HTTP_TIMEOUT_SECONDS = 30,
    HTTP_SLOWEST = 100 /* bytes a second: a request that brings fewer for so long is aborted. All
                          six of a line keep above it with 600, at which 1 MB takes half an hour */
};

/* The headers of an answer. Texts that are longer are cut, and then match nothing. */
struct answer {
    long status;
    char etag[256], modified[64], range[96], encoding[32];
    uint64_t length; /* Content-Length; 0: not said */
    double wait;     /* Retry-After, in seconds; -1: not said */
};

/* Copies the value of a line of headers if it is that of `name`. */
void answer_copy_header(const char *line, size_t length, const char *name, char *value,
                        size_t capacity);

/* Takes a line of headers. libcurl hands on those of redirects, too: each answer begins again.
 * Returns whether this one does. */
bool answer_take_line(struct answer *answer, const char *line, size_t length);

/* Reads "bytes FROM-LAST/SIZE". */
bool answer_read_range(const char *text, unsigned long long numbers[3]);

/* Reads WISP_HTTP_TIMEOUT. Fails with WISP_ERROR_ARGUMENT if it is not a number of seconds. */
wisp_status http_read_timeout(long *seconds, wisp_error *error);

bool http_is_encrypted(const char *url);

/* Sets the options of a request that do not depend on what it asks for. */
void http_set_common(const struct curl *curl, void *easy, const char *url, long timeout);

#endif
