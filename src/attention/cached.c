/* SPDX-License-Identifier: Apache-2.0
 * Causal attention over a key-value cache: blocks of queries go through the steps in which they see
 * a key and which their policy chooses. A block of queries is within one step. */
#include <string.h>

#include "attention/attention.h"
#include "attention/steps.h"
#include "base/checked.h"

/* Takes the working memory of a policy that chooses steps among those of so many keys. */
static void take_looks(const struct attention_shape *shape, size_t keys, struct workspace *space,
                       struct step_looks *looks) {
    const size_t queries = step_queries(shape), heads = shape->heads / shape->kv_heads;
    looks->ld = keys / KV_STEP + 1;
    looks->at = workspace_take(space, queries, looks->ld, sizeof *looks->at);
    looks->weights = workspace_take(space, queries * heads, looks->ld, sizeof *looks->weights);
    looks->order = workspace_take(space, 1, looks->ld, sizeof *looks->order);
}

size_t attention_cached_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {0};
    struct query_block block;
    struct step_looks looks;
    step_take(kernels, shape, &measured, &block);
    take_looks(shape, keys, &measured, &looks);
    return measured.used;
}

static size_t attention_full_bytes(const struct kernels *kernels,
                                   const struct attention_shape *shape, size_t keys) {
    struct workspace measured = {0};
    struct query_block block;
    (void)keys;
    step_take(kernels, shape, &measured, &block);
    return measured.used;
}

/* Counts keys, and the bytes of so many steps: those of the values only if the policy has counted
 * the keys, whose scores it has kept. */
static void count(const struct query_block *block, uint64_t seen, uint64_t visible, size_t steps,
                  bool scored) {
    struct attention_counts *counts = block->sequence->counts;
    const struct kv_shape *shape = &block->sequence->cache->shape;
    if (!counts)
        return;
    counts->seen += seen;
    counts->visible += visible;
    counts->bytes += steps * ((scored ? 0 : kv_step_key_bytes(shape)) + kv_step_value_bytes(shape));
}

/* Returns the keys of a step that the queries of a block see. */
static uint64_t visible_in(const struct query_block *block, size_t step) {
    uint64_t visible = 0;
    for (size_t i = 0; i < block->queries; i++)
        visible += step_keys_seen(block, i, step, step + 1);
    return visible;
}

static void show(const struct query_block *block, size_t step, uint64_t seen, uint64_t visible) {
    const struct attention_counts *counts = block->sequence->counts;
    counts->see(counts->map, block->sequence->kv_head + block->kv_head, step_own(block), step, seen,
                visible);
}

static bool is_shown(const struct query_block *block) {
    return block->sequence->counts && block->sequence->counts->see;
}

/* Goes through all steps. */
static void look_at_all(struct query_block *block) {
    const size_t first = step_first_key(block) / KV_STEP, end = step_own(block) + 1;
    uint64_t seen = 0;
    for (size_t s = first; s < end; s++)
        step_add(block, s);
    for (size_t i = 0; i < block->queries; i++)
        seen += step_keys_seen(block, i, first, end);
    count(block, seen, seen, end - first, false);
    for (size_t s = first; s < end && is_shown(block); s++)
        show(block, s, visible_in(block, s), visible_in(block, s));
}

/* Asks the policy which steps the queries of a block look at. */
static void ask_policy(const struct query_block *block, struct step_looks *looks) {
    looks->first = step_first_key(block) / KV_STEP;
    looks->end = step_own(block) + 1;
    looks->scores = NULL;
    for (size_t i = 0; i < block->queries; i++)
        memset(looks->at + i * looks->ld, 0, looks->end * sizeof *looks->at);
    block->sequence->policy->select_steps(block, looks);
    for (size_t i = 0; i < block->queries; i++)
        looks->at[i * looks->ld + looks->end - 1] = true;
}

/* Goes through the chosen steps. Neighbouring queries that look at a step are computed together. */
static void look_at_chosen(struct query_block *block, struct step_looks *looks) {
    uint64_t seen = 0, visible = 0;
    size_t steps = 0;
    ask_policy(block, looks);
    for (size_t s = looks->first; s < looks->end; s++) {
        const uint64_t before = seen;
        bool any = false;
        for (size_t i = 0, end; i < block->queries; i = end + 1) {
            while (i < block->queries && !looks->at[i * looks->ld + s])
                i++;
            for (end = i; end < block->queries && looks->at[end * looks->ld + s]; end++)
                seen += step_keys_seen(block, end, s, s + 1);
            if (i >= end)
                continue;
            struct query_block part = step_part(block, i, end);
            if (looks->scores) {
                part.scores = looks->scores + (s * block->rows + i * step_heads(block)) * KV_STEP;
                part.scored = true;
            }
            step_add(&part, s);
            any = true;
        }
        steps += any;
        if (is_shown(block))
            show(block, s, seen - before, visible_in(block, s));
    }
    for (size_t i = 0; i < block->queries; i++)
        visible += step_keys_seen(block, i, looks->first, looks->end);
    count(block, seen, visible, steps, looks->scores != NULL);
}

/* Tells a tier which pages a call for one token looks at, in all of its key-value heads, before it
 * looks at the first. */
static void plan_pages(struct query_block *block, struct step_looks *looks) {
    const struct attention_sequence *s = block->sequence;
    struct kv_tier *tier = s->cache->tier;
    block->first = s->first;
    block->queries = 1;
    for (block->kv_head = 0; block->kv_head < block->shape->kv_heads; block->kv_head++) {
        step_begin(block);
        ask_policy(block, looks);
        for (size_t step = looks->first; step < looks->end; step++)
            if (looks->at[step])
                tier->want(
                    tier,
                    (struct kv_slice){s->cache->tier_cache, s->layer, step * KV_STEP / KV_PAGE},
                    s->keys);
    }
}

void attention_cached_run(const struct kernels *kernels, const struct attention_shape *shape,
                          const struct attention_sequence *s, float *context, size_t ld_context,
                          struct workspace space) {
    const bool chooses = s->policy && s->policy->select_steps;
    struct query_block block = {.sequence = s};
    struct step_looks looks = {0};
    const size_t most = step_queries(shape), past = s->keys - s->queries;
    step_take(kernels, shape, &space, &block);
    if (chooses)
        take_looks(shape, s->keys, &space, &looks);
    looks.space = space;
    if (chooses && s->policy->selects_steps && s->cache->tier && s->queries == 1)
        plan_pages(&block, &looks);
    for (block.kv_head = 0; block.kv_head < shape->kv_heads; block.kv_head++)
        for (block.first = s->first; block.first < s->end; block.first += block.queries) {
            const size_t position = past + block.first;
            block.queries = smaller(s->end - block.first, round_up(position + 1, most) - position);
            step_begin(&block);
            if (chooses)
                look_at_chosen(&block, &looks);
            else
                look_at_all(&block);
            step_end(&block, context, ld_context);
        }
}

const struct attention_policy attention_cached = {
    .name = "full",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .workspace_bytes = attention_full_bytes,
    .run = attention_cached_run,
};
