/* SPDX-License-Identifier: Apache-2.0
 * Groups of cold neurons that may be evicted, of which the one to evict next is found at once. A
 * model of 7 billion weights has 5,500 groups, and a pass may evict each of them. */
#ifndef WISP_SPARSE_GROUP_HEAP_H
#define WISP_SPARSE_GROUP_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cold_group {
    uint32_t holds; /* passes that hold neurons of the group, which is not evicted meanwhile */
    uint32_t uses;  /* holds so far, halved from time to time; counted while it is absent, too */
    uint64_t last;  /* the number of the last of them */
    size_t place;   /* in the heap, counted from 1; 0: the group is not in it */
};

/* A binary heap. Starts with the arrays, zeroed, and n = 0. */
struct group_heap {
    struct cold_group *groups; /* [capacity] */
    /* [capacity]: the groups in the heap. The first is to be evicted first: it has the fewest uses
     * and, among groups of equally many, was used last; of those that one pass used in a layer it
     * is the foremost, so that neighbours, which are read together, go together. The children of
     * entry i are entries 2 i + 1 and 2 i + 2, and are evicted after it. */
    size_t *order;
    size_t n;
};

/* Adds a group, or moves it to where it belongs after its uses have changed. */
void group_heap_put(struct group_heap *heap, size_t group);

/* Removes a group, if it is in the heap. */
void group_heap_remove(struct group_heap *heap, size_t group);

/* Halves the uses of all groups, also of those that are not in the heap. */
void group_heap_age(struct group_heap *heap, size_t capacity);

#endif
