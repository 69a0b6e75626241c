/* SPDX-License-Identifier: Apache-2.0
 * Decides by the headers Host and Origin which requests are answered.
 *
 * A page in a browser may send requests to every server that its machine reaches, whoever wrote the
 * page. The browser says the page's origin in them. It does not if the page's own name leads to the
 * server, as a hostile DNS server may say at any time; such requests have that name as their host.
 * Source: RFC 6454 (Origin); the Fetch standard (CORS). */
#ifndef WISP_SERVE_VISITORS_H
#define WISP_SERVE_VISITORS_H

#include <stdbool.h>
#include <stddef.h>

enum { MOST_VISITORS = 32 };

struct visitor_list {
    const char *names[MOST_VISITORS]; /* "*": all */
    size_t n;
};

struct visitors {
    bool loopback;               /* the server listens to this machine only */
    struct visitor_list hosts;   /* names that requests may ask for beside this machine's */
    struct visitor_list origins; /* of pages that may ask beside those of this machine */
};

/* Returns whether a host, without a port and without brackets, is this machine for itself. */
bool is_loopback_host(const char *host, size_t length);

/* Returns whether a text may be a name in `origins`: scheme://host or scheme://host:port, null, *.
 */
bool is_origin(const char *text);

/* Returns whether a request with this Host is answered. NULL: it has none. Servers that listen to
 * others have names that only those know, so that any is. */
bool visitors_have_host(const struct visitors *visitors, const char *host);

/* Returns whether the request of a page of this origin is answered: one of the list, of this
 * machine, or the server itself by the name that the request asks for. */
bool visitors_have_origin(const struct visitors *visitors, const char *origin, const char *host);

#endif
