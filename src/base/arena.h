/* SPDX-License-Identifier: Apache-2.0
 * An arena holds many allocations that are released together. */
#ifndef WISP_BASE_ARENA_H
#define WISP_BASE_ARENA_H

#include <stddef.h>

#include "base/checked.h"
#include "base/status.h"

struct arena_block;

struct arena {
    struct arena_block *block; /* the newest block, which serves allocations; NULL at first */
    size_t used;               /* bytes of the newest block that are in use */
    size_t total;              /* bytes in all blocks */
};

/* Returns `bytes` zeroed bytes, aligned to 16, or NULL if there is no memory. */
void *arena_allocate(struct arena *arena, size_t bytes);

/* Points `pointer` to room for `count` zeroed items of the type it points to. If there is no
 * memory the calling function returns WISP_ERROR_MEMORY. `count` must not have side effects. */
#define ARENA_TAKE(arena, pointer, count, error)                                                   \
    do {                                                                                           \
        (pointer) = arena_allocate(arena, array_bytes(count, sizeof *(pointer)));                  \
        if (!(pointer))                                                                            \
            return fail_memory(error, array_bytes(count, sizeof *(pointer)));                      \
    } while (0)

/* Copies `length` bytes and adds a terminating 0. Returns NULL if there is no memory. */
char *arena_copy_text(struct arena *arena, const char *text, size_t length);

/* Releases all allocations. The arena can be used again. */
void arena_release(struct arena *arena);

#endif
