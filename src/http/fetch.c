/* SPDX-License-Identifier: Apache-2.0 */
#include "http/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/clock.h"
#include "base/random.h"
#include "http/answer.h"

enum {
    MOST_FLIGHTS = 6, /* requests at a time */
    MOST_FAILURES = 4,
    MOST_REDIRECTS = 10,
    BUFFER_BYTES = 16 * CACHE_BLOCK_BYTES,
    POLL_MILLISECONDS = 100 /* so soon a cancelled call notices */
};

/* Seconds: a server that wants a longer pause is not waited for. */
static const double longest_wait = 30;

/* A range that is fetched, in as many requests as it takes. */
struct transfer {
    struct server_file *file;
    const struct file_state *known; /* of server_file_ask */
    void *easy, *headers;           /* the request under way; NULL: none */
    double again;                   /* when the next request is made, by clock_seconds */
    uint64_t start;                 /* of the range */
    uint64_t at, end;               /* the next byte that is wanted, and the end of the range */
    uint64_t reached;               /* the most that `at` has been */
    uint64_t from;                  /* where the request under way began, */
    double since;                   /* and when, by clock_seconds */
    uint64_t body_end;              /* where the body of the answer ends in the file */
    unsigned char *buffer;          /* [BUFFER_BYTES]: the `filled` bytes before `at` */
    size_t filled;
    struct answer answer;
    unsigned failures;  /* requests without progress, one after the other */
    wisp_status status; /* the failure that the answer is, in `error` */
    wisp_error error;
    bool used;
    bool asks;                     /* the transfer is that of server_file_ask */
    bool judged;                   /* `answer` was looked at */
    bool done;                     /* nothing more is wanted of the answer */
    bool busy;                     /* the request is to be made again after a pause */
    bool refused, misplaced;       /* such an answer came, after which it was made again */
    char reason[CURL_ERROR_BYTES]; /* why a connection failed */
};

wisp_status server_file_open(struct server_file *file, const char *url, bool (*cancelled)(void),
                             wisp_error *error) {
    *file = (struct server_file){
        .url = url, .cancelled = cancelled, .random = (uint64_t)(clock_seconds() * 1e9)};
    /* Queries are long, and may hold keys. */
    snprintf(file->name, sizeof file->name, "%.*s", (int)strcspn(url, "?#"), url);
    const char *authority = strstr(url, "//") + 2;
    const size_t length = strcspn(authority, "/?#");
    if (memchr(authority, '@', length))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "model",
                    "a URL with a user's name or password is not supported");
    TRY(http_read_timeout(&file->timeout, error));
    TRY(curl_load(file->name, &file->curl, error));
    file->multi = file->curl->multi_init();
    return file->multi ? WISP_OK : fail_memory(error, sizeof(struct transfer));
}

void server_file_close(struct server_file *file) {
    if (file->multi)
        file->curl->multi_cleanup(file->multi);
    file->multi = NULL;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Keeps the failure that an answer is, which ends its request. */
#define refuse(t, kind, ...)                                                                       \
    ((t)->status = fail(&(t)->error, kind, (t)->file->name, NULL, __VA_ARGS__))

#define refuse_changed(t, format, ...)                                                             \
    ((t)->file->changed = true,                                                                    \
     refuse(t, WISP_ERROR_IO, "the file has changed since it was opened (" format ")",             \
            __VA_ARGS__))

static size_t on_header(char *line, size_t size, size_t n, void *context) {
    struct transfer *t = context;
    answer_take_line(&t->answer, line, size * n);
    return size * n;
}

static const char *validator_of(const struct answer *a) {
    return *a->etag ? a->etag : a->modified;
}

static const char *or_nameless(const char *validator) {
    return *validator ? validator : "without a name";
}

/* Judges a status that brings no bytes. */
static void judge_refusal(struct transfer *t) {
    const long status = t->answer.status;
    if (status == 416 && t->asks)
        refuse(t, WISP_ERROR_FORMAT, "the file is empty");
    else if (status == 416)
        refuse_changed(t, "the server has no bytes %llu to %llu", (unsigned long long)t->at,
                       (unsigned long long)t->end - 1);
    else if (status == 404 || status == 410)
        refuse(t, WISP_ERROR_NOT_FOUND, "HTTP %ld: the server has no such file", status);
    else if (status == 401 || status == 403)
        refuse(t, WISP_ERROR_IO, "HTTP %ld: the server does not give this file to everyone",
               status);
    else if (status >= 400)
        refuse(t, WISP_ERROR_IO, "HTTP %ld: the server refuses", status);
    else
        refuse(t, WISP_ERROR_IO, "the server answers %ld to a range", status);
    t->busy = status == 408 || status == 429 || (status >= 500 && status != 501);
    /* In the middle of a file the URL may lead to an address whose signature has just expired. */
    if ((status == 401 || status == 403) && !t->asks && !t->refused)
        t->refused = t->busy = true;
}

/* Judges the Content-Range of an answer of status 206. */
static void judge_range(struct transfer *t) {
    const struct file_state *state = &t->file->state;
    unsigned long long numbers[3] = {0};
    const char *text = *t->answer.range ? t->answer.range : "none";
    const bool good = answer_read_range(text, numbers);
    const unsigned long long from = numbers[0], last = numbers[1], size = numbers[2];
    if (!good || from != t->at || last < from || last >= t->end || last >= size) {
        refuse(t, WISP_ERROR_IO, "bytes %llu to %llu were asked for, but '%s' came",
               (unsigned long long)t->at, (unsigned long long)t->end - 1, text);
        /* A cache on the way may have sent another range. */
        t->busy = !t->misplaced;
        t->misplaced = true;
    } else if (!t->asks && size != state->size)
        refuse_changed(t, "it had %llu bytes, and has %llu", (unsigned long long)state->size, size);
    t->body_end = last + 1;
    if (t->asks)
        t->file->state.size = size;
}

/* Judges an answer of status 200, which is the whole file. */
static void judge_whole(struct transfer *t) {
    struct server_file *file = t->file;
    const uint64_t length = t->answer.length;
    if (t->asks) {
        if (length == 0)
            refuse(t, WISP_ERROR_IO,
                   "the server sends the whole file instead of a range, and does not say how many "
                   "bytes it has");
        file->no_ranges = true;
        file->state.size = length;
        t->done = true;
        return;
    }
    if (length > 0 && length != file->state.size) {
        refuse_changed(t, "it had %llu bytes, and has %llu", (unsigned long long)file->state.size,
                       (unsigned long long)length);
        return;
    }
    if (file->whole && file->whole != t) {
        t->done = true; /* the other transfer brings this range, too */
        return;
    }
    if (!file->whole)
        t->reached = 0;
    file->whole = t;
    t->start = t->at = 0;
    t->filled = 0;
    t->end = t->body_end = file->state.size;
}

/* Reads the headers of an answer, once. If the answer is unusable, sets t->status or t->done. */
static void judge(struct transfer *t) {
    const struct answer *a = &t->answer;
    struct server_file *file = t->file;
    t->judged = true;
    if (a->status == 304 && t->known) {
        file->state = *t->known;
        t->done = true;
        return;
    }
    if (a->status != 200 && a->status != 206) {
        judge_refusal(t);
        return;
    }
    if (*a->encoding && strcasecmp(a->encoding, "identity") != 0) {
        refuse(t, WISP_ERROR_IO, "the server compresses ranges (%s), which cannot be used",
               a->encoding);
        return;
    }
    if (t->asks) {
        snprintf(file->state.validator, sizeof file->state.validator, "%s", validator_of(a));
    } else if (strcmp(validator_of(a), file->state.validator) != 0) {
        refuse_changed(t, "it was %s, and is %s", or_nameless(file->state.validator),
                       or_nameless(validator_of(a)));
        return;
    }
    if (a->status == 206)
        judge_range(t);
    else
        judge_whole(t);
}

/* Stores the whole blocks that have arrived, and the file's last one. */
static bool flush(struct transfer *t) {
    const uint64_t size = t->file->state.size;
    const size_t rest = t->at < size ? t->filled % CACHE_BLOCK_BYTES : 0;
    const size_t length = t->filled - rest;
    if (length == 0)
        return true;
    t->status = cached_file_write(t->file->into, t->at - t->filled, t->buffer, length, &t->error);
    memmove(t->buffer, t->buffer + length, rest);
    t->filled = rest;
    if (t->status == WISP_OK && t->file->progress)
        t->file->progress(t->file->context, t->at);
    return t->status == WISP_OK;
}

/* Takes a part of a body. Returning less than its length ends the request. */
static size_t on_body(char *bytes, size_t size, size_t n, void *context) {
    struct transfer *t = context;
    const size_t length = size * n;
    if (!t->judged)
        judge(t);
    if (t->status != WISP_OK || t->done)
        return 0;
    t->file->received += length;
    if (length > t->body_end - t->at) {
        if (t->asks) { /* the state is known all the same */
            t->done = true;
            return 0;
        }
        refuse(t, WISP_ERROR_IO, "more bytes came than the server named");
        return 0;
    }
    for (size_t done = 0; done < length && !t->asks;) {
        const size_t room = BUFFER_BYTES - t->filled, left = length - done;
        const size_t here = left < room ? left : room;
        memcpy(t->buffer + t->filled, bytes + done, here);
        t->filled += here;
        t->at += here;
        done += here;
        if ((t->filled == BUFFER_BYTES || t->at == t->end) && !flush(t))
            return 0;
    }
    if (t->asks)
        t->at += length;
    return length;
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool add_line(struct transfer *t, const char *line) {
    void *headers = t->file->curl->slist_append(t->headers, line);
    if (headers)
        t->headers = headers;
    return headers != NULL;
}

/* Adds the headers of a request. Returns false if there is no memory. */
static bool add_headers(struct transfer *t) {
    const struct server_file *file = t->file;
    const char *validator = t->known ? t->known->validator : file->state.validator;
    const bool is_tag = *validator == '"' || strncmp(validator, "W/", 2) == 0;
    char line[sizeof file->state.validator + 64];
    bool good = add_line(t, "Accept-Encoding: identity");
    if (!file->no_ranges) {
        snprintf(line, sizeof line, "Range: bytes=%llu-%llu", (unsigned long long)t->at,
                 (unsigned long long)t->end - 1);
        good = good && add_line(t, line);
    }
    if (t->known) {
        snprintf(line, sizeof line, "%s: %s", is_tag ? "If-None-Match" : "If-Modified-Since",
                 validator);
        good = good && add_line(t, line);
    } else if (*validator == '"' && !t->asks) { /* HTTP has no If-Range with a weak one */
        snprintf(line, sizeof line, "If-Range: %s", validator);
        good = good && add_line(t, line);
    }
    return good;
}

static void end_request(struct transfer *t) {
    const struct curl *curl = t->file->curl;
    if (t->easy) {
        curl->multi_remove_handle(t->file->multi, t->easy);
        curl->easy_cleanup(t->easy);
    }
    curl->slist_free_all(t->headers);
    t->easy = t->headers = NULL;
}

static wisp_status begin_request(struct transfer *t, wisp_error *error) {
    const struct server_file *file = t->file;
    const struct curl *curl = file->curl;
    t->easy = curl->easy_init();
    if (!t->easy || !add_headers(t)) {
        end_request(t);
        return fail_memory(error, sizeof *t);
    }
    t->answer = (struct answer){.wait = -1};
    t->from = t->at;
    t->since = clock_seconds();
    t->judged = t->done = t->busy = false;
    *t->reason = '\0';
    http_set_common(curl, t->easy, file->url, file->timeout);
    curl->easy_setopt(t->easy, CURL_FOLLOW_LOCATION, 1L);
    curl->easy_setopt(t->easy, CURL_MAX_REDIRECTS, (long)MOST_REDIRECTS);
    curl->easy_setopt(t->easy, CURL_HTTP_HEADER, t->headers);
    curl->easy_setopt(t->easy, CURL_HEADER_FUNCTION, on_header);
    curl->easy_setopt(t->easy, CURL_HEADER_DATA, (void *)t);
    curl->easy_setopt(t->easy, CURL_WRITE_FUNCTION, on_body);
    curl->easy_setopt(t->easy, CURL_WRITE_DATA, (void *)t);
    curl->easy_setopt(t->easy, CURL_ERROR_BUFFER, t->reason);
    curl->easy_setopt(t->easy, CURL_PRIVATE, (void *)t);
    if (curl->multi_add_handle(file->multi, t->easy) != CURL_OK) {
        end_request(t);
        return fail_memory(error, sizeof *t);
    }
    t->file->requests++;
    return WISP_OK;
}

/* Fails because of a connection, whose `result` is libcurl's. */
static wisp_status fail_transfer(const struct transfer *t, int result, wisp_error *error) {
    const struct server_file *file = t->file;
    const char *reason = *t->reason          ? t->reason
                         : result != CURL_OK ? file->curl->easy_strerror(result)
                                             : "the server ended it";
    if (result == CURL_OUT_OF_MEMORY)
        return fail_memory(error, sizeof *t);
    if (result == CURL_TIMED_OUT && t->at > t->from)
        return fail(error, WISP_ERROR_IO, file->name, NULL,
                    "bytes %llu to %llu: the server sends fewer than %d bytes a second; %llu of "
                    "%llu bytes have come, the last %llu at %.1f a second",
                    (unsigned long long)t->start, (unsigned long long)t->end - 1, HTTP_SLOWEST,
                    (unsigned long long)(t->at - t->start), (unsigned long long)(t->end - t->start),
                    (unsigned long long)(t->at - t->from),
                    (double)(t->at - t->from) / (clock_seconds() - t->since));
    if (result == CURL_TIMED_OUT)
        return fail(error, WISP_ERROR_IO, file->name, NULL,
                    "the server has sent nothing for %ld seconds", file->timeout);
    if (t->answer.status == 0 || t->asks)
        return fail(error, WISP_ERROR_IO, file->name, NULL,
                    "cannot reach the server: %s. --offline uses what is in the cache", reason);
    return fail(error, WISP_ERROR_IO, file->name, NULL,
                "bytes %llu to %llu: the transfer ends after %llu of %llu bytes: %s",
                (unsigned long long)t->start, (unsigned long long)t->end - 1,
                (unsigned long long)(t->at - t->start), (unsigned long long)(t->end - t->start),
                reason);
}

/* Returns a factor from 1 to 1.25 for a pause: not all programs that were refused at one moment
 * come again at one moment. */
static double pause_factor(struct server_file *file) {
    return 1 + (double)(random_next(&file->random) >> 11) * 0x1p-55;
}

/* Deals with a request that has ended. Returns a failure that ends the call. */
static wisp_status finish(struct transfer *t, int result, wisp_error *error) {
    const bool lasting = result == CURL_UNSUPPORTED_PROTOCOL || result == CURL_BAD_URL ||
                         result == CURL_OUT_OF_MEMORY || result == CURL_TOO_MANY_REDIRECTS ||
                         result == CURL_BAD_CERTIFICATE || result == CURL_BAD_CA_FILE;
    end_request(t);
    if (result == CURL_OK && !t->judged)
        judge(t); /* the body was empty */
    if (t->asks && t->judged)
        t->done = true; /* the headers have said all */
    if (t->status == WISP_OK && !t->done && !lasting)
        flush(t);
    if (t->status != WISP_OK) {
        const double wait = t->answer.wait;
        if (!t->busy || ++t->failures == MOST_FAILURES || wait > longest_wait) {
            if (error)
                *error = t->error;
            return t->status;
        }
        t->again =
            clock_seconds() + (wait >= 0 ? wait : 0.5 * (1 << t->failures)) * pause_factor(t->file);
        t->status = WISP_OK;
        return WISP_OK;
    }
    if (t->done || t->at == t->end) {
        t->used = false;
        return WISP_OK;
    }
    t->again = 0;
    const uint64_t least = result == CURL_TIMED_OUT ? (uint64_t)t->file->timeout * HTTP_SLOWEST : 1;
    if (t->at >= t->reached + least)
        t->failures = 0;
    else if (lasting || t->failures == MOST_FAILURES)
        return fail_transfer(t, result, error);
    else
        t->again = clock_seconds() + 0.1 * (2 << t->failures++);
    t->reached = t->at > t->reached ? t->at : t->reached;
    return lasting ? fail_transfer(t, result, error) : WISP_OK;
}

/* Begins the requests whose time has come, and waits for some of all to end. Sets *busy to whether
 * transfers are left. */
static wisp_status step(struct server_file *file, struct transfer *transfers, size_t n, bool *busy,
                        wisp_error *error) {
    const struct curl *curl = file->curl;
    const double now = clock_seconds();
    int running, left;
    *busy = false;
    if (file->cancelled())
        return fail(error, WISP_ERROR_CANCELLED, file->name, NULL, "cancelled");
    for (size_t i = 0; i < n; i++) {
        struct transfer *t = &transfers[i];
        *busy = *busy || t->used;
        if (t->used && !t->easy && t->again <= now)
            TRY(begin_request(t, error));
    }
    if (!*busy)
        return WISP_OK;
    curl->multi_perform(file->multi, &running);
    bool ended = false;
    for (struct curl_message *message; (message = curl->multi_info_read(file->multi, &left));) {
        void *owner = NULL;
        if (message->message != CURL_MESSAGE_DONE)
            continue;
        curl->easy_getinfo(message->easy, CURL_INFO_PRIVATE, &owner);
        TRY(finish(owner, message->data.result, error));
        ended = true;
    }
    if (!ended)
        curl->multi_poll(file->multi, NULL, 0, POLL_MILLISECONDS, NULL);
    return WISP_OK;
}

wisp_status server_file_ask(struct server_file *file, const struct file_state *known,
                            wisp_error *error) {
    struct transfer ask = {.file = file,
                           .known = known && *known->validator ? known : NULL,
                           .asks = true,
                           .used = true,
                           .end = 1};
    wisp_status status = WISP_OK;
    bool busy = true;
    file->changed = file->no_ranges = false;
    file->state = (struct file_state){0};
    while (status == WISP_OK && busy)
        status = step(file, &ask, 1, &busy, error);
    end_request(&ask);
    return status;
}

/* Makes a transfer of the next absent bytes of ranges. *next is the range that is looked at, and
 * *from the first byte that was not looked at. */
static wisp_status take_next(struct server_file *file, const wisp_range *ranges, size_t n,
                             size_t *next, uint64_t *from, struct transfer *t, wisp_error *error) {
    wisp_range absent = {0};
    for (; *next < n && absent.length == 0; *next += absent.length == 0) {
        const wisp_range range = ranges[*next];
        const uint64_t start = *from > range.offset ? *from : range.offset;
        TRY(cached_file_absent(file->into, start, range.offset + range.length, &absent, error));
    }
    if (absent.length == 0)
        return WISP_OK;
    *from = absent.offset + absent.length;
    unsigned char *buffer = t->buffer ? t->buffer : malloc(BUFFER_BYTES);
    if (!buffer)
        return fail_memory(error, BUFFER_BYTES);
    *t = (struct transfer){.file = file,
                           .used = true,
                           .buffer = buffer,
                           .start = absent.offset,
                           .at = absent.offset,
                           .end = *from,
                           .reached = absent.offset};
    if (file->no_ranges) {
        file->whole = t;
        t->start = t->at = t->reached = 0;
        t->end = file->state.size;
    }
    return WISP_OK;
}

wisp_status server_file_fetch(struct server_file *file, const wisp_range *ranges, size_t n,
                              wisp_error *error) {
    struct transfer transfers[MOST_FLIGHTS] = {{0}};
    wisp_status status = WISP_OK;
    size_t next = 0;
    uint64_t from = 0;
    bool busy = true;
    file->whole = NULL;
    while (status == WISP_OK && busy) {
        for (size_t i = 0; i < MOST_FLIGHTS && status == WISP_OK; i++)
            if (!transfers[i].used && (!file->whole || !file->whole->used))
                status = take_next(file, ranges, n, &next, &from, &transfers[i], error);
        if (status == WISP_OK)
            status = step(file, transfers, MOST_FLIGHTS, &busy, error);
    }
    for (size_t i = 0; i < MOST_FLIGHTS; i++) {
        if (transfers[i].file)
            end_request(&transfers[i]);
        free(transfers[i].buffer);
    }
    file->whole = NULL;
    return status;
}
