/* SPDX-License-Identifier: Apache-2.0 */
#include "http/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void answer_copy_header(const char *line, size_t length, const char *name, char *value,
                        size_t capacity) {
    const size_t name_length = strlen(name);
    if (length <= name_length || line[name_length] != ':' ||
        strncasecmp(line, name, name_length) != 0)
        return;
    const char *from = line + name_length + 1, *end = line + length;
    while (from < end && (*from == ' ' || *from == '\t'))
        from++;
    while (end > from && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
        end--;
    snprintf(value, capacity, "%.*s", (int)(end - from), from);
}

bool answer_take_line(struct answer *a, const char *line, size_t length) {
    char number[32] = "";
    if (length > 5 && memcmp(line, "HTTP/", 5) == 0) {
        const char *space = memchr(line, ' ', length);
        *a = (struct answer){.wait = -1};
        for (const char *c = space ? space + 1 : line + length;
             c < line + length && *c >= '0' && *c <= '9' && a->status < 1000; c++)
            a->status = a->status * 10 + (*c - '0');
        return true;
    }
    answer_copy_header(line, length, "ETag", a->etag, sizeof a->etag);
    answer_copy_header(line, length, "Last-Modified", a->modified, sizeof a->modified);
    answer_copy_header(line, length, "Content-Range", a->range, sizeof a->range);
    answer_copy_header(line, length, "Content-Encoding", a->encoding, sizeof a->encoding);
    answer_copy_header(line, length, "Content-Length", number, sizeof number);
    if (*number)
        a->length = strtoull(number, NULL, 10);
    *number = '\0';
    answer_copy_header(line, length, "Retry-After", number, sizeof number);
    if (*number >= '0' && *number <= '9') /* else it is a date, and the usual pause is made */
        a->wait = strtod(number, NULL);
    return false;
}

bool answer_read_range(const char *text, unsigned long long numbers[3]) {
    static const char ends[] = {'-', '/', '\0'};
    if (strncasecmp(text, "bytes ", 6) != 0)
        return false;
    text += 6;
    for (int i = 0; i < 3; i++) {
        char *end;
        errno = 0;
        numbers[i] = strtoull(text, &end, 10);
        if (*text < '0' || *text > '9' || errno != 0 || *end != ends[i])
            return false;
        text = end + 1;
    }
    return true;
}

wisp_status http_read_timeout(long *seconds, wisp_error *error) {
    const char *text = getenv("WISP_HTTP_TIMEOUT");
    char *end;
    *seconds = text ? strtol(text, &end, 10) : HTTP_TIMEOUT_SECONDS;
    if (text && (end == text || *end != '\0' || *seconds < 1 || *seconds > 86400))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "WISP_HTTP_TIMEOUT",
                    "%s: expected a number of seconds from 1 to 86400", text);
    return WISP_OK;
}

bool http_is_encrypted(const char *url) {
    return strncasecmp(url, "https", 5) == 0;
}

void http_set_common(const struct curl *curl, void *easy, const char *url, long timeout) {
    const long protocols = CURL_PROTOCOL_HTTPS | (http_is_encrypted(url) ? 0 : CURL_PROTOCOL_HTTP);
    const char *authorities = getenv("CURL_CA_BUNDLE");
    if (!authorities || !*authorities)
        authorities = getenv("SSL_CERT_FILE");
    curl->easy_setopt(easy, CURL_URL, url);
    curl->easy_setopt(easy, CURL_PROTOCOLS, protocols);
    curl->easy_setopt(easy, CURL_REDIRECT_PROTOCOLS, protocols);
    curl->easy_setopt(easy, CURL_NO_SIGNAL, 1L);
    curl->easy_setopt(easy, CURL_CONNECT_TIMEOUT, timeout);
    curl->easy_setopt(easy, CURL_LOW_SPEED_LIMIT, (long)HTTP_SLOWEST);
    curl->easy_setopt(easy, CURL_LOW_SPEED_TIME, timeout);
    curl->easy_setopt(easy, CURL_USER_AGENT, "wisp/" WISP_VERSION);
    if (authorities && *authorities)
        curl->easy_setopt(easy, CURL_CA_FILE, authorities);
}
