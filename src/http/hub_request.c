/* SPDX-License-Identifier: Apache-2.0 */
#include "http/hub_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/random.h"

enum { MOST_TRIES = 4, MOST_REDIRECTS = 10, POLL_MILLISECONDS = 50 };

static const double first_pause = 0.5; /* seconds */

/* Seconds: a server that wants a longer pause is not waited for. */
static const double longest_pause = 30;

/* A request on its way. */
struct flight {
    struct hub_client *client;
    struct hub_request *request;
    struct hub_answer *answer;
    bool begun; /* the body is the one that is wanted, and not that of a refusal */
    wisp_status status;
    wisp_error *error;
};

wisp_status hub_client_open(struct hub_client *client, const char *url, bool (*cancelled)(void),
                            wisp_error *error) {
    *client =
        (struct hub_client){.cancelled = cancelled, .random = (uint64_t)(clock_seconds() * 1e9)};
    TRY(http_read_timeout(&client->timeout, error));
    TRY(curl_load(url, &client->curl, error));
    client->multi = client->curl->multi_init();
    return client->multi ? WISP_OK : fail_memory(error, sizeof *client);
}

void hub_client_close(struct hub_client *client) {
    if (client->multi)
        client->curl->multi_cleanup(client->multi);
    client->multi = NULL;
}

static wisp_status fail_cancelled(wisp_error *error) {
    return fail(error, WISP_ERROR_CANCELLED, NULL, NULL, "cancelled");
}

wisp_status hub_client_pause(const struct hub_client *client, double seconds, wisp_error *error) {
    const struct timespec step = {.tv_nsec = POLL_MILLISECONDS * 1000000L};
    for (const double end = clock_seconds() + seconds; clock_seconds() < end;) {
        if (client->cancelled())
            return fail_cancelled(error);
        nanosleep(&step, NULL);
    }
    return WISP_OK;
}

/* ---- addresses ------------------------------------------------------------------------------ */

/* Returns the length of an address without its query, which may hold a signature. */
static int plain(const char *url) {
    return (int)strcspn(url, "?#");
}

/* Returns the length of scheme, host and port. */
static size_t origin_length(const char *url) {
    const char *host = strstr(url, "://");
    return host ? (size_t)(host + 3 - url) + strcspn(host + 3, "/?#") : 0;
}

static bool is_web_address(const char *url) {
    return strncasecmp(url, "https://", 8) == 0 || strncasecmp(url, "http://", 7) == 0;
}

static bool has_password(const char *url) {
    const char *host = strstr(url, "://");
    return host && memchr(host + 3, '@', strcspn(host + 3, "/?#"));
}

/* Finds where a redirect leads, which must be as safe as where it comes from. `url` becomes the new
 * address. */
static wisp_status redirect(char *url, const char *location, wisp_error *error) {
    char next[URL_BYTES];
    int length;
    if (is_web_address(location))
        length = snprintf(next, sizeof next, "%s", location);
    else if (location[0] == '/' && location[1] != '/')
        length = snprintf(next, sizeof next, "%.*s%s", (int)origin_length(url), url, location);
    else
        length = -1;
    if (length < 0 || (size_t)length >= sizeof next || has_password(next))
        return fail(error, WISP_ERROR_IO, NULL, NULL, "%.*s does not lead to a file", plain(url),
                    url);
    if (http_is_encrypted(url) && !http_is_encrypted(next))
        return fail(error, WISP_ERROR_IO, NULL, NULL, "%.*s leads to %.*s, which is not encrypted",
                    plain(url), url, plain(next), next);
    memcpy(url, next, (size_t)length + 1);
    return WISP_OK;
}

/* ---- answers -------------------------------------------------------------------------------- */

static size_t on_header(char *line, size_t size, size_t n, void *context) {
    const struct flight *f = context;
    struct hub_answer *a = f->answer;
    const size_t length = size * n;
    if (answer_take_line(&a->common, line, length)) {
        *a = (struct hub_answer){.common = a->common};
        return length;
    }
    answer_copy_header(line, length, "Location", a->location, sizeof a->location);
    answer_copy_header(line, length, "X-Repo-Commit", a->commit, sizeof a->commit);
    answer_copy_header(line, length, "X-Linked-ETag", a->linked_etag, sizeof a->linked_etag);
    answer_copy_header(line, length, "X-Linked-Size", a->linked_size, sizeof a->linked_size);
    answer_copy_header(line, length, "X-Error-Code", a->error_code, sizeof a->error_code);
    answer_copy_header(line, length, "X-Error-Message", a->error_message, sizeof a->error_message);
    return length;
}

/* Takes a part of a body. Returning less than its length ends the request. */
static size_t on_body(char *bytes, size_t size, size_t n, void *context) {
    struct flight *f = context;
    const long status = f->answer->common.status;
    if ((status != 200 && status != 206) || !f->request->take)
        return 0;
    if (!f->begun) {
        f->begun = true;
        f->status = f->request->begin(f->request->context, f->answer, f->error);
    }
    if (f->status == WISP_OK)
        f->status = f->request->take(f->request->context, bytes, size * n, f->error);
    return f->status == WISP_OK ? size * n : 0;
}

static bool is_for_now(long status) {
    return status == 408 || status == 429;
}

static const char *remedy(const struct hub_answer *a, bool has_token) {
    static const struct {
        const char *code, *remedy;
    } known[] = {
        {"GatedRepo", "the model is gated: ask for access on its page, and give a token with "
                      "access (HF_TOKEN)"},
        {"RevisionNotFound", "the repository has no such revision"},
        {"EntryNotFound", "the revision has no such file"},
    };
    const long status = a->common.status;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(a->error_code, known[i].code) == 0)
            return known[i].remedy;
    if (status == 401 || status == 403 || strcmp(a->error_code, "RepoNotFound") == 0)
        return has_token ? "it does not exist, or the token has no access: ask for access on its "
                           "page, or give another token"
                         : "it does not exist, or is private or gated: give a token with access "
                           "(HF_TOKEN)";
    if (status == 404)
        return "check the name, the revision and the file";
    if (status == 429)
        return "too many requests: try again later, or give a token (HF_TOKEN)";
    return status >= 500 ? "the server is out of order: try again later, or use what is in the "
                           "cache with --offline"
                         : "check the name";
}

/* Fails because of an answer. The server's own words may repeat the token. */
static wisp_status refuse(const struct hub_client *client, const char *url,
                          const struct hub_answer *a, wisp_error *error) {
    const bool echoes = client->token && strstr(a->error_message, client->token);
    const bool missing = a->common.status == 404 || strcmp(a->error_code, "RepoNotFound") == 0;
    return fail(error, missing ? WISP_ERROR_NOT_FOUND : WISP_ERROR_IO, NULL, NULL,
                "cannot fetch %.*s: HTTP %ld%s%s: %s", plain(url), url, a->common.status,
                *a->error_message ? " " : "", echoes ? "(token)" : a->error_message,
                remedy(a, client->token != NULL));
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Adds the headers of a request. Returns false if there is no memory. */
static bool add_headers(const struct flight *f, bool with_token, void **headers) {
    const struct curl *curl = f->client->curl;
    char line[URL_BYTES];
    *headers = curl->slist_append(NULL, "Accept-Encoding: identity");
    if (*headers && f->request->from > 0) {
        snprintf(line, sizeof line, "Range: bytes=%llu-", (unsigned long long)f->request->from);
        void *longer = curl->slist_append(*headers, line);
        if (!longer)
            return false;
        *headers = longer;
    }
    if (*headers && with_token) {
        snprintf(line, sizeof line, "Authorization: Bearer %s", f->client->token);
        void *longer = curl->slist_append(*headers, line);
        if (!longer)
            return false;
        *headers = longer;
    }
    return *headers != NULL;
}

/* Waits until the request has ended. Returns false if it was cancelled before. */
static bool wait_for(const struct hub_client *client, int *result) {
    for (;;) {
        int running, left;
        if (client->cancelled())
            return false;
        client->curl->multi_perform(client->multi, &running);
        const struct curl_message *message = client->curl->multi_info_read(client->multi, &left);
        if (message && message->message == CURL_MESSAGE_DONE) {
            *result = message->data.result;
            return true;
        }
        client->curl->multi_poll(client->multi, NULL, 0, POLL_MILLISECONDS, NULL);
    }
}

/* Fails because of a connection. */
static wisp_status fail_connection(const struct flight *f, const char *url, int result,
                                   const char *reason, wisp_error *error) {
    if (result == CURL_OUT_OF_MEMORY)
        return fail_memory(error, sizeof *f);
    f->client->broke = f->client->outage = true;
    if (result == CURL_TIMED_OUT)
        return fail(error, WISP_ERROR_IO, NULL, NULL,
                    "%.*s: the server has sent fewer than %d bytes a second for %ld seconds",
                    plain(url), url, HTTP_SLOWEST, f->client->timeout);
    return fail(error, WISP_ERROR_IO, NULL, NULL,
                "cannot reach %.*s: %s. A model that was pulled before is found without it by "
                "--offline",
                plain(url), url, *reason ? reason : f->client->curl->easy_strerror(result));
}

/* Asks one server, once. Fails only if no answer came, or what came could not be taken. */
static wisp_status ask(struct flight *f, const char *url, bool with_token, wisp_error *error) {
    const struct hub_client *client = f->client;
    const struct curl *curl = client->curl;
    char reason[CURL_ERROR_BYTES] = "";
    void *headers = NULL, *easy = curl->easy_init();
    int result = CURL_OUT_OF_MEMORY;
    *f->answer = (struct hub_answer){.common = {.wait = -1}};
    f->begun = false;
    f->status = WISP_OK;
    bool done = true;
    if (easy && add_headers(f, with_token, &headers)) {
        http_set_common(curl, easy, url, client->timeout);
        curl->easy_setopt(easy, CURL_NO_BODY, (long)f->request->head);
        curl->easy_setopt(easy, CURL_HTTP_HEADER, headers);
        curl->easy_setopt(easy, CURL_HEADER_FUNCTION, on_header);
        curl->easy_setopt(easy, CURL_HEADER_DATA, (void *)f);
        curl->easy_setopt(easy, CURL_WRITE_FUNCTION, on_body);
        curl->easy_setopt(easy, CURL_WRITE_DATA, (void *)f);
        curl->easy_setopt(easy, CURL_ERROR_BUFFER, reason);
        if (curl->multi_add_handle(client->multi, easy) == CURL_OK) {
            done = wait_for(client, &result);
            curl->multi_remove_handle(client->multi, easy);
        }
    }
    if (easy)
        curl->easy_cleanup(easy);
    curl->slist_free_all(headers);
    if (!done)
        return fail_cancelled(error);
    if (f->status != WISP_OK)
        return f->status;
    /* The body of a refusal was not read to its end. */
    const long status = f->answer->common.status;
    if (result == CURL_OK || (status >= 300 && status < 600))
        return WISP_OK;
    return fail_connection(f, url, result, reason, error);
}

/* Asks, and follows redirects. */
static wisp_status follow(struct flight *f, wisp_error *error) {
    char url[URL_BYTES];
    bool with_token = f->client->token != NULL;
    snprintf(url, sizeof url, "%s", f->request->url);
    for (int hops = 0; hops < MOST_REDIRECTS; hops++) {
        const size_t origin = origin_length(url);
        TRY(ask(f, url, with_token, error));
        const struct hub_answer *a = f->answer;
        const bool describes = f->request->ends_at_link && *a->linked_etag && *a->commit;
        if (a->common.status < 300 || a->common.status >= 400 || !*a->location || describes)
            return WISP_OK;
        char before[URL_BYTES];
        memcpy(before, url, sizeof before);
        TRY(redirect(url, a->location, error));
        with_token =
            with_token && origin_length(url) == origin && strncasecmp(before, url, origin) == 0;
    }
    return fail(error, WISP_ERROR_IO, NULL, NULL, "%s: more than %d redirects", f->request->url,
                MOST_REDIRECTS);
}

wisp_status hub_request_run(struct hub_client *client, struct hub_request *request,
                            struct hub_answer *answer, wisp_error *error) {
    struct flight flight = {.client = client, .request = request, .answer = answer, .error = error};
    client->broke = client->outage = false;
    if (!is_web_address(request->url) || has_password(request->url))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "HF_ENDPOINT",
                    "expected the https:// address of a host, without name and password");
    for (int tries = 1;; tries++) {
        TRY(follow(&flight, error));
        const long status = answer->common.status;
        if (status < 400)
            return WISP_OK;
        const bool passes = is_for_now(status) || (status >= 500 && status != 501);
        const double wait = answer->common.wait;
        const double pause = wait >= 0 ? wait : first_pause * (1 << tries);
        client->outage = is_for_now(status) || status >= 500;
        if (!passes || tries == MOST_TRIES || pause > longest_pause)
            return refuse(client, request->url, answer, error);
        /* Not all programs that were refused at one moment come again at one moment. */
        const double factor = 1 + (double)(random_next(&client->random) >> 11) * 0x1p-55;
        TRY(hub_client_pause(client, pause * factor, error));
    }
}
