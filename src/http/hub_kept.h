/* SPDX-License-Identifier: Apache-2.0
 * What the Hub's cache holds, whichever program has fetched it. */
#ifndef WISP_HTTP_HUB_KEPT_H
#define WISP_HTTP_HUB_KEPT_H

#include "http/hub_names.h"

/* A GGUF file, or the other files of a snapshot, if they have weights. */
struct hub_kept {
    const char *name; /* by which it is found: with its commit unless that is "main" */
    const char *path;
    uint64_t bytes;
    int64_t used; /* when it was read last, as far as the file system says: seconds since 1970 */
};

/* Calls `visit` for each model of the cache. Fails as hub_cache_folder does. */
wisp_status hub_visit_kept(void (*visit)(void *context, const struct hub_kept *kept), void *context,
                           wisp_error *error);

/* Deletes what the cache holds by a name, and the blobs that nothing else has. What is elsewhere,
 * to which a user has made a link, stays. Adds the bytes that are free now to *freed, and the files
 * to *n. */
wisp_status hub_remove_kept(const struct hub_name *name, uint64_t *freed, size_t *n,
                            wisp_error *error);

#endif
