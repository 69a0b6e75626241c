/* SPDX-License-Identifier: Apache-2.0
 * Fetches ranges of a file on a server into the cache. Whatever a server sends in their place is
 * either of use or an error, which names the URL and the server's answer.
 *
 * Requests are for single closed ranges ("bytes=a-b") in identity encoding, up to six at a time.
 * Every answer must be of the state that the file was in at first. A transfer that breaks off is
 * continued if it ended; one without progress, or slower than 100 bytes a second for half a
 * minute, is tried again four times, after pauses that
 * double, and so are answers that say that the server is busy. Redirects are followed again for
 * each request, because their targets may expire, and never from https to http. A request that is
 * refused in the middle of a file (401, 403), or answered by another range, is made once more. */
#ifndef WISP_HTTP_FETCH_H
#define WISP_HTTP_FETCH_H

#include "http/cache.h"
#include "http/curl.h"

struct server_file {
    const char *url;          /* borrowed */
    char name[256];           /* of the file in errors: the URL without its query */
    struct cached_file *into; /* receives the bytes; has been entered before ranges are fetched */
    const struct curl *curl;
    void *multi;
    struct file_state state;
    long timeout;   /* seconds without bytes, or with few, after which a request is made again */
    bool no_ranges; /* the server sends the whole file whatever is asked for */
    struct transfer
        *whole;   /* the transfer of the running call whose answer is the whole file; NULL: none */
    bool changed; /* a failure was that the file is in another state now */
    bool (*cancelled)(void); /* is asked often; true ends the requests */
    /* Called, if it is not NULL, when bytes of one transfer up to `at` have arrived. */
    void (*progress)(void *context, uint64_t at);
    void *context;
    uint64_t requests, received; /* since it was opened; bytes of bodies */
    uint64_t random;             /* the state of base/random.h, by which pauses differ */
};

/* Prepares requests for a URL, which has to outlive the file. Fails with WISP_ERROR_UNSUPPORTED
 * if there is no libcurl, and WISP_ERROR_ARGUMENT if the URL holds a password. The caller
 * calls server_file_close, also after a failure. */
wisp_status server_file_open(struct server_file *file, const char *url, bool (*cancelled)(void),
                             wisp_error *error);

void server_file_close(struct server_file *file);

/* Asks for the state of the file by a request of one byte, and sets file->state and no_ranges. With
 * `known`, a state with a validator, it asks only whether the state is another. Fails with
 * WISP_ERROR_NOT_FOUND if the server has no such file, with WISP_ERROR_IO if it cannot be
 * reached or sends anything else, and with WISP_ERROR_CANCELLED. */
wisp_status server_file_ask(struct server_file *file, const struct file_state *known,
                            wisp_error *error);

/* Fetches all bytes of n ranges, in rising order, that are absent in the cache. Fails as
 * server_file_ask does. */
wisp_status server_file_fetch(struct server_file *file, const wisp_range *ranges, size_t n,
                              wisp_error *error);

#endif
