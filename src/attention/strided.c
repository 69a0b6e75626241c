/* SPDX-License-Identifier: Apache-2.0
 * The positions of `local`, and every `stride`-th earlier step, counted from the query's own.
 * Sources: Child et al., Generating Long Sequences with Sparse Transformers (2019); Zaheer et al.,
 * Big Bird (2020), whose global tokens are the first positions here. */
#include "attention/attention.h"
#include "attention/steps.h"

static bool sees(const struct attention_settings *settings, size_t query_step, size_t key_step) {
    return attention_sees_local(settings, query_step, key_step) ||
           (query_step - key_step) % settings->stride == 0;
}

static void select_steps(const struct query_block *block, struct step_looks *looks) {
    step_look_by(block, looks, sees);
}

const struct attention_policy attention_strided = {
    .name = "strided",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .settings = ATTENTION_TAKES_WINDOW | ATTENTION_TAKES_SINKS | ATTENTION_TAKES_STRIDE,
    .defaults = {.window = 512, .sinks = 64, .stride = 8},
    .least = {.window = KV_STEP, .stride = 1},
    .select_steps = select_steps,
    .workspace_bytes = attention_cached_bytes,
    .run = attention_cached_run,
};
