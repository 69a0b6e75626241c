/* SPDX-License-Identifier: Apache-2.0 */
#include "support/allocations.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

/* The linker's names for the functions that it wraps (WRAPPED in the Makefile). */
void *__real_malloc(size_t size);
void *__real_realloc(void *block, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *block);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *block, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __wrap_free(void *block);

static const uint64_t MOST = UINT64_C(1) << 30;

/* Atomic, because sessions have threads of their own. */
static atomic_uint_least64_t calls, largest, bytes;
static atomic_int_least64_t live;
static atomic_uint_least64_t until_failure;
static atomic_bool armed, onwards, failed;

bool allocations_are_watched(void) {
    void *volatile block = malloc(1);
    const uint64_t before = calls;
    free(block);
    block = malloc(1);
    free(block);
    return calls == before + 1;
}

void allocations_watch(void) {
    calls = largest = bytes = 0;
    live = 0;
    failed = false;
}

struct allocations allocations_seen(void) {
    return (struct allocations){
        .calls = calls, .largest = largest, .bytes = bytes, .live = live, .failed = failed};
}

void allocations_fail_after(uint64_t n, bool all) {
    until_failure = n;
    onwards = all;
    failed = false;
    armed = true;
}

void allocations_succeed(void) {
    armed = false;
}

static bool refuse(void) {
    errno = ENOMEM;
    return false;
}

/* Counts a call, and returns whether it gets memory. */
static bool grant(uint64_t size) {
    calls++;
    bytes += size;
    uint64_t seen = largest;
    while (size > seen && !atomic_compare_exchange_weak(&largest, &seen, size))
        continue;
    if (size > MOST)
        return refuse();
    if (!armed)
        return true;
    if (failed ? onwards : atomic_fetch_sub(&until_failure, 1) == 0) {
        failed = true;
        return refuse();
    }
    return true;
}

static void *counted(void *block) {
    live += block != NULL;
    return block;
}

/* Some C libraries' calloc calls malloc, which would be counted once more. */
static _Thread_local bool in_calloc;

void *__wrap_malloc(size_t size) {
    if (in_calloc)
        return __real_malloc(size);
    return grant(size) ? counted(__real_malloc(size)) : NULL;
}

void *__wrap_calloc(size_t count, size_t size) {
    uint64_t total;
    if (__builtin_mul_overflow((uint64_t)count, (uint64_t)size, &total))
        total = UINT64_MAX;
    if (!grant(total))
        return NULL;
    in_calloc = true;
    void *block = __real_calloc(count, size);
    in_calloc = false;
    return counted(block);
}

void *__wrap_realloc(void *block, size_t size) {
    if (!grant(size))
        return NULL;
    void *moved = __real_realloc(block, size);
    live += !block && moved;
    return moved;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return grant(size) ? counted(__real_aligned_alloc(alignment, size)) : NULL;
}

void __wrap_free(void *block) {
    live -= block != NULL;
    __real_free(block);
}
