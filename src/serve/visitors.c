/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/visitors.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_ORIGIN = 255 }; /* it becomes a header of the reply */

struct part {
    const char *at;
    size_t length;
};

/* Returns the host of "host", "host:port" or "[host]:port", without the brackets. */
static struct part host_of(const char *authority) {
    const bool bracketed = *authority == '[';
    const char *at = authority + bracketed;
    return (struct part){at, strcspn(at, bracketed ? "]" : ":")};
}

/* Returns what follows the scheme of an origin, or NULL. */
static const char *authority_of(const char *origin) {
    const char *colon = strstr(origin, "://");
    return colon && colon > origin ? colon + 3 : NULL;
}

static bool is_word(struct part part, const char *word) {
    return part.length == strlen(word) && strncasecmp(part.at, word, part.length) == 0;
}

static bool ends_with(struct part part, const char *end) {
    const size_t length = strlen(end);
    return part.length > length && strncasecmp(part.at + part.length - length, end, length) == 0;
}

bool is_loopback_host(const char *host, size_t length) {
    const struct part part = {host, length};
    char text[INET_ADDRSTRLEN];
    unsigned char bytes[4];
    if (is_word(part, "localhost") || ends_with(part, ".localhost") || is_word(part, "::1"))
        return true;
    if (length >= sizeof text)
        return false;
    memcpy(text, host, length);
    text[length] = 0;
    /* 127.example.com is not an address of this machine. */
    return inet_pton(AF_INET, text, bytes) == 1 && bytes[0] == 127;
}

static bool is_listed(const struct visitor_list *list, struct part name) {
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->names[i], "*") == 0 || is_word(name, list->names[i]))
            return true;
    return false;
}

bool is_origin(const char *text) {
    const char *authority = authority_of(text);
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0)
        return true;
    return authority && *authority && !strpbrk(authority, "/?#@ *") &&
           strlen(text) <= LONGEST_ORIGIN;
}

bool visitors_have_host(const struct visitors *visitors, const char *host) {
    if (!visitors->loopback)
        return true;
    if (!host)
        return false;
    const struct part name = host_of(host);
    return is_loopback_host(name.at, name.length) || is_listed(&visitors->hosts, name);
}

bool visitors_have_origin(const struct visitors *visitors, const char *origin, const char *host) {
    const size_t length = strlen(origin);
    if (length > LONGEST_ORIGIN)
        return false;
    if (is_listed(&visitors->origins, (struct part){origin, length}))
        return true;
    const char *authority = authority_of(origin);
    if (!authority || strncasecmp(origin, "http", 4) != 0)
        return false;
    const struct part name = host_of(authority);
    return is_loopback_host(name.at, name.length) || (host && strcasecmp(authority, host) == 0);
}
