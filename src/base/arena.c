/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { ARENA_ALIGNMENT = 16, FIRST_BYTES = 4096 };

/* A build that sets this to 1 gives each allocation a block of its own, so that sanitizers notice
 * every access past its end. */
#ifndef ARENA_BLOCK_BYTES
#define ARENA_BLOCK_BYTES (64 * 1024)
#endif

struct arena_block {
    struct arena_block *previous;
    size_t capacity;
    _Alignas(ARENA_ALIGNMENT) unsigned char bytes[];
};

void *arena_allocate(struct arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return NULL;
    if (bytes == 0)
        bytes = 1;
    if (!arena->block || bytes > arena->block->capacity - arena->used) {
        /* As much as there is: a request of a few values does not clear 64 KB for them. */
        const size_t block_bytes = smaller(larger(arena->total, FIRST_BYTES), ARENA_BLOCK_BYTES);
        const size_t capacity = larger(bytes, block_bytes);
        struct arena_block *block = calloc(1, sizeof *block + capacity);
        if (!block)
            return NULL;
        block->previous = arena->block;
        block->capacity = capacity;
        arena->block = block;
        arena->used = 0;
        arena->total += capacity;
    }
    void *result = arena->block->bytes + arena->used;
    const size_t rounded = round_up(bytes, ARENA_ALIGNMENT),
                 left = arena->block->capacity - arena->used;
    arena->used += rounded < left ? rounded : left;
    return result;
}

char *arena_copy_text(struct arena *arena, const char *text, size_t length) {
    if (length == SIZE_MAX)
        return NULL;
    char *copy = arena_allocate(arena, length + 1);
    if (copy && length)
        memcpy(copy, text, length);
    return copy;
}

void arena_release(struct arena *arena) {
    while (arena->block) {
        struct arena_block *previous = arena->block->previous;
        free(arena->block);
        arena->block = previous;
    }
    arena->used = arena->total = 0;
}
