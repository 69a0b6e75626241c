/* SPDX-License-Identifier: Apache-2.0
 * Vertical and slash lines, for calls that read a text: what the last queries of the call look at
 * is what all of its queries look at, as steps that are the same for all (vertical), and as steps
 * at a distance from a query's own (slash). Of `budget` hundredths of the steps a fifth are
 * vertical lines, the others slashes, unless numbers of positions are given. The first positions
 * and the last are looked at in any case. Lines are as wide as a step, for each key-value head.
 * Source: Jiang et al., MInference 1.0 (2024), whose lines are as wide as a position.
 *
 * A call's last queries depend on how a text is divided among calls, and so does what is left out.
 */
#include <string.h>

#include "attention/attention.h"
#include "attention/steps.h"
#include "base/checked.h"

enum { LAST_QUERIES = 64, FIFTHS = 5 };

/* A plan is a bool for each vertical line, and one for each slash. */
static size_t lines(size_t keys) {
    return keys / KV_STEP + 1;
}

static size_t plan_bytes(size_t keys) {
    return 2 * lines(keys) * sizeof(bool);
}

struct parts {
    struct step_looks looks;
    float *vertical, *slash; /* [lines]: what the last queries give to each */
};

static struct parts take_parts(const struct attention_shape *shape, size_t keys,
                               struct workspace *space) {
    const size_t rows = step_queries(shape) * (shape->heads / shape->kv_heads);
    struct parts p = {.looks.ld = lines(keys)};
    p.looks.weights = workspace_take(space, rows, p.looks.ld, sizeof *p.looks.weights);
    p.looks.order = workspace_take(space, 1, p.looks.ld, sizeof *p.looks.order);
    p.vertical = workspace_take(space, 1, p.looks.ld, sizeof *p.vertical);
    p.slash = workspace_take(space, 1, p.looks.ld, sizeof *p.slash);
    return p;
}

static size_t workspace_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {0};
    struct query_block block;
    step_take(kernels, shape, &measured, &block);
    (void)take_parts(shape, keys, &measured);
    return larger(measured.used, attention_cached_bytes(kernels, shape, keys));
}

struct wanted {
    bool *lines;
    size_t left;
};

static bool enough(void *context, size_t index) {
    struct wanted *wanted = context;
    if (wanted->left == 0)
        return true;
    wanted->lines[index] = true;
    return --wanted->left == 0;
}

/* Returns the number of lines: as many as `positions` fill or, if these are 0, `fifths` of the
 * budget for n steps. The whole budget is all lines. */
static size_t lines_of(size_t positions, size_t n, size_t budget, size_t fifths) {
    if (positions > 0)
        return (positions + KV_STEP - 1) / KV_STEP;
    return budget == 100 ? n : (n * budget * fifths + 100 * FIFTHS - 1) / (100 * FIFTHS);
}

/* Adds what the queries of a block give to the lines. */
static void add_block(struct query_block *block, struct parts *p) {
    const size_t own = step_own(block);
    p->looks.first = step_first_key(block) / KV_STEP;
    p->looks.end = own + 1;
    step_begin(block);
    step_weigh(block, &p->looks);
    for (size_t i = 0; i < block->queries; i++)
        for (size_t s = p->looks.first; s < p->looks.end; s++) {
            const float weight = p->looks.weights[i * p->looks.ld + s];
            p->vertical[s] += weight;
            p->slash[own - s] += weight;
        }
}

static void prepare(const struct kernels *kernels, const struct attention_shape *shape,
                    const struct attention_sequence *s, size_t kv_head, unsigned char *plan,
                    struct workspace space) {
    const struct attention_settings *set = s->settings;
    const size_t n = (s->keys - 1) / KV_STEP + 1, most = step_queries(shape);
    const size_t past = s->keys - s->queries;
    struct query_block block = {.sequence = s, .kv_head = kv_head};
    step_take(kernels, shape, &space, &block);
    struct parts p = take_parts(shape, s->keys, &space);
    memset(p.vertical, 0, n * sizeof *p.vertical);
    memset(p.slash, 0, n * sizeof *p.slash);
    memset(plan, 0, plan_bytes(s->keys));
    block.first = s->queries - smaller(s->queries, LAST_QUERIES);
    for (; block.first < s->queries; block.first += block.queries) {
        const size_t position = past + block.first;
        block.queries = smaller(s->queries - block.first, round_up(position + 1, most) - position);
        add_block(&block, &p);
    }
    struct wanted vertical = {(bool *)plan, lines_of(set->vertical, n, set->budget, 1)};
    struct wanted slash = {(bool *)plan + lines(s->keys),
                           lines_of(set->slash, n, set->budget, FIFTHS - 1)};
    (void)attention_order(p.vertical, n, p.looks.order, enough, &vertical);
    (void)attention_order(p.slash, n, p.looks.order, enough, &slash);
}

static void select_steps(const struct query_block *block, struct step_looks *looks) {
    const struct attention_sequence *s = block->sequence;
    const bool *vertical = (const bool *)(s->plan + block->kv_head * s->plan_bytes);
    const bool *slash = vertical + lines(s->keys);
    const size_t own = step_own(block);
    for (size_t step = looks->first; step < looks->end; step++)
        looks->at[step] =
            vertical[step] || slash[own - step] || attention_sees_local(s->settings, own, step);
    for (size_t i = 1; i < block->queries; i++)
        memcpy(looks->at + i * looks->ld, looks->at, looks->end * sizeof *looks->at);
}

const struct attention_policy attention_minference = {
    .name = "minference",
    .only_prefill = true,
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .settings = ATTENTION_TAKES_WINDOW | ATTENTION_TAKES_SINKS | ATTENTION_TAKES_BUDGET,
    .defaults = {.window = 100, .sinks = 30, .budget = 30},
    .least = {.window = KV_STEP, .budget = 1},
    .select_steps = select_steps,
    .plan_bytes = plan_bytes,
    .prepare = prepare,
    .workspace_bytes = workspace_bytes,
    .run = attention_cached_run,
};
