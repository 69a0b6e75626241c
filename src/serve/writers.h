/* SPDX-License-Identifier: Apache-2.0
 * Sessions that write text, lent to one request each. A request that finds all of them busy waits
 * for its turn. A session keeps its last text, so a conversation that goes on is read from there:
 * the session that knows most of its beginning is the one that was used last. */
#ifndef WISP_SERVE_WRITERS_H
#define WISP_SERVE_WRITERS_H

#include "base/status.h"

struct writers;

struct writers_options {
    const wisp_model *model;
    wisp_session_options session;
    float sparsity;           /* 0: the model's */
    uint64_t kv_memory;       /* 0: no limit */
    const char *prompt_cache; /* NULL: none */
    uint64_t prompt_cache_bytes;
    size_t sessions;     /* that are opened at most */
    size_t most_waiting; /* requests; more are refused */
};

struct writers_counts {
    size_t writing, waiting;
};

wisp_status writers_open(const struct writers_options *options, struct writers **writers,
                         wisp_error *error);

/* Cancels what is written, and frees the sessions when all are back. NULL is allowed. */
void writers_close(struct writers *writers);

/* Waits for a session. Sets *busy and returns WISP_ERROR_MEMORY if too many requests wait. */
wisp_status writers_take(struct writers *writers, wisp_session **session, bool *busy,
                         wisp_error *error);
void writers_give(struct writers *writers, wisp_session *session);

struct writers_counts writers_get_counts(struct writers *writers);

#endif
