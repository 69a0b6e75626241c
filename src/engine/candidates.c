/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/candidates.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_better(const struct candidate *a, const struct candidate *b) {
    return a->rank > b->rank || (a->rank == b->rank && a->id < b->id);
}

static int best_first(const void *a, const void *b) {
    return is_better(a, b) ? -1 : 1;
}

/* The first k candidates become a heap whose root is the worst of them. Each later candidate that
 * is better than the root changes places with it. */
void candidates_select(struct candidate *c, size_t n, size_t k) {
    for (size_t i = 0; i < n && k < n; i++) {
        size_t at = i;
        if (i < k) { /* sift up */
            for (; at > 0 && is_better(&c[(at - 1) / 2], &c[at]); at = (at - 1) / 2) {
                const struct candidate swapped = c[at];
                c[at] = c[(at - 1) / 2];
                c[(at - 1) / 2] = swapped;
            }
            continue;
        }
        if (!is_better(&c[i], &c[0]))
            continue;
        const struct candidate taken = c[i];
        c[i] = c[0];
        at = 0;
        for (size_t child; (child = 2 * at + 1) < k; at = child) { /* sift down */
            if (child + 1 < k && is_better(&c[child], &c[child + 1]))
                child++;
            if (!is_better(&taken, &c[child]))
                break;
            c[at] = c[child];
        }
        c[at] = taken;
    }
    qsort(c, k, sizeof *c, best_first);
}

static void swap(struct candidate *a, struct candidate *b) {
    const struct candidate swapped = *a;
    *a = *b;
    *b = swapped;
}

/* A quickselect by weight: of the candidates [low, high) between those that are kept for certain
 * and those that are not, each round parts the ones better than a pivot from the others. */
size_t candidates_reach(struct candidate *c, size_t n, double wanted) {
    size_t low = 0, high = n;
    double before = 0; /* the weights of the first `low` */
    while (low < high) {
        struct candidate *first = &c[low], *middle = &c[low + (high - low) / 2],
                         *last = &c[high - 1];
        /* The median of three becomes the last one, as the pivot. */
        if (is_better(middle, first))
            swap(middle, first);
        if (is_better(last, first))
            swap(last, first);
        if (is_better(middle, last))
            swap(middle, last);
        double better = 0;
        size_t at = low;
        for (size_t i = low; i + 1 < high; i++)
            if (is_better(&c[i], last)) {
                better += c[i].weight;
                swap(&c[i], &c[at++]);
            }
        swap(&c[at], last);
        if (before + better >= wanted) {
            high = at;
        } else if (before + better + c[at].weight >= wanted) {
            return at + 1;
        } else {
            before += better + c[at].weight;
            low = at + 1;
        }
    }
    return low;
}

double log_sum_exp(const float *logits, size_t n) {
    float largest = logits[0];
    for (size_t i = 1; i < n; i++)
        largest = logits[i] > largest ? logits[i] : largest;
    double sum = exp((double)logits[0] - (double)largest);
    for (size_t i = 1; i < n; i++)
        sum += exp((double)logits[i] - (double)largest);
    return log(sum) + (double)largest;
}
