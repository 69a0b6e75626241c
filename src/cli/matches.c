/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/matches.h"

#include <stdlib.h>

bool matches_open(struct matches *matches, size_t most) {
    *matches = (struct matches){.most = most, .match = calloc(most, sizeof *matches->match)};
    return matches->match != NULL;
}

static bool is_worse(const struct match *a, const struct match *b) {
    return a->score < b->score || (a->score == b->score && a->order > b->order);
}

/* Moves the match at `at` up to its place, whose parents are all worse. */
static void sift_up(struct match *heap, size_t at) {
    const struct match moved = heap[at];
    for (size_t parent; at > 0 && is_worse(&moved, &heap[parent = (at - 1) / 2]); at = parent)
        heap[at] = heap[parent];
    heap[at] = moved;
}

/* Moves the first match down to its place, whose children are all better. */
static void sift_down(struct match *heap, size_t n) {
    const struct match moved = heap[0];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && is_worse(&heap[child + 1], &heap[child]))
            child++;
        if (!is_worse(&heap[child], &moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

bool matches_add(struct matches *matches, double score, wisp_text line) {
    struct match added = {.score = score, .order = matches->seen++};
    const bool full = matches->n == matches->most;
    if (full && is_worse(&added, &matches->match[0]))
        return true;
    char *copy = malloc(line.length + 1);
    if (!copy)
        return false;
    memcpy(copy, line.bytes, line.length);
    added.line = (wisp_text){copy, line.length};
    if (full) {
        free((void *)(uintptr_t)matches->match[0].line.bytes);
        matches->match[0] = added;
        sift_down(matches->match, matches->n);
    } else {
        matches->match[matches->n] = added;
        sift_up(matches->match, matches->n++);
    }
    return true;
}

static int compare(const void *a, const void *b) {
    return is_worse(a, b) ? 1 : -1; /* no two matches have the same order */
}

void matches_sort(struct matches *matches) {
    qsort(matches->match, matches->n, sizeof *matches->match, compare);
}

void matches_close(struct matches *matches) {
    for (size_t i = 0; i < matches->n; i++)
        free((void *)(uintptr_t)matches->match[i].line.bytes);
    free(matches->match);
    *matches = (struct matches){0};
}
