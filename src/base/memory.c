/* SPDX-License-Identifier: Apache-2.0 */
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>

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
