/* SPDX-License-Identifier: Apache-2.0
 * The largest weights, in their order: a heap, of which only as many are taken as are wanted. */
#include "attention/attention.h"

/* Returns whether index a comes before index b. */
static bool before(const float *weights, size_t a, size_t b) {
    return weights[a] > weights[b] || (!(weights[a] < weights[b]) && a > b);
}

/* Moves the index at `at` of a heap of n down to its place. */
static void sink(const float *weights, size_t *heap, size_t n, size_t at) {
    const size_t index = heap[at];
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && before(weights, heap[child + 1], heap[child]);
        if (!before(weights, heap[child], index))
            break;
        heap[at] = heap[child];
    }
    heap[at] = index;
}

size_t attention_order(const float *weights, size_t n, size_t *order,
                       bool (*enough)(void *context, size_t index), void *context) {
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    for (size_t at = n / 2; at-- > 0;)
        sink(weights, order, n, at);
    size_t left = n;
    while (left > 0) {
        const size_t index = order[0];
        order[0] = order[--left];
        order[left] = index;
        if (left > 0)
            sink(weights, order, left, 0);
        if (enough(context, index))
            break;
    }
    return n - left;
}
