/* SPDX-License-Identifier: Apache-2.0
 * The allocator as the code under test sees it: watched, and made to fail. The linker sends malloc,
 * calloc, realloc, aligned_alloc and free here (--wrap, see the Makefile); what libc asks for
 * itself, in qsort or fdopen, is seen only where it is linked statically. */
#ifndef TESTS_ALLOCATIONS_H
#define TESTS_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct allocations {
    uint64_t calls;   /* that asked for memory */
    uint64_t largest; /* bytes asked for at once */
    uint64_t bytes;   /* asked for in all */
    int64_t live;     /* blocks that were not freed again */
    bool failed;      /* a call was made to fail */
};

/* Whether the linker was told to. */
bool allocations_are_watched(void);

/* Counts from here on. Calls for more than 1 GB get no memory. */
void allocations_watch(void);
struct allocations allocations_seen(void);

/* The call after `n` more gets no memory, and with `onwards` neither do all that follow, until
 * allocations_succeed. */
void allocations_fail_after(uint64_t n, bool onwards);
void allocations_succeed(void);

#endif
