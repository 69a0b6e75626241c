/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/attention_watch.h"

#include <math.h>
#include <string.h>

#include "attention/steps.h"
#include "base/checked.h"

static size_t block_count(size_t steps) {
    const size_t blocks = (steps + MASK_STEPS - 1) / MASK_STEPS;
    return blocks * (blocks + 1) / 2;
}

wisp_status watch_open(struct watch *watch, struct arena *arena, wisp_error *error) {
    const size_t n = watch->shape.layers * watch->shape.kv_heads, steps = watch->shape.steps;
    const size_t sizes[] = {steps, steps, block_count(steps)};
    ARENA_TAKE(arena, watch->heads, n, error);
    for (size_t i = 0; i < n; i++) {
        struct watched_head *head = &watch->heads[i];
        double **const most[] = {&head->slash, &head->vertical, &head->blocks};
        for (size_t kind = 0; kind < 3; kind++) {
            ARENA_TAKE(arena, *most[kind], sizes[kind], error);
            ARENA_TAKE(arena, head->sums[kind], sizes[kind], error);
        }
    }
    return WISP_OK;
}

void watch_end_part(struct watch *watch) {
    const size_t steps = watch->shape.steps, sizes[] = {steps, steps, block_count(steps)};
    for (size_t i = 0; i < watch->shape.layers * watch->shape.kv_heads; i++) {
        struct watched_head *head = &watch->heads[i];
        double *const most[] = {head->slash, head->vertical, head->blocks};
        for (size_t kind = 0; kind < 3; kind++)
            for (size_t at = 0; at < sizes[kind]; at++) {
                most[kind][at] = fmax(most[kind][at], head->sums[kind][at] / head->queries);
                head->sums[kind][at] = 0;
            }
        for (size_t m = 0; m < head->masks; m++) {
            head->error[m] = fmax(head->error[m], sqrt(head->wrong[m] / head->all));
            head->wrong[m] = 0;
        }
        head->queries = head->all = 0;
    }
}

/* ---- the policy ----------------------------------------------------------------------------- */

/* The outputs of the rows of a block, step by step. */
struct partials {
    float *sum;   /* [rows, ld, ld_sum]: shares times values of each step, */
    float *total; /* [rows, ld]: and the sum of its shares */
    bool *kept;   /* [ld] */
    float *whole; /* [rows, ld_sum]: the outputs */
    float *part;  /* [ld_sum] */
};

static struct step_looks take_looks(const struct attention_shape *shape, size_t keys,
                                    struct workspace *space) {
    const size_t rows = step_queries(shape) * (shape->heads / shape->kv_heads);
    struct step_looks looks = {.ld = keys / KV_STEP + 1};
    looks.weights = workspace_take(space, rows, looks.ld, sizeof *looks.weights);
    return looks;
}

static struct partials take_partials(const struct attention_shape *shape, size_t ld,
                                     struct workspace *space) {
    const size_t rows = step_queries(shape) * (shape->heads / shape->kv_heads);
    const size_t size = kv_channels(shape->head_size);
    struct partials p;
    p.sum = workspace_take(space, rows * ld, size, sizeof *p.sum);
    p.total = workspace_take(space, rows, ld, sizeof *p.total);
    p.kept = workspace_take(space, 1, ld, sizeof *p.kept);
    p.whole = workspace_take(space, rows, size, sizeof *p.whole);
    p.part = workspace_take(space, 1, size, sizeof *p.part);
    return p;
}

static size_t workspace_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {0};
    struct query_block block;
    step_take(kernels, shape, &measured, &block);
    (void)take_partials(shape, take_looks(shape, keys, &measured).ld, &measured);
    return larger(measured.used, attention_cached_bytes(kernels, shape, keys));
}

static void add_weights(const struct query_block *b, const struct step_looks *looks,
                        struct watched_head *head) {
    const size_t own = step_own(b), q = own / MASK_STEPS;
    step_weigh(b, looks);
    for (size_t i = 0; i < b->queries; i++)
        for (size_t s = looks->first; s < looks->end; s++) {
            const double weight = (double)looks->weights[i * looks->ld + s];
            head->sums[0][own - s] += weight;
            head->sums[1][s] += weight;
            head->sums[2][q * (q + 1) / 2 + s / MASK_STEPS] += weight;
        }
    head->queries += (double)b->queries;
}

/* Computes what each step gives to each row, all of a row times the same factor. */
static void divide(struct query_block *b, const struct step_looks *looks,
                   const struct partials *p) {
    const size_t size = b->ld_sum, heads = step_heads(b);
    for (size_t s = looks->first; s < looks->end; s++) {
        for (size_t r = 0; r < b->rows; r++)
            b->softmax[r] = (struct softmax_row){.top = -INFINITY};
        memset(b->sum, 0, b->rows * size * sizeof *b->sum);
        step_add(b, s);
        for (size_t r = 0; r < b->rows; r++) {
            float total = 0;
            for (size_t i = 0; i < SOFTMAX_LANES; i++)
                total += b->softmax[r].total[i];
            memcpy(p->sum + (r * looks->ld + s) * size, b->sum + r * size, size * sizeof *p->sum);
            p->total[r * looks->ld + s] = total;
            looks->weights[r * looks->ld + s] =
                b->softmax[r].top * (b->shape->soft_cap > 0 ? 1 : b->factors[r]);
        }
    }
    for (size_t r = 0; r < b->rows; r++) {
        float *tops = looks->weights + r * looks->ld, top = -INFINITY;
        for (size_t s = looks->first; s < looks->end; s++)
            top = fmaxf(top, tops[s]);
        for (size_t s = looks->first; s < looks->end; s++) {
            const float factor = expf(tops[s] - top);
            p->total[r * looks->ld + s] *= factor;
            for (size_t c = 0; c < size; c++)
                p->sum[(r * looks->ld + s) * size + c] *= factor;
        }
        if (b->shape->sinks) { /* to which no value belongs */
            const float sink = b->shape->sinks[b->kv_head * heads + r % heads];
            p->total[r * looks->ld + looks->end - 1] += expf(sink - top);
        }
    }
}

/* Adds up the kept steps of a row. */
static void gather(const struct query_block *b, const struct step_looks *looks,
                   const struct partials *p, size_t row, bool all, float *output) {
    const size_t size = b->ld_sum;
    float total = 0;
    memset(output, 0, size * sizeof *output);
    for (size_t s = looks->first; s < looks->end; s++) {
        const float *sum = p->sum + (row * looks->ld + s) * size;
        if (!all && !p->kept[s])
            continue;
        total += p->total[row * looks->ld + s];
        for (size_t c = 0; c < size; c++)
            output[c] += sum[c];
    }
    for (size_t c = 0; c < size && total > 0; c++)
        output[c] /= total;
}

static double distance(const float *a, const float *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

/* Tries all masks of a head on the rows of a block. */
static void try_masks(const struct watch *watch, struct query_block *b,
                      const struct step_looks *looks, const struct partials *p,
                      struct watched_head *head) {
    const size_t own = step_own(b), size = b->shape->head_size;
    divide(b, looks, p);
    for (size_t r = 0; r < b->rows; r++) {
        float *whole = p->whole + r * b->ld_sum;
        gather(b, looks, p, r, true, whole);
        for (size_t c = 0; c < size; c++)
            head->all += (double)whole[c] * (double)whole[c];
    }
    for (size_t m = 0; m < head->masks; m++) {
        size_t kept = 0;
        for (size_t s = looks->first; s < looks->end; s++)
            kept += p->kept[s] = attention_mask_keeps(&watch->shape, &head->mask[m], own, s);
        head->kept[m] += (double)(kept * b->queries);
        for (size_t r = 0; r < b->rows; r++) {
            gather(b, looks, p, r, false, p->part);
            head->wrong[m] += distance(p->whole + r * b->ld_sum, p->part, size);
        }
    }
    head->visible += (double)((looks->end - looks->first) * b->queries);
}

/* Plans nothing: it watches the call that comes. */
/* NOLINTBEGIN(readability-non-const-parameter): policies have this type */
static void prepare(const struct kernels *kernels, const struct attention_shape *shape,
                    const struct attention_sequence *s, size_t kv_head, unsigned char *plan,
                    struct workspace space) {
    /* NOLINTEND(readability-non-const-parameter) */
    const struct watch *watch = ((const struct watched_masks *)s->masks)->watch;
    struct watched_head *head = &watch->heads[s->layer * watch->shape.kv_heads + kv_head];
    const size_t past = s->keys - s->queries, most = step_queries(shape);
    struct query_block b = {.sequence = s, .kv_head = kv_head};
    (void)plan;
    step_take(kernels, shape, &space, &b);
    struct step_looks looks = take_looks(shape, s->keys, &space);
    const struct partials partials = take_partials(shape, looks.ld, &space);
    for (b.first = watch->from > past ? watch->from - past : 0; b.first < s->queries;
         b.first += b.queries) {
        const size_t position = past + b.first;
        b.queries = smaller(s->queries - b.first, round_up(position + 1, most) - position);
        step_begin(&b);
        looks.first = step_first_key(&b) / KV_STEP;
        looks.end = step_own(&b) + 1;
        if (watch->measures)
            try_masks(watch, &b, &looks, &partials, head);
        else
            add_weights(&b, &looks, head);
    }
}

const struct attention_policy attention_watched = {
    .name = "watched",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .prepare = prepare,
    .workspace_bytes = workspace_bytes,
    .run = attention_cached_run,
};
