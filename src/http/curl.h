/* SPDX-License-Identifier: Apache-2.0
 * libcurl, which is loaded when a program first needs it: programs that read local files do not
 * wait for it and the libraries that it brings, and it need not be there when wisp is built.
 * Functions and numbers are those of libcurl's binary interface 4, which has kept them since 2006;
 * tests/oracle/curl_header.c compares them with libcurl's own header. */
#ifndef WISP_HTTP_CURL_H
#define WISP_HTTP_CURL_H

#include "base/status.h"

/* Options of easy_setopt: below 10000 a long, from 10000 on a pointer, from 20000 on a function. */
enum {
    CURL_LOW_SPEED_LIMIT = 19,
    CURL_LOW_SPEED_TIME = 20,
    CURL_NO_BODY = 44,
    CURL_POST = 47,
    CURL_FOLLOW_LOCATION = 52,
    CURL_POST_FIELD_SIZE = 60,
    CURL_MAX_REDIRECTS = 68,
    CURL_CONNECT_TIMEOUT = 78,
    CURL_NO_SIGNAL = 99,
    CURL_PROTOCOLS = 181,
    CURL_REDIRECT_PROTOCOLS = 182,
    CURL_WRITE_DATA = 10001,
    CURL_URL = 10002,
    CURL_ERROR_BUFFER = 10010,
    CURL_POST_FIELDS = 10015,
    CURL_USER_AGENT = 10018,
    CURL_HTTP_HEADER = 10023,
    CURL_HEADER_DATA = 10029,
    CURL_CA_FILE = 10065,
    CURL_PRIVATE = 10103,
    CURL_WRITE_FUNCTION = 20011,
    CURL_HEADER_FUNCTION = 20079
};

/* The value of easy_getinfo that is the pointer of CURL_PRIVATE. */
enum { CURL_INFO_PRIVATE = 0x100015 };

/* The results that wisp tells apart. */
enum {
    CURL_OK = 0,
    CURL_UNSUPPORTED_PROTOCOL = 1,
    CURL_BAD_URL = 3,
    CURL_OUT_OF_MEMORY = 27,
    CURL_TIMED_OUT = 28,
    CURL_TOO_MANY_REDIRECTS = 47,
    CURL_BAD_CERTIFICATE = 60,
    CURL_BAD_CA_FILE = 77
};

enum {
    CURL_PROTOCOL_HTTP = 1,
    CURL_PROTOCOL_HTTPS = 2,
    CURL_START_ALL = 3,
    CURL_MESSAGE_DONE = 1,
    CURL_ERROR_BYTES = 256 /* of CURL_ERROR_BUFFER */
};

struct curl_message {
    int message; /* CURL_MESSAGE_DONE */
    void *easy;
    union {
        void *pointer;
        int result;
    } data;
};

struct curl {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    int (*easy_setopt)(void *easy, int option, ...);
    int (*easy_getinfo)(void *easy, int info, ...);
    int (*easy_perform)(void *easy);
    void (*easy_cleanup)(void *easy);
    const char *(*easy_strerror)(int result);
    void *(*slist_append)(void *list, const char *text);
    void (*slist_free_all)(void *list);
    void *(*multi_init)(void);
    int (*multi_add_handle)(void *multi, void *easy);
    int (*multi_remove_handle)(void *multi, void *easy);
    int (*multi_perform)(void *multi, int *running);
    struct curl_message *(*multi_info_read)(void *multi, int *left);
    int (*multi_poll)(void *multi, void *extra, unsigned n, int milliseconds, int *ready);
    int (*multi_cleanup)(void *multi);
};

/* Loads libcurl, once for the process, on the thread that uses it. Fails with
 * WISP_ERROR_UNSUPPORTED, naming `url`, if the machine has none or the program is static. */
wisp_status curl_load(const char *url, const struct curl **curl, wisp_error *error);

#endif
