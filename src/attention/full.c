/* SPDX-License-Identifier: Apache-2.0
 * Attention by whole matrix products: the keys and values of a head are packed once, then a block
 * of queries at a time is multiplied with the keys, goes through softmax and is multiplied with
 * the values. */
#include <string.h>

#include "attention/attention.h"
#include "attention/disentangled.h"
#include "base/checked.h"
#include "base/product.h"

/* Queries in a block: few enough that their scores stay in the first-level cache for texts of
 * ordinary length. */
enum { QUERY_ROWS = 32 };

/* A score of which softmax makes 0, also times the scale. */
static const float NOTHING = -1e30f;

/* The working memory. In the 16-bit path pairs of numbers take the places of floats: there are
 * never more pairs than floats. */
struct parts {
    void *keys;     /* [keys, head_size], packed: a key is one output of the first product */
    void *values;   /* [head_size, keys], packed: a key is one input of the second product */
    float *scores;  /* [QUERY_ROWS, ld_scores]; softmax turns them into shares */
    int32_t *query; /* [QUERY_ROWS, ld_query], 16-bit only */
    size_t ld_scores, ld_query;
    struct disentangled_space disentangled;
};

static struct parts take_parts(const struct kernels *kernels, const struct attention_shape *shape,
                               size_t keys, struct workspace *space) {
    const size_t size = shape->head_size, panel = kernels->f32_panel;
    struct parts p = {0};
    /* Rows of scores are whole vectors: storing the end of a row in part would delay loads from
     * the beginning of the next row. */
    p.ld_scores = round_up(keys, 16);
    p.ld_query = round_up(i16_pairs(size), 8);
    p.keys = workspace_take(space, round_up(keys, panel), size, sizeof(float));
    p.values = workspace_take(space, round_up(size, panel), keys, sizeof(float));
    p.scores = workspace_take(space, QUERY_ROWS, p.ld_scores, sizeof *p.scores);
    p.query = workspace_take(space, QUERY_ROWS, p.ld_query, sizeof *p.query);
    if (PROJECTS && shape->parts)
        p.disentangled = shape->parts->take(shape->parts, panel, QUERY_ROWS, space);
    return p;
}

/* Queries of a part of the sequence that ATTENTION_NEAR multiplies with the same keys: as many as
 * these see beside them, so that at most a third of the products is unused. */
static size_t near_queries(const struct attention_shape *shape) {
    return round_up(larger(shape->window + shape->ahead, QUERY_ROWS) / 2 + 1, QUERY_ROWS);
}

static size_t workspace_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {0};
    if (SEES_NEAR && shape->mask == ATTENTION_NEAR)
        keys = smaller(keys, near_queries(shape) + shape->window + shape->ahead + QUERY_ROWS);
    take_parts(kernels, shape, keys, &measured);
    return measured.used;
}

/* Queries that are computed together, and the keys they are multiplied with. */
struct block {
    size_t rows, keys;
    size_t seen;  /* keys that the first row sees */
    size_t alike; /* rows that see as many as the first; each row after these sees one key more */
};

/* The block that starts with query i. With a causal mask blocks end at multiples of QUERY_ROWS in
 * the sequence, so that a query is multiplied with the same keys whichever call computes it. */
static struct block block_at(const struct attention_shape *shape,
                             const struct attention_sequence *s, size_t i) {
    const size_t left = s->end - i, position = s->keys - s->queries + i;
    if (shape->mask == ATTENTION_ALL_KEYS || shape->mask == ATTENTION_NEAR) {
        const size_t rows = smaller(left, QUERY_ROWS);
        return (struct block){.rows = rows, .keys = s->keys, .seen = s->keys, .alike = rows};
    }
    const size_t end = round_up(position + 1, QUERY_ROWS);
    return (struct block){.rows = smaller(left, end - position),
                          .keys = smaller(end, s->keys),
                          .seen = position + 1,
                          .alike = 1};
}

/* One key-value head and the query heads of its group. The pointers are at these heads. */
struct group {
    const struct kernels *kernels;
    const struct attention_shape *shape;
    const struct attention_sequence *sequence;
    const float *q, *k, *v;
    float *context;
    size_t ld_context;
    size_t first;      /* the first query head */
    const float *bias; /* of that head; NULL: none */
    size_t heads;      /* query heads of the group */
    size_t packed;     /* keys that the last query sees: later ones are not packed */
};

/* The outputs that a product with the values computes at once. Panels of packed values are as far
 * apart as all packed keys take, so a product with fewer keys goes panel by panel. */
static size_t outputs_at_once(const struct group *g, const struct block *block) {
    return block->keys == g->packed ? g->shape->head_size : g->kernels->f32_panel;
}

/* Adds the bias of query head h to the scores of a block, which begins with query i. */
static void add_bias(const struct group *g, const struct parts *p, size_t h, size_t i,
                     const struct block *block) {
    if (!g->bias)
        return;
    const float *bias = g->bias + h * g->shape->bias_stride;
    const ptrdiff_t position = (ptrdiff_t)(g->sequence->keys - g->sequence->queries + i);
    for (size_t r = 0; r < block->rows; r++)
        g->kernels->add(p->scores + r * p->ld_scores, bias - position - (ptrdiff_t)r, block->keys);
}

/* Adds the disentangled parts of query head h to the scores of a block, which begins with query i.
 * `queries` and the packed keys are floats or, with scales of both, pairs. */
static void add_parts(const struct group *g, const struct parts *p, size_t h, size_t i,
                      const struct block *block, const void *queries, size_t ld_queries,
                      const struct i16_scale *q, const struct i16_scale *k) {
    if (!PROJECTS || !g->shape->parts)
        return;
    const struct disentangled_block own = {.queries = queries,
                                           .ld_queries = ld_queries,
                                           .keys = p->keys,
                                           .query_scale = q ? q->to_float : 1,
                                           .key_scale = k ? k->to_float : 1,
                                           .is_i16 = q != NULL,
                                           .rows = block->rows,
                                           .n_keys = block->keys,
                                           .head = g->first + h,
                                           .head_size = g->shape->head_size,
                                           .position = g->sequence->keys - g->sequence->queries + i,
                                           .scores = p->scores,
                                           .ld_scores = p->ld_scores};
    g->shape->parts->add(g->kernels, g->shape->parts, &own, &p->disentangled);
}

/* Takes away the scores of keys that are not near to the queries of a block, which begins with
 * query i. */
static void mask_far(const struct group *g, const struct parts *p, size_t i,
                     const struct block *block) {
    const struct attention_shape *shape = g->shape;
    if (!SEES_NEAR || shape->mask != ATTENTION_NEAR)
        return;
    for (size_t r = 0; r < block->rows; r++) {
        const size_t position = g->sequence->keys - g->sequence->queries + i + r;
        const size_t first = position > shape->window ? position - shape->window : 0;
        float *row = p->scores + r * p->ld_scores;
        for (size_t j = 0; j < first; j++)
            row[j] = NOTHING;
        for (size_t j = position + shape->ahead + 1; j < block->keys; j++)
            row[j] = NOTHING;
    }
}

static void attend_f32(const struct group *g, const struct parts *p) {
    const struct kernels *kernels = g->kernels;
    const struct attention_sequence *s = g->sequence;
    const size_t size = g->shape->head_size;
    float *const keys = p->keys, *const values = p->values;
    kernels->pack_f32(g->k, s->k.row_stride, g->packed, size, keys);
    kernels->pack_f32_transposed(g->v, s->v.row_stride, size, g->packed, values);
    for (size_t h = 0; h < g->heads; h++) {
        const float *q = g->q + h * s->q.head_stride;
        struct block block;
        for (size_t i = s->first; i < s->end; i += block.rows) {
            float *context = g->context + (i - s->first) * g->ld_context + h * size;
            block = block_at(g->shape, s, i);
            kernels->gemm_f32(q + i * s->q.row_stride, s->q.row_stride, keys, NULL, p->scores,
                              p->ld_scores, block.rows, block.keys, size);
            add_bias(g, p, h, i, &block);
            add_parts(g, p, h, i, &block, q + i * s->q.row_stride, s->q.row_stride, NULL, NULL);
            mask_far(g, p, i, &block);
            for (size_t r = 0; r < block.rows; r += block.alike) {
                float *row = p->scores + r * p->ld_scores;
                const size_t seen = block.seen + r;
                kernels->softmax(row, p->ld_scores, block.alike, seen, g->shape->scale);
                memset(row + seen, 0, (block.keys - seen) * sizeof *row);
            }
            const size_t step = outputs_at_once(g, &block);
            for (size_t j = 0; j < size; j += step)
                kernels->gemm_f32(p->scores, p->ld_scores, values + j * g->packed, NULL,
                                  context + j, g->ld_context, block.rows, smaller(step, size - j),
                                  block.keys);
        }
    }
}

/* Does what attend_f32 does with 16-bit numbers: one scale for the queries, one for the keys and
 * one for the values of a head. Numbers are small enough that no sum of products reaches 2^31. */
static void attend_i16(const struct group *g, const struct parts *p) {
    const struct i16_kernels *i16 = g->kernels->i16;
    const struct attention_sequence *s = g->sequence;
    const size_t size = g->shape->head_size;
    const float most_score = i16_most(size), most_value = i16_most(s->keys);
    const struct i16_scale k = i16_scale_of(i16, g->k, s->k.row_stride, s->keys, size, most_score);
    const struct i16_scale v = i16_scale_of(i16, g->v, s->v.row_stride, s->keys, size, most_value);
    int32_t *const keys = p->keys, *const values = p->values;
    float scales[QUERY_ROWS];
    i16->pack(g->k, s->k.row_stride, g->packed, size, k.to_i16, keys);
    i16->pack_transposed(g->v, s->v.row_stride, size, g->packed, v.to_i16, values);
    for (size_t h = 0; h < g->heads; h++) {
        const float *query = g->q + h * s->q.head_stride;
        const struct i16_scale q =
            i16_scale_of(i16, query, s->q.row_stride, s->queries, size, most_score);
        struct block block;
        for (size_t i = s->first; i < s->end; i += block.rows) {
            float *context = g->context + (i - s->first) * g->ld_context + h * size;
            block = block_at(g->shape, s, i);
            i16->quantise(query + i * s->q.row_stride, s->q.row_stride, block.rows, size, q.to_i16,
                          p->query, p->ld_query);
            for (size_t r = 0; r < block.rows; r++)
                scales[r] = q.to_float * k.to_float;
            i16->gemm(p->query, p->ld_query, keys, scales, p->scores, p->ld_scores, block.rows,
                      block.keys, size);
            add_bias(g, p, h, i, &block);
            add_parts(g, p, h, i, &block, p->query, p->ld_query, &q, &k);
            mask_far(g, p, i, &block);
            for (size_t r = 0; r < block.rows; r += block.alike) {
                float *row = p->scores + r * p->ld_scores;
                const size_t seen = block.seen + r, pairs = i16_pairs(seen);
                i16->softmax(row, p->ld_scores, block.alike, seen, g->shape->scale, most_value,
                             scales + r);
                memset(row + pairs, 0, (i16_pairs(block.keys) - pairs) * sizeof *row);
            }
            for (size_t r = 0; r < block.rows; r++)
                scales[r] = v.to_float / scales[r];
            const size_t step = outputs_at_once(g, &block);
            for (size_t j = 0; j < size; j += step)
                i16->gemm((const int32_t *)(const void *)p->scores, p->ld_scores,
                          values + j * i16_pairs(g->packed), scales, context + j, g->ld_context,
                          block.rows, smaller(step, size - j), block.keys);
        }
    }
}

static void run_whole(const struct kernels *kernels, const struct attention_shape *shape,
                      const struct attention_sequence *sequence, float *context, size_t ld_context,
                      struct workspace space) {
    const struct parts parts = take_parts(kernels, shape, sequence->keys, &space);
    const size_t heads = shape->heads / shape->kv_heads;
    for (size_t i = 0; i < shape->kv_heads; i++) {
        const struct group group = {
            .kernels = kernels,
            .shape = shape,
            .sequence = sequence,
            .q = sequence->q.data + i * heads * sequence->q.head_stride,
            .k = sequence->k.data + i * sequence->k.head_stride,
            .v = sequence->v.data + i * sequence->v.head_stride,
            .context = context + i * heads * shape->head_size,
            .ld_context = ld_context,
            .first = i * heads,
            .bias = shape->bias ? shape->bias + i * heads * shape->bias_stride : NULL,
            .heads = heads,
            .packed = block_at(shape, sequence, sequence->end - 1).keys,
        };
        if (shape->i16 && kernels->i16)
            attend_i16(&group, &parts);
        else
            attend_f32(&group, &parts);
    }
}

/* Returns rows from row `first` on. */
static struct attention_rows rows_from(struct attention_rows rows, size_t first) {
    rows.data += first * rows.row_stride;
    return rows;
}

/* Computes a sequence part by part, each with the keys that its queries see, so that its cost grows
 * with the window and not with the text. Parts begin at multiples of their length and their keys at
 * multiples of QUERY_ROWS: what a query is multiplied with, and in floats the bits of its result,
 * do not depend on the call. Of floats they are those of all keys, since a sum of the others is 0
 * and keys stay in their lanes. */
static void run_near(const struct kernels *kernels, const struct attention_shape *shape,
                     const struct attention_sequence *s, float *context, size_t ld_context,
                     struct workspace space) {
    const size_t before = s->keys - s->queries, length = near_queries(shape);
    for (size_t i = s->first, next; i < s->end; i = next) {
        const size_t begin = (before + i) / length * length; /* positions */
        const size_t end = smaller(begin + length, s->keys);
        const size_t own = larger(begin, before) - before; /* the part's first query */
        const size_t low =
            begin > shape->window ? (begin - shape->window) / QUERY_ROWS * QUERY_ROWS : 0;
        struct attention_sequence part = *s;
        next = smaller(s->end, end - before);
        part.keys = smaller(s->keys, end + shape->ahead) - low;
        part.queries = low + part.keys - (before + own);
        part.q = rows_from(s->q, own);
        part.k = rows_from(s->k, low);
        part.v = rows_from(s->v, low);
        part.first = i - own;
        part.end = next - own;
        run_whole(kernels, shape, &part, context + (i - s->first) * ld_context, ld_context, space);
    }
}

static void run(const struct kernels *kernels, const struct attention_shape *shape,
                const struct attention_sequence *sequence, float *context, size_t ld_context,
                struct workspace space) {
    if (SEES_NEAR && shape->mask == ATTENTION_NEAR)
        run_near(kernels, shape, sequence, context, ld_context, space);
    else
        run_whole(kernels, shape, sequence, context, ld_context, space);
}

const struct attention_policy attention_full = {
    .name = "full",
    .masks =
        1u << ATTENTION_ALL_KEYS | 1u << ATTENTION_CAUSAL | (unsigned)SEES_NEAR << ATTENTION_NEAR,
    .biases = true,
    .needs_cache = false,
    .workspace_bytes = workspace_bytes,
    .run = run,
};
