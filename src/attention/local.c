/* SPDX-License-Identifier: Apache-2.0
 * A window of the last positions, and the first positions, to which models give what they give to
 * no other key ("sinks"). Source: Xiao et al., Efficient Streaming Language Models with Attention
 * Sinks (2023). */
#include "attention/attention.h"
#include "attention/steps.h"

bool attention_sees_local(const struct attention_settings *settings, size_t query_step,
                          size_t key_step) {
    return key_step * KV_STEP < settings->sinks ||
           (query_step - key_step) * KV_STEP < settings->window + KV_STEP;
}

static void select_steps(const struct query_block *block, struct step_looks *looks) {
    step_look_by(block, looks, attention_sees_local);
}

const struct attention_policy attention_local = {
    .name = "local",
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .settings = ATTENTION_TAKES_WINDOW | ATTENTION_TAKES_SINKS,
    .defaults = {.window = 1024, .sinks = 64},
    .least = {.window = KV_STEP},
    .select_steps = select_steps,
    .workspace_bytes = attention_cached_bytes,
    .run = attention_cached_run,
};
