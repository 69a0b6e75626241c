/* SPDX-License-Identifier: Apache-2.0
 * An arena: many allocations of one lifetime, released together. */
#ifndef WISP_BASE_ARENA_H
#define WISP_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"

struct arena_block;

struct arena {
    struct arena_block *block; /* the newest, where allocations are carved; NULL at first */
    size_t used;               /* bytes carved from it */
    size_t total;              /* bytes held in all blocks */
};

/* `bytes` zeroed bytes aligned to 16, or NULL when there is no memory. */
void *arena_allocate(struct arena *arena, size_t bytes);

/* Points `pointer` to room for `count` zeroed items of the type it points to. Where there is no
 * memory the calling function returns WISP_ERROR_MEMORY. `count` has no side effects. */
#define ARENA_TAKE(arena, pointer, count, error)                                                   \
    do {                                                                                           \
        (pointer) = arena_allocate(arena, (count) * sizeof *(pointer));                            \
        if (!(pointer))                                                                            \
            return fail_memory(error, (count) * sizeof *(pointer));                                \
    } while (0)

/* A terminated copy of `length` bytes, or NULL. */
char *arena_copy_text(struct arena *arena, const char *text, size_t length);

/* Releases everything; the arena is empty and usable again. */
void arena_release(struct arena *arena);

#endif
