/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *memory_allocate(size_t bytes) {
    if (bytes > SIZE_MAX - MEMORY_ALIGNMENT)
        return NULL;
    if (bytes == 0)
        bytes = 1;
    /* aligned_alloc requires a multiple of the alignment. */
    bytes = (bytes + MEMORY_ALIGNMENT - 1) & ~(size_t)(MEMORY_ALIGNMENT - 1);
#ifdef _WIN32
    return _aligned_malloc(bytes, MEMORY_ALIGNMENT);
#else
    return aligned_alloc(MEMORY_ALIGNMENT, bytes);
#endif
}

void memory_free(void *block) {
#ifdef _WIN32
    _aligned_free(block);
#else
    free(block);
#endif
}

/* The aligned part begins 1 to MEMORY_ALIGNMENT bytes after the start of calloc's block. That
 * distance is a multiple of calloc's own alignment, which suits a pointer, so there is room before
 * the aligned part for the block's address. */
void *memory_allocate_zeros(size_t bytes) {
    char *block = bytes < SIZE_MAX - MEMORY_ALIGNMENT ? calloc(1, bytes + MEMORY_ALIGNMENT) : NULL;
    if (!block)
        return NULL;
    char *aligned = block + (MEMORY_ALIGNMENT - (uintptr_t)block % MEMORY_ALIGNMENT);
    memcpy(aligned - sizeof block, &block, sizeof block);
    return aligned;
}

void memory_free_zeros(void *block) {
    char *start = NULL;
    if (block)
        memcpy(&start, (char *)block - sizeof start, sizeof start);
    free(start);
}
