/* SPDX-License-Identifier: Apache-2.0
 * Steps by what they weigh: the scores of all keys are computed, with int8 caches in bytes, and of
 * them, of each query and key-value head, the steps with the largest shares of the softmax until
 * these make `mass` thousandths. Softmax and values follow only for these steps. Nothing is
 * estimated, so every query and head gives up at most the rest, on average over the head's query
 * heads. Related: Lai et al., FlexPrefill (2025), which adds up estimated shares. */
#include "attention/attention.h"
#include "attention/steps.h"

/* Takes room for the scores of all steps of a block of queries. */
static float *take_scores(const struct attention_shape *shape, size_t steps,
                          struct workspace *space) {
    const size_t rows = step_queries(shape) * (shape->heads / shape->kv_heads);
    return workspace_take(space, steps, rows * KV_STEP, sizeof(float));
}

static size_t workspace_bytes(const struct kernels *kernels, const struct attention_shape *shape,
                              size_t keys) {
    struct workspace measured = {.used = attention_cached_bytes(kernels, shape, keys)};
    (void)take_scores(shape, keys / KV_STEP + 1, &measured);
    return measured.used;
}

struct wanted {
    const float *weights;
    bool *looks;
    float most, sum;
};

static bool enough(void *context, size_t index) {
    struct wanted *wanted = context;
    wanted->looks[index] = true;
    wanted->sum += wanted->weights[index];
    return wanted->sum >= wanted->most;
}

static void look_at_all(const struct query_block *block, const struct step_looks *looks) {
    for (size_t i = 0; i < block->queries; i++)
        for (size_t s = looks->first; s < looks->end; s++)
            looks->at[i * looks->ld + s] = true;
}

static void select_steps(const struct query_block *block, struct step_looks *looks) {
    const struct attention_sequence *sequence = block->sequence;
    const size_t n = looks->end - looks->first, mass = sequence->settings->mass;
    struct workspace space = looks->space;
    if (mass == 1000) {
        look_at_all(block, looks);
        return;
    }
    looks->scores = take_scores(block->shape, looks->ld, &space);
    step_weigh(block, looks);
    for (size_t i = 0; i < block->queries; i++) {
        const size_t at = i * looks->ld + looks->first;
        struct wanted wanted = {looks->weights + at, looks->at + at, (float)mass / 1000, 0};
        (void)attention_order(wanted.weights, n, looks->order, enough, &wanted);
    }
    if (sequence->counts)
        sequence->counts->bytes += n * kv_step_key_bytes(&sequence->cache->shape);
}

const struct attention_policy attention_mass = {
    .name = "mass",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .settings = ATTENTION_TAKES_MASS,
    .defaults = {.mass = 980},
    .least = {.mass = 1},
    .select_steps = select_steps,
    .workspace_bytes = workspace_bytes,
    .run = attention_cached_run,
};
