/* SPDX-License-Identifier: Apache-2.0
 * Exact search: computes the products of all rows and queries, a group of rows at a time, which
 * stays in the cache for all queries. Each member of the team keeps the best rows that it met in a
 * heap for each query. As no two rows are equally good, the best of all members are the same for
 * any number of members. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "formats/directory.h"
#include "index/index.h"
#include "kernels/kernels.h"

/* Kernel sets of WebAssembly have no such function, which every page would load. */
#ifdef __wasm__
#include "kernels/dots_int8.h"
#define DOTS_INT8(kernels) dots_int8
#else
#define DOTS_INT8(kernels) (kernels)->dots_int8
#endif

enum {
    GROUP_ROWS = 256,
    MOST_QUERIES = 64,     /* that are searched for at once */
    HEAP_MATCHES = 1 << 18 /* the most in all heaps together; one query may need more */
};

struct search {
    const wisp_index *index;
    const struct kernels *kernels;
    size_t n, k;          /* queries, and matches of each */
    const float *queries; /* [n, dimensions] */
    int16_t *quantised;   /* [n, dimensions], of an int8 index */
    float *scales;        /* [n]: of `quantised` */
    wisp_match *heaps;    /* [members, n, k]: the first match of a heap is the worst */
    size_t *counts;       /* [members, n] */
    int32_t *sums;        /* [members, GROUP_ROWS] */
};

static bool is_better(wisp_match a, wisp_match b) {
    return a.score > b.score || (a.score == b.score && a.row < b.row);
}

/* Returns whether a match is among the k best that a heap has met. */
static bool is_kept(const wisp_match *heap, size_t count, size_t k, wisp_match match) {
    return count < k || is_better(match, heap[0]);
}

/* Adds a match to the heap that is_kept says is among the k best. */
static void keep(wisp_match *heap, size_t *count, size_t k, wisp_match added) {
    size_t at;
    if (*count < k) {
        for (at = (*count)++; at > 0 && is_better(heap[(at - 1) / 2], added); at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
    } else {
        at = 0;
        for (size_t child; (child = 2 * at + 1) < k; at = child) {
            if (child + 1 < k && is_better(heap[child], heap[child + 1]))
                child++;
            if (!is_better(added, heap[child]))
                break;
            heap[at] = heap[child];
        }
    }
    heap[at] = added;
}

/* Returns a dot product as a float that JSON can hold. Sums of huge values may be infinite, or of
 * infinities of both signs, which are not numbers. */
static float finite_score(double sum) {
    if (isnan(sum))
        return -FLT_MAX;
    return (float)fmax(-FLT_MAX, fmin(sum, FLT_MAX));
}

/* Quantises a query so that no sum of its products with int8 values reaches 2^31. */
static float quantise(const float *query, size_t n, int16_t *quantised) {
    const int32_t steps = (int32_t)(INT32_MAX / (128 * n));
    const float limit = (float)(steps < INT16_MAX ? steps : INT16_MAX);
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(query[i]));
    const float inverse = most < 0x1p-110f ? 0 : limit / most;
    for (size_t i = 0; i < n; i++)
        quantised[i] = (int16_t)rintf(query[i] * inverse);
    return inverse > 0 ? most / limit : 0;
}

static size_t group_end(const void *context, size_t first) {
    const struct search *s = context;
    return smaller(s->index->rows, first + GROUP_ROWS);
}

static wisp_status search_group(void *context, uint32_t member, size_t first, size_t end,
                                wisp_error *error) {
    struct search *s = context;
    const wisp_index *index = s->index;
    const size_t width = index->dimensions, row_bytes = index->row_bytes;
    const unsigned char *vectors = index->vectors + first * row_bytes;
    int32_t *sums = s->sums + member * GROUP_ROWS;
    (void)error;
    for (size_t q = 0; q < s->n; q++) {
        wisp_match *heap = s->heaps + (member * s->n + q) * s->k;
        size_t *count = &s->counts[member * s->n + q];
        if (index->kind == WISP_INDEX_INT8)
            DOTS_INT8(s->kernels)(s->quantised + q * width, (const int8_t *)vectors, row_bytes,
                                  end - first, width, sums);
        for (size_t row = first; row < end; row++) {
            /* In doubles all factors but the last are exact, so that every machine and language
             * gives these bits. */
            double score;
            if (index->kind == WISP_INDEX_INT8)
                score =
                    (double)sums[row - first] * ((double)s->scales[q] * (double)index->scales[row]);
            else
                score = (double)s->kernels->dot(
                    s->queries + q * width,
                    (const float *)(const void *)(vectors + (row - first) * row_bytes), width);
            const wisp_match match = {row, finite_score(score)};
            if (is_kept(heap, *count, s->k, match) && !index->entries[row].deleted)
                keep(heap, count, s->k, match);
        }
    }
    return WISP_OK;
}

static void take_parts(struct search *s, struct workspace *space, size_t members) {
    const size_t width = s->index->dimensions;
    s->quantised = workspace_take(space, s->n, width, sizeof *s->quantised);
    s->scales = workspace_take(space, 1, s->n, sizeof *s->scales);
    s->heaps = workspace_take(space, members * s->n, s->k, sizeof *s->heaps);
    s->counts = workspace_take(space, members, s->n, sizeof *s->counts);
    s->sums = workspace_take(space, members, GROUP_ROWS, sizeof *s->sums);
}

static int compare_matches(const void *a, const void *b) {
    return is_better(*(const wisp_match *)a, *(const wisp_match *)b) ? -1 : 1;
}

/* Searches for the queries of `s`, and writes matches [n, ld]. */
static wisp_status search_some(struct search *s, uint32_t members, wisp_match *matches, size_t ld,
                               wisp_error *error) {
    struct pool_work work = {
        .items = s->index->rows, .group_end = group_end, .run = search_group, .context = s};
    const size_t width = s->index->dimensions;
    for (size_t i = 0; i < members * s->n; i++)
        s->counts[i] = 0;
    for (size_t q = 0; s->index->kind == WISP_INDEX_INT8 && q < s->n; q++)
        s->scales[q] = quantise(s->queries + q * width, width, s->quantised + q * width);
    if (members > 1)
        TRY(pool_each(s->index->team, members, &work, error));
    else
        for (size_t first = 0; first < work.items; first = group_end(s, first))
            TRY(search_group(s, 0, first, group_end(s, first), error));
    for (size_t q = 0; q < s->n; q++) {
        wisp_match *best = s->heaps + q * s->k;
        for (size_t member = 1; member < members; member++)
            for (size_t i = 0; i < s->counts[member * s->n + q]; i++) {
                const wisp_match match = s->heaps[(member * s->n + q) * s->k + i];
                if (is_kept(best, s->counts[q], s->k, match))
                    keep(best, &s->counts[q], s->k, match);
            }
        qsort(best, s->k, sizeof *best, compare_matches);
        for (size_t i = 0; i < s->k; i++)
            matches[q * ld + i] = best[i];
    }
    return WISP_OK;
}

wisp_status wisp_index_search(wisp_index *index, const float *queries, size_t n, size_t k,
                              wisp_match *matches, size_t *found, wisp_error *error) {
    TRY(require(index, "index", error));
    TRY(require(found, "found", error));
    if (n > 0)
        TRY(require(queries, "queries", error));
    const size_t width = index->dimensions;
    struct search s = {.index = index,
                       .kernels = kernels_find(NULL),
                       .k = smaller(k, index->rows - index->deleted)};
    for (size_t q = 0; q < n; q++)
        if (!all_finite(queries + q * width, width))
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "queries",
                        "a value of query %zu is not finite", q);
    *found = s.k;
    if (n == 0 || s.k == 0)
        return WISP_OK;
    TRY(require(matches, "matches", error));
    if (index->team)
        pool_renew(index->team);
    const size_t groups = (index->rows + GROUP_ROWS - 1) / GROUP_ROWS;
    const uint32_t members = index->team ? (uint32_t)smaller(pool_size(index->team), groups) : 1;
    const size_t at_once = larger(1, smaller(MOST_QUERIES, HEAP_MATCHES / members / s.k));
    struct workspace measured = {0};
    s.n = smaller(n, at_once);
    take_parts(&s, &measured, members);
    TRY(workspace_reserve(&index->space, measured.used, error));
    for (size_t q = 0; q < n; q += s.n) {
        struct workspace space = index->space;
        s.n = smaller(n - q, at_once);
        s.queries = queries + q * width;
        take_parts(&s, &space, members);
        TRY(search_some(&s, members, matches + q * k, k, error));
    }
    return WISP_OK;
}
