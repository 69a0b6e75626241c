/* SPDX-License-Identifier: Apache-2.0
 * Lets a test be linked without --wrap, and ask whether it was: with it, the linker sends what
 * allocations.c calls __real_malloc to malloc itself, and nothing here is used. */
#include <stdlib.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);

void *__real_malloc(size_t size) {
    return malloc(size);
}

void *__real_calloc(size_t count, size_t size) {
    return calloc(count, size);
}

void *__real_realloc(void *block, size_t size) {
    return realloc(block, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size) {
    return aligned_alloc(alignment, size);
}

void __real_free(void *block) {
    free(block);
}
