/* SPDX-License-Identifier: Apache-2.0
 * Working memory: one block that only grows, from which a function takes one part after the other.
 *
 * The function that takes the parts also measures them: if it is called with a workspace of
 * zeros, its parts are NULL, and `used` becomes the number of bytes that it needs. So one list of
 * parts defines both the size of the block and the places in it:
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
 * A caller passes a workspace by value to lend its free part: when the callee returns, the parts
 * that it took are free again. */
#ifndef WISP_BASE_WORKSPACE_H
#define WISP_BASE_WORKSPACE_H

#include <stddef.h>

#include "base/status.h"

struct workspace {
    void *base;      /* the block; NULL while parts are measured */
    size_t capacity; /* the block's bytes */
    size_t used;     /* bytes that were taken; SIZE_MAX if measured parts exceed a size_t */
};

/* Makes room for `bytes` bytes and frees the parts that were taken before. Fails if there is no
 * memory, and always for SIZE_MAX. */
wisp_status workspace_reserve(struct workspace *space, size_t bytes, wisp_error *error);

/* Takes rows x row_length items of item_bytes each, uninitialised and aligned to MEMORY_ALIGNMENT.
 * The caller must not take more than it has reserved. Returns NULL while parts are measured. */
void *workspace_take(struct workspace *space, size_t rows, size_t row_length, size_t item_bytes);

/* Takes `bytes` bytes and returns them as a workspace of their own. While parts are measured, the
 * result measures too. */
struct workspace workspace_part(struct workspace *space, size_t bytes);

/* Frees the block of a workspace that workspace_reserve has made. */
void workspace_release(struct workspace *space);

#endif
