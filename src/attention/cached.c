/* SPDX-License-Identifier: Apache-2.0
 * Causal attention over a key-value cache. The products read the packed keys and values of the
 * cache page by page, so that a new token costs one pass over them and nothing is packed again. The
 * query heads that share a key-value head are rows of one product, so that each key is loaded once
 * for all of them.
 *
 * A query is computed by the same products whether it comes alone or among others: its result is
 * the sum of one product for each page, in their order, and keys that a query does not see have a
 * share of 0. So a prompt has the same bits in one call and token by token. With a sliding window,
 * a block computes whole panels of keys, from the panel on in which the window of its first query
 * begins. */
#include <string.h>

#include "attention/attention.h"
#include "base/checked.h"
#include "base/half.h"

/* Rows of a product, which are queries of one key-value head: few enough that their scores stay in
 * the caches for sequences of ordinary length. */
enum { QUERY_ROWS = 32 };

/* Returns how many queries are computed together: a power of two, so that no block of them has a
 * page's end within it. */
static size_t queries_of_block(const struct attention_shape *shape) {
    size_t queries = QUERY_ROWS;
    while (queries > 1 && queries * (shape->heads / shape->kv_heads) > QUERY_ROWS)
        queries /= 2;
    return queries;
}

struct parts {
    float *q;      /* [rows, head_size]: the queries of a block, each with all heads of the group */
    float *sum;    /* [rows, head_size]: their results so far */
    float *page;   /* [rows, head_size]: what one page adds */
    float *panel;  /* [KV_PAGE or head_size, panel]: keys or values as floats */
    float *scores; /* [rows, ld_scores]; softmax turns them into shares */
    size_t ld_scores;
};

static struct parts take_parts(const struct kernels *kernels, const struct attention_shape *shape,
                               size_t keys, struct workspace *space) {
    const size_t rows = queries_of_block(shape) * (shape->heads / shape->kv_heads);
    struct parts p = {.ld_scores = round_up(keys, 16)};
    p.q = workspace_take(space, rows, shape->head_size, sizeof *p.q);
    p.sum = workspace_take(space, rows, shape->head_size, sizeof *p.sum);
    p.page = workspace_take(space, rows, shape->head_size, sizeof *p.page);
    p.panel = workspace_take(space, larger(KV_PAGE, shape->head_size), kernels->f32_panel,
                             sizeof *p.panel);
    p.scores = workspace_take(space, rows, p.ld_scores, sizeof *p.scores);
    return p;
}

static size_t workspace_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {0};
    take_parts(kernels, shape, keys, &measured);
    return measured.used;
}

static void expand_halves(const uint16_t *halves, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = float_of_half(halves[i]);
}

/* Computes scores [rows, ld_scores] = q k for n keys of a page, from `first` on, where a panel
 * begins. */
static void score_page(const struct kernels *kernels, const struct kv_shape *shape,
                       const struct kv_head *head, const struct parts *p, size_t rows, size_t first,
                       size_t n, float *scores) {
    const size_t size = shape->head_size, panel = shape->panel;
    const void *keys =
        (const unsigned char *)head->keys + first * size * kv_number_bytes(shape->type);
    if (shape->type == KV_F32) {
        kernels->gemm_f32(p->q, size, keys, NULL, scores, p->ld_scores, rows, n, size);
        return;
    }
    if (shape->type == KV_F16 && kernels->gemm_f16) {
        kernels->gemm_f16(p->q, size, keys, NULL, scores, p->ld_scores, rows, n, size);
        return;
    }
    for (size_t j = 0; j < n; j += panel) {
        if (shape->type == KV_F16)
            expand_halves((const uint16_t *)keys + j * size, panel * size, p->panel);
        else
            for (size_t i = 0; i < size; i += KV_BLOCK)
                kernels->expand_by_column((const int8_t *)keys + j * size + i * panel,
                                          head->key_scales + i / KV_BLOCK * KV_PAGE + first + j,
                                          smaller(KV_BLOCK, size - i), p->panel + i * panel);
        kernels->gemm_f32(p->q, size, p->panel, NULL, scores + j, p->ld_scores, rows,
                          smaller(panel, n - j), size);
    }
}

/* Computes y [rows, head_size] = shares v for n values of a page, from `first` on. */
static void add_up_page(const struct kernels *kernels, const struct kv_shape *shape,
                        const struct kv_head *head, const struct parts *p, size_t rows,
                        size_t first, size_t n, const float *shares, float *y) {
    const size_t size = shape->head_size, panel = shape->panel;
    for (size_t j = 0; j < size; j += panel) {
        const void *values = (const unsigned char *)head->values +
                             (j * KV_PAGE + first * panel) * kv_number_bytes(shape->type);
        const size_t columns = smaller(panel, size - j);
        if (shape->type == KV_F16 && kernels->gemm_f16) {
            kernels->gemm_f16(shares, p->ld_scores, values, NULL, y + j, size, rows, columns, n);
            continue;
        }
        if (shape->type == KV_F16)
            expand_halves(values, n * panel, p->panel);
        else if (shape->type == KV_INT8)
            kernels->expand_by_row(values, head->value_scales + j / KV_BLOCK * KV_PAGE + first, n,
                                   p->panel);
        kernels->gemm_f32(shares, p->ld_scores, shape->type == KV_F32 ? values : p->panel, NULL,
                          y + j, size, rows, columns, n);
    }
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
    const struct parts p = take_parts(kernels, shape, s->keys, &space);
    const struct kv_shape *cached = &s->cache->shape;
    const size_t size = shape->head_size, group = shape->heads / shape->kv_heads;
    const size_t block = queries_of_block(shape), past = s->keys - s->queries;
    for (size_t g = 0; g < shape->kv_heads; g++)
        for (size_t i = s->first, queries; i < s->end; i += queries) {
            const size_t block_end = round_up(past + i + 1, block);
            const size_t end = smaller(block_end, s->keys); /* of the keys that the block sees */
            const size_t from = first_key(shape, past + i) / cached->panel * cached->panel;
            queries = smaller(s->end - i, block_end - (past + i));
            const size_t rows = queries * group;
            for (size_t r = 0; r < rows; r++)
                memcpy(p.q + r * size,
                       s->q.data + (i + r / group) * s->q.row_stride +
                           (g * group + r % group) * s->q.head_stride,
                       size * sizeof *p.q);

            for (size_t at = from, next; at < end; at = next) {
                const struct kv_head head =
                    kv_cache_head(s->cache, at / KV_PAGE, s->layer, s->kv_head + g);
                next = smaller(end, (at / KV_PAGE + 1) * KV_PAGE);
                score_page(kernels, cached, &head, &p, rows, at % KV_PAGE, next - at,
                           p.scores + at - from);
            }
            for (size_t r = 0; r < rows; r++) {
                float *row = p.scores + r * p.ld_scores;
                const size_t position = past + i + r / group;
                const size_t first = first_key(shape, position) - from;
                const size_t last = position + 1 - from;
                memset(row, 0, first * sizeof *row);
                softmax_row(kernels, shape, row + first, last - first);
                memset(row + last, 0, (end - from - last) * sizeof *row);
            }
            for (size_t at = from, next; at < end; at = next) {
                const struct kv_head head =
                    kv_cache_head(s->cache, at / KV_PAGE, s->layer, s->kv_head + g);
                next = smaller(end, (at / KV_PAGE + 1) * KV_PAGE);
                add_up_page(kernels, cached, &head, &p, rows, at % KV_PAGE, next - at,
                            p.scores + at - from, at == from ? p.sum : p.page);
                if (at > from)
                    kernels->add(p.sum, p.page, rows * size);
            }

            for (size_t r = 0; r < rows; r++)
                memcpy(context + (i - s->first + r / group) * ld_context +
                           (g * group + r % group) * size,
                       p.sum + r * size, size * sizeof *context);
        }
}

const struct attention_policy attention_cached = {
    .name = "cached",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .workspace_bytes = workspace_bytes,
    .run = run,
};
