/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/steps.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/half.h"

/* Rows of a block: few enough that what they take stays in the first-level cache. */
enum { BLOCK_ROWS = 32 };

/* Takes a key that is not seen out of what a step weighs. */
static const float HIDDEN = 3e38f;

static size_t group_of(const struct attention_shape *shape) {
    return shape->heads / shape->kv_heads;
}

size_t step_heads(const struct query_block *block) {
    return group_of(block->shape);
}

size_t step_queries(const struct attention_shape *shape) {
    size_t queries = BLOCK_ROWS;
    while (queries > 1 && queries * group_of(shape) > BLOCK_ROWS)
        queries /= 2;
    return queries;
}

void step_take(const struct kernels *kernels, const struct attention_shape *shape,
               struct workspace *space, struct query_block *b) {
    const size_t rows = step_queries(shape) * group_of(shape), size = shape->head_size;
    b->kernels = kernels;
    b->shape = shape;
    b->ld_sum = kv_channels(size);
    b->q = workspace_take(space, rows, size, sizeof *b->q);
    b->bytes = workspace_take(space, rows, kv_key_bytes(size), sizeof *b->bytes);
    b->sums = workspace_take(space, rows, kv_blocks(size), sizeof *b->sums);
    b->factors = workspace_take(space, 1, rows, sizeof *b->factors);
    b->exponents = workspace_take(space, 1, rows, sizeof *b->exponents);
    b->softmax = workspace_take(space, 1, rows, sizeof *b->softmax);
    b->scores = workspace_take(space, rows, KV_STEP, sizeof *b->scores);
    b->shares = workspace_take(space, rows, KV_STEP, sizeof *b->shares);
    b->sum = workspace_take(space, rows, b->ld_sum, sizeof *b->sum);
    b->page = workspace_take(space, rows, b->ld_sum, sizeof *b->page);
    b->panel = workspace_take(space, larger(KV_STEP, size), kernels->f32_panel, sizeof *b->panel);
}

static enum kv_type type_of(const struct query_block *b) {
    return b->sequence->cache->shape.type;
}

float step_quantise(const float *restrict x, size_t n, int8_t *restrict bytes,
                    int32_t *restrict sums) {
    const float largest = kv_largest(x, n);
    kv_round(x, n, largest < 0x1p-100f ? 0 : 127 / largest, bytes);
    memset(bytes + n, 0, kv_key_bytes(n) - n);
    for (size_t start = 0; start < n; start += KV_BLOCK, sums++) {
        int32_t sum = 0;
        for (size_t i = start; i < smaller(n, start + KV_BLOCK); i++)
            sum += bytes[i];
        *sums = sum;
    }
    return kv_scale(largest);
}

/* Returns the position in the sequence of the block's first query. */
static size_t position_of(const struct query_block *b) {
    return b->sequence->keys - b->sequence->queries + b->first;
}

void step_begin(struct query_block *b) {
    const struct attention_sequence *s = b->sequence;
    const size_t size = b->shape->head_size, group = group_of(b->shape);
    b->rows = b->queries * group;
    for (size_t r = 0; r < b->rows; r++) {
        float *q = b->q + r * size;
        memcpy(q,
               s->q.data + (b->first + r / group) * s->q.row_stride +
                   (b->kv_head * group + r % group) * s->q.head_stride,
               size * sizeof *q);
        b->factors[r] = b->shape->scale;
        if (type_of(b) == KV_INT8)
            b->factors[r] *= step_quantise(q, size, b->bytes + r * kv_key_bytes(size),
                                           b->sums + r * kv_blocks(size));
        b->exponents[r] = b->shape->soft_cap > 0 ? 1 : b->factors[r];
        b->softmax[r] = (struct softmax_row){.top = -INFINITY};
    }
    memset(b->sum, 0, b->rows * b->ld_sum * sizeof *b->sum);
    memset(b->page, 0, b->rows * b->ld_sum * sizeof *b->page); /* also what fills the rows */
}

/* Returns the first key that the query at a position sees. */
static size_t first_seen(const struct attention_shape *shape, size_t position) {
    return shape->mask == ATTENTION_WINDOW && position >= shape->window
               ? position + 1 - shape->window
               : 0;
}

size_t step_first_key(const struct query_block *b) {
    return first_seen(b->shape, position_of(b));
}

static void expand_halves(const uint16_t *halves, size_t n, float *y) {
    for (size_t i = 0; i < n; i++)
        y[i] = float_of_half(halves[i]);
}

/* Computes the scores of a step's keys, from position `at` of a page on. */
static void score(const struct query_block *b, const struct kv_head *head, size_t at) {
    const struct kernels *kernels = b->kernels;
    const size_t size = b->shape->head_size, panel = kernels->f32_panel;
    const struct int8_queries queries = {b->bytes, b->sums, b->rows, size};
    const float *floats = (const float *)head->keys + at * size;
    const uint16_t *halves = (const uint16_t *)head->keys + at * size;
    if (type_of(b) == KV_INT8) {
        kernels->kv->score_int8(&queries, (const int8_t *)head->keys + at * kv_key_bytes(size),
                                head->key_scales + at, KV_PAGE, b->scores);
    } else if (type_of(b) == KV_F32) {
        kernels->gemm_f32(b->q, size, floats, NULL, b->scores, KV_STEP, b->rows, KV_STEP, size);
    } else if (kernels->gemm_f16) {
        kernels->gemm_f16(b->q, size, halves, NULL, b->scores, KV_STEP, b->rows, KV_STEP, size);
    } else {
        for (size_t j = 0; j < KV_STEP; j += panel) {
            expand_halves(halves + j * size, panel * size, b->panel);
            kernels->gemm_f32(b->q, size, b->panel, NULL, b->scores + j, KV_STEP, b->rows, panel,
                              size);
        }
    }
}

/* The keys of a step that a query sees, counted from the step's first. */
struct key_range {
    size_t first, end; /* none if first >= end */
};

/* Returns those that row r sees in the step that begins with key `start`. */
static struct key_range keys_seen(const struct query_block *b, size_t r, size_t start) {
    const size_t position = position_of(b) + r / group_of(b->shape);
    const size_t first = larger(first_seen(b->shape, position), start);
    const size_t end = smaller(position + 1, start + KV_STEP);
    return (struct key_range){first - start, larger(end, start) - start};
}

/* Turns the scores of rows [r, r + n), which see the same keys of the step that begins with key
 * `start`, into shares. */
static void share_rows(const struct query_block *b, const struct kv_head *head, size_t start,
                       size_t r, size_t n, struct key_range seen) {
    const struct kernels *kernels = b->kernels;
    float *scores = b->scores + r * KV_STEP;
    uint8_t *shares = b->shares + r * KV_STEP;
    if (seen.first >= seen.end) { /* none */
        for (size_t i = r; i < r + n; i++) {
            b->softmax[i].keep = 1;
            b->softmax[i].scale = 0;
        }
        memset(scores, 0, n * KV_STEP * sizeof *scores);
        memset(shares, 0, n * KV_STEP);
        return;
    }
    for (size_t i = 0; i < n && b->shape->soft_cap > 0 && !b->scored; i++)
        kernels->soft_cap(scores + i * KV_STEP, KV_STEP, b->factors[r + i], b->shape->soft_cap);
    if (type_of(b) == KV_INT8) {
        kernels->kv->shares_int8(scores, n, seen.first, seen.end, b->exponents + r,
                                 head->value_scales + start % KV_PAGE, &b->softmax[r], shares);
        return;
    }
    for (size_t i = 0; i < n; i++)
        kernels->kv->shares(scores + i * KV_STEP, seen.first, seen.end, b->exponents[r + i],
                            &b->softmax[r + i]);
}

/* Turns the scores of the step that begins with key `start` into shares. */
static void share(const struct query_block *b, const struct kv_head *head, size_t start) {
    for (size_t r = 0, next; r < b->rows; r = next) {
        const struct key_range seen = keys_seen(b, r, start);
        for (next = r + 1; next < b->rows; next++) {
            const struct key_range other = keys_seen(b, next, start);
            if (other.first != seen.first || other.end != seen.end)
                break;
        }
        share_rows(b, head, start, r, next - r, seen);
    }
}

/* Adds the step's values, times their shares, to the sums. */
static void add_up(const struct query_block *b, const struct kv_head *head, size_t at) {
    const struct kernels *kernels = b->kernels;
    const size_t size = b->shape->head_size, panel = kernels->f32_panel;
    if (type_of(b) == KV_INT8) {
        const int8_t *values = (const int8_t *)head->values + at * kv_channels(size);
        kernels->kv->add_up_int8(b->shares, b->softmax, values, b->rows, size, b->sum);
        return;
    }
    for (size_t j = 0; j < size; j += panel) {
        const size_t columns = smaller(panel, size - j), place = j * KV_PAGE + at * panel;
        const float *floats = (const float *)head->values + place;
        const uint16_t *halves = (const uint16_t *)head->values + place;
        if (type_of(b) == KV_F16 && kernels->gemm_f16) {
            kernels->gemm_f16(b->scores, KV_STEP, halves, NULL, b->page + j, b->ld_sum, b->rows,
                              columns, KV_STEP);
            continue;
        }
        if (type_of(b) == KV_F16)
            expand_halves(halves, KV_STEP * panel, b->panel);
        kernels->gemm_f32(b->scores, KV_STEP, type_of(b) == KV_F32 ? floats : b->panel, NULL,
                          b->page + j, b->ld_sum, b->rows, columns, KV_STEP);
    }
    kernels->kv->add_up(b->page, b->softmax, b->rows, b->ld_sum, b->sum);
}

/* Returns the head of the block in the page of a step, which is held until kv_cache_let_go. */
static struct kv_head head_of(const struct query_block *b, size_t step) {
    const struct attention_sequence *s = b->sequence;
    return kv_cache_head(s->cache, step * KV_STEP / KV_PAGE, s->layer, s->kv_head + b->kv_head);
}

static void let_go(const struct query_block *b, size_t step) {
    kv_cache_let_go(b->sequence->cache, step * KV_STEP / KV_PAGE, b->sequence->layer);
}

void step_add(struct query_block *b, size_t step) {
    const size_t start = step * KV_STEP, at = start % KV_PAGE;
    const struct kv_head head = head_of(b, step);
    if (!b->scored)
        score(b, &head, at);
    share(b, &head, start);
    add_up(b, &head, at);
    let_go(b, step);
}

struct query_block step_part(const struct query_block *block, size_t first, size_t end) {
    const size_t row = first * step_heads(block), size = block->shape->head_size;
    struct query_block part = *block;
    part.first += first;
    part.queries = end - first;
    part.rows = part.queries * step_heads(block);
    part.q += row * size;
    part.bytes += row * kv_key_bytes(size);
    part.sums += row * kv_blocks(size);
    part.factors += row;
    part.exponents += row;
    part.softmax += row;
    part.sum += row * block->ld_sum;
    return part;
}

size_t step_keys_seen(const struct query_block *block, size_t i, size_t first, size_t end) {
    const size_t position = position_of(block) + i;
    const size_t from = larger(first_seen(block->shape, position), first * KV_STEP);
    return larger(smaller(position + 1, end * KV_STEP), from) - from;
}

size_t step_own(const struct query_block *block) {
    return position_of(block) / KV_STEP;
}

void step_look_by(const struct query_block *block, const struct step_looks *looks,
                  bool (*sees)(const struct attention_settings *settings, size_t query_step,
                               size_t key_step)) {
    for (size_t s = looks->first; s < looks->end; s++)
        for (size_t i = 0; i < block->queries; i++)
            looks->at[i * looks->ld + s] = sees(block->sequence->settings, step_own(block), s);
}

/* Computes the scores of a step, and weights[r * ld], the sum of the powers of each row's. */
static void add_powers(const struct query_block *b, size_t step, float *weights, size_t ld) {
    const size_t start = step * KV_STEP;
    const struct kv_head head = head_of(b, step);
    score(b, &head, start % KV_PAGE);
    let_go(b, step);
    for (size_t r = 0; r < b->rows; r++) {
        const struct key_range seen = keys_seen(b, r, start);
        float *scores = b->scores + r * KV_STEP;
        float factor = b->factors[r];
        if (b->shape->soft_cap > 0) {
            b->kernels->soft_cap(scores, KV_STEP, factor, b->shape->soft_cap);
            factor = 1;
        }
        for (size_t j = 0; j < smaller(seen.first, KV_STEP); j++)
            scores[j] = -HIDDEN;
        for (size_t j = smaller(seen.end, KV_STEP); j < KV_STEP; j++)
            scores[j] = -HIDDEN;
        weights[r * ld] = b->kernels->kv->mass(scores, factor);
    }
}

void step_weigh(const struct query_block *b, const struct step_looks *looks) {
    const size_t heads = step_heads(b), ld = looks->ld;
    struct query_block at = *b;
    for (size_t s = looks->first; s < looks->end; s++) {
        at.scores = looks->scores ? looks->scores + s * b->rows * KV_STEP : b->scores;
        add_powers(&at, s, looks->weights + s, ld);
    }
    for (size_t i = 0; i < b->queries; i++) {
        float *to = looks->weights + i * ld;
        for (size_t h = 0; h < heads; h++) {
            const float *from = looks->weights + (i * heads + h) * ld;
            float total = 0;
            for (size_t s = looks->first; s < looks->end; s++)
                total += from[s];
            const float inverse = total < INFINITY ? 1 / (total * (float)heads) : INFINITY;
            for (size_t s = looks->first; s < looks->end; s++)
                to[s] = (h == 0 ? 0 : to[s]) + from[s] * inverse;
        }
        for (size_t s = looks->first; s < looks->end; s++)
            if (!(to[s] <= 2)) {
                for (size_t all = looks->first; all < looks->end; all++)
                    to[all] = 1;
                break;
            }
    }
}

/* Returns the power of the sink of row r, which its sum of powers lacks. */
static float sink_of(const struct query_block *b, size_t r) {
    const size_t group = group_of(b->shape);
    return expf(b->shape->sinks[b->kv_head * group + r % group] -
                b->exponents[r] * b->softmax[r].top);
}

void step_end(const struct query_block *b, float *context, size_t ld_context) {
    const size_t size = b->shape->head_size, group = group_of(b->shape);
    for (size_t r = 0; r < b->rows; r++) {
        float *to = context + (b->first - b->sequence->first + r / group) * ld_context +
                    (b->kv_head * group + r % group) * size;
        float total = 0;
        for (size_t i = 0; i < SOFTMAX_LANES; i++)
            total += b->softmax[r].total[i];
        if (b->shape->sinks)
            total += sink_of(b, r);
        const float inverse = 1 / total;
        for (size_t c = 0; c < size; c++)
            to[c] = b->sum[r * b->ld_sum + c] * inverse;
    }
}
