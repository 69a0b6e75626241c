/* SPDX-License-Identifier: Apache-2.0
 * Causal attention over a key-value cache. The products read the packed keys and values of the
 * cache as they are, so that a new token costs one pass over them and nothing is packed again.
 *
 * A query is computed by the same products whether it comes alone or among others: blocks of
 * queries end at multiples of QUERY_ROWS in the sequence, and keys that a query does not see have a
 * share of 0. So a prompt has the same bits in one call and token by token. Of a sliding window,
 * a block computes whole panels of keys from the one on in which its first query's window begins.
 */
#include <string.h>

#include "attention/attention.h"
#include "base/checked.h"

/* Queries in a block: few enough that their scores stay in the first-level cache for sequences of
 * ordinary length. */
enum { QUERY_ROWS = 32 };

struct parts {
    float *scores; /* [QUERY_ROWS, ld_scores]; softmax turns them into shares */
    size_t ld_scores;
};

static struct parts take_parts(size_t keys, struct workspace *space) {
    struct parts p = {.ld_scores = round_up(keys, 16)};
    p.scores = workspace_take(space, QUERY_ROWS, p.ld_scores, sizeof *p.scores);
    return p;
}

static size_t workspace_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {0};
    (void)kernels;
    (void)shape;
    take_parts(keys, &measured);
    return measured.used;
}

/* Returns the first key that the query at this position sees. */
static size_t first_key(const struct attention_shape *shape, size_t position) {
    return shape->mask == ATTENTION_WINDOW && position >= shape->window
               ? position + 1 - shape->window
               : 0;
}

/* Turns the scores of n keys into their shares. */
static void softmax_row(const struct kernels *kernels, const struct attention_shape *shape,
                        float *scores, size_t n) {
    float scale = shape->scale;
#ifdef DECODER_KERNELS
    if (shape->soft_cap > 0) {
        kernels->soft_cap(scores, n, scale, shape->soft_cap);
        scale = 1;
    }
#endif
    kernels->softmax(scores, n, 1, n, scale);
}

static void run(const struct kernels *kernels, const struct attention_shape *shape,
                const struct attention_sequence *s, float *context, size_t ld_context,
                struct workspace space) {
    const struct parts p = take_parts(s->keys, &space);
    const size_t size = shape->head_size, group = shape->heads / shape->kv_heads;
    const size_t panel = kernels->f32_panel, past = s->keys - s->queries;
    for (size_t h = 0; h < shape->heads; h++) {
        const float *q = s->q.data + h * s->q.head_stride;
        const float *keys = kv_cache_keys(s->cache, s->layer, s->kv_head + h / group);
        const float *values = kv_cache_values(s->cache, s->layer, s->kv_head + h / group);
        for (size_t i = s->first, rows; i < s->end; i += rows) {
            const size_t end = round_up(past + i + 1, QUERY_ROWS);
            const size_t seen = smaller(end, s->keys); /* by any query of the block */
            rows = smaller(s->end - i, end - (past + i));
            const size_t from = first_key(shape, past + i) / panel * panel, n = seen - from;
            kernels->gemm_f32(q + i * s->q.row_stride, s->q.row_stride, keys + from * size, NULL,
                              p.scores, p.ld_scores, rows, n, size);
            for (size_t r = 0; r < rows; r++) {
                float *row = p.scores + r * p.ld_scores;
                const size_t own = past + i + r + 1 - from;
                const size_t first = first_key(shape, past + i + r) - from;
                memset(row, 0, first * sizeof *row);
                softmax_row(kernels, shape, row + first, own - first);
                memset(row + own, 0, (n - own) * sizeof *row);
            }
            float *to = context + (i - s->first) * ld_context + h * size;
            for (size_t j = 0; j < size; j += panel)
                kernels->gemm_f32(p.scores, p.ld_scores,
                                  values + j * s->cache->capacity + from * panel, NULL, to + j,
                                  ld_context, rows, smaller(panel, size - j), n);
        }
    }
}

const struct attention_policy attention_cached = {
    .name = "cached",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .workspace_bytes = workspace_bytes,
    .run = run,
};
