/* SPDX-License-Identifier: Apache-2.0
 * Causal attention over a key-value cache. The products read the packed keys and values of the
 * cache page by page, so that a new token costs one pass over them and nothing is packed again. The
 * query heads that share a key-value head are rows of one product, so that each key is loaded once
 * for all of them.
 *
 * A query is computed by the same products whether it comes alone or among others: its result is
 * the sum of one product for each page, in their order, and keys that a query does not see have a
 * share of 0. So a prompt has the same bits in one call and token by token. */
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

/* Computes scores [rows, ld_scores] = q k for the first n keys of a page. */
static void score_page(const struct kernels *kernels, const struct kv_shape *shape,
                       const struct kv_head *head, const struct parts *p, size_t rows, size_t n,
                       float *scores) {
    const size_t size = shape->head_size, panel = shape->panel;
    if (shape->type == KV_F32) {
        kernels->gemm_f32(p->q, size, head->keys, NULL, scores, p->ld_scores, rows, n, size);
        return;
    }
    if (shape->type == KV_F16 && kernels->gemm_f16) {
        kernels->gemm_f16(p->q, size, head->keys, NULL, scores, p->ld_scores, rows, n, size);
        return;
    }
    for (size_t j = 0; j < n; j += panel) {
        if (shape->type == KV_F16)
            expand_halves((const uint16_t *)head->keys + j * size, panel * size, p->panel);
        else
            for (size_t i = 0; i < size; i += KV_BLOCK)
                kernels->expand_by_column((const int8_t *)head->keys + j * size + i * panel,
                                          head->key_scales + i / KV_BLOCK * KV_PAGE + j,
                                          smaller(KV_BLOCK, size - i), p->panel + i * panel);
        kernels->gemm_f32(p->q, size, p->panel, NULL, scores + j, p->ld_scores, rows,
                          smaller(panel, n - j), size);
    }
}

/* Computes y [rows, head_size] = shares v for the first n values of a page. */
static void add_up_page(const struct kernels *kernels, const struct kv_shape *shape,
                        const struct kv_head *head, const struct parts *p, size_t rows, size_t n,
                        const float *shares, float *y) {
    const size_t size = shape->head_size, panel = shape->panel;
    for (size_t j = 0; j < size; j += panel) {
        const void *values =
            (const unsigned char *)head->values + j * KV_PAGE * kv_number_bytes(shape->type);
        const size_t columns = smaller(panel, size - j);
        if (shape->type == KV_F16 && kernels->gemm_f16) {
            kernels->gemm_f16(shares, p->ld_scores, values, NULL, y + j, size, rows, columns, n);
            continue;
        }
        if (shape->type == KV_F16)
            expand_halves(values, n * panel, p->panel);
        else if (shape->type == KV_INT8)
            kernels->expand_by_row(values, head->value_scales + j / KV_BLOCK * KV_PAGE, n,
                                   p->panel);
        kernels->gemm_f32(shares, p->ld_scores, shape->type == KV_F32 ? values : p->panel, NULL,
                          y + j, size, rows, columns, n);
    }
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
            const size_t end = round_up(past + i + 1, block);
            const size_t seen = smaller(end, s->keys); /* by any query of the block */
            queries = smaller(s->end - i, end - (past + i));
            const size_t rows = queries * group;
            for (size_t r = 0; r < rows; r++)
                memcpy(p.q + r * size,
                       s->q.data + (i + r / group) * s->q.row_stride +
                           (g * group + r % group) * s->q.head_stride,
                       size * sizeof *p.q);

            for (size_t at = 0; at < seen; at += KV_PAGE) {
                const struct kv_head head =
                    kv_cache_head(s->cache, at / KV_PAGE, s->layer, s->kv_head + g);
                score_page(kernels, cached, &head, &p, rows, smaller(KV_PAGE, seen - at),
                           p.scores + at);
            }
            for (size_t r = 0; r < queries; r++) {
                float *row = p.scores + r * group * p.ld_scores;
                const size_t own = past + i + r + 1;
                kernels->softmax(row, p.ld_scores, group, own, shape->scale);
                for (size_t h = 0; h < group; h++)
                    memset(row + h * p.ld_scores + own, 0, (seen - own) * sizeof *row);
            }
            for (size_t at = 0; at < seen; at += KV_PAGE) {
                const struct kv_head head =
                    kv_cache_head(s->cache, at / KV_PAGE, s->layer, s->kv_head + g);
                add_up_page(kernels, cached, &head, &p, rows, smaller(KV_PAGE, seen - at),
                            p.scores + at, at == 0 ? p.sum : p.page);
                if (at > 0)
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
    .masks = 1u << ATTENTION_CAUSAL,
    .needs_cache = true,
    .workspace_bytes = workspace_bytes,
    .run = run,
};
