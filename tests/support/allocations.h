/* SPDX-License-Identifier: Apache-2.0
 * Watches the allocations of the code under test and makes them fail. The linker sends calls of
 * malloc, calloc, realloc, aligned_alloc and free here (--wrap, see the Makefile). Allocations
 * inside libc, in qsort or fdopen, are seen only if libc is linked statically. */
#ifndef TESTS_ALLOCATIONS_H
#define TESTS_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct allocations {
    uint64_t calls;   /* calls that asked for memory */
    uint64_t largest; /* the most bytes that one call asked for */
    uint64_t bytes;   /* the bytes that all calls asked for */
    int64_t live;     /* blocks that are not freed yet */
    bool failed;      /* a call was made to fail */
};

/* Returns whether the program was linked with the wrappers. */
bool allocations_are_watched(void);

/* Begins to count. From now on calls for more than 1 GB get no memory. */
void allocations_watch(void);
struct allocations allocations_seen(void);

/* Lets `n` more calls get memory and makes the next one fail. With `onwards` all later calls fail
 * too, until allocations_succeed. */
void allocations_fail_after(uint64_t n, bool onwards);
void allocations_succeed(void);

#endif
