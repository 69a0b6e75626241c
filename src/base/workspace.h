/* SPDX-License-Identifier: Apache-2.0
 * Working memory: one block that only grows, of which parts are taken one after the other.
 *
 * A function that takes parts also measures them: called with a workspace of zeros, it takes parts
 * that are NULL, and `used` then says how many bytes it needs. So one list of parts gives both the
 * size of the block and the places in it:
 *
 *     static void take_parts(struct parts *p, struct workspace *space, size_t n) {
 *         p->x = workspace_take(space, n, 8, sizeof *p->x);
 *         p->y = workspace_take(space, 1, n, sizeof *p->y);
 *     }
 *     struct workspace measured = {0};
 *     take_parts(&parts, &measured, n);
 *     TRY(workspace_reserve(&space, measured.used, error));
 *     take_parts(&parts, &space, n);
 *
 * A workspace that is passed by value lends what is left of it: what the callee takes is free again
 * when it returns. */
#ifndef WISP_BASE_WORKSPACE_H
#define WISP_BASE_WORKSPACE_H

#include <stddef.h>

#include "base/status.h"

struct workspace {
    void *base; /* NULL: measuring */
    size_t capacity;
    size_t used; /* in bytes; SIZE_MAX when measured parts are more than can be addressed */
};

/* Makes room for `bytes` and forgets what was taken before. SIZE_MAX always fails. */
wisp_status workspace_reserve(struct workspace *space, size_t bytes, wisp_error *error);

/* rows x row_length items of item_bytes each, uninitialised and aligned to MEMORY_ALIGNMENT. To
 * take more than was reserved is a fault of the caller. While measuring: NULL. */
void *workspace_take(struct workspace *space, size_t rows, size_t row_length, size_t item_bytes);

/* `bytes` of the workspace as one of its own; while measuring, one that measures. */
struct workspace workspace_part(struct workspace *space, size_t bytes);

/* Frees the block of a workspace that workspace_reserve has made. */
void workspace_release(struct workspace *space);

#endif
