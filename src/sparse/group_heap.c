/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "sparse/group_heap.h"

/* Returns whether the group at entry i is evicted before that at entry j. */
static bool goes_before(const struct group_heap *heap, size_t i, size_t j) {
    const struct cold_group *a = &heap->groups[heap->order[i]], *b = &heap->groups[heap->order[j]];
    return a->uses != b->uses   ? a->uses < b->uses
           : a->last != b->last ? a->last > b->last
                                : heap->order[i] < heap->order[j];
}

static void swap(struct group_heap *heap, size_t i, size_t j) {
    const size_t group = heap->order[i];
    heap->order[i] = heap->order[j];
    heap->order[j] = group;
    heap->groups[heap->order[i]].place = i + 1;
    heap->groups[heap->order[j]].place = j + 1;
}

static void sink(struct group_heap *heap, size_t i) {
    for (;;) {
        size_t first = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap->n; child++)
            first = goes_before(heap, child, first) ? child : first;
        if (first == i)
            return;
        swap(heap, i, first);
        i = first;
    }
}

static void settle(struct group_heap *heap, size_t i) {
    for (; i > 0 && goes_before(heap, i, (i - 1) / 2); i = (i - 1) / 2)
        swap(heap, i, (i - 1) / 2);
    sink(heap, i);
}

void group_heap_put(struct group_heap *heap, size_t group) {
    if (heap->groups[group].place == 0) {
        heap->order[heap->n++] = group;
        heap->groups[group].place = heap->n;
    }
    settle(heap, heap->groups[group].place - 1);
}

void group_heap_remove(struct group_heap *heap, size_t group) {
    const size_t place = heap->groups[group].place;
    if (place == 0)
        return;
    swap(heap, place - 1, heap->n - 1);
    heap->n--;
    heap->groups[group].place = 0;
    if (place - 1 < heap->n)
        settle(heap, place - 1);
}

void group_heap_age(struct group_heap *heap, size_t capacity) {
    for (size_t i = 0; i < capacity; i++)
        heap->groups[i].uses /= 2;
    /* Groups whose uses differed by one may now be equal, and go by their last use. */
    for (size_t i = heap->n / 2; i-- > 0;)
        sink(heap, i);
}
