/* SPDX-License-Identifier: Apache-2.0
 * Steps by a mask that was found before, for each layer and key-value head: what calibration has
 * seen that the head's output needs, with full attention, in texts of the user's. Nothing is
 * computed to choose by, so it costs nothing, and it serves only texts like those. Related: Fu et
 * al., MoA (2024), and Xiao et al., DuoAttention (2024), whose heads are local or full. */
#include "attention/learned.h"

#include <string.h>

#include "attention/steps.h"
#include "base/checked.h"

static size_t blocks_of(size_t steps) {
    return (steps + MASK_STEPS - 1) / MASK_STEPS;
}

size_t attention_mask_bytes(size_t steps) {
    const size_t blocks = blocks_of(steps);
    return (larger(2 * steps, blocks * (blocks + 1) / 2) + 7) / 8;
}

/* Returns the mask of a head. */
static struct attention_mask_of_head attention_mask_at(const struct attention_masks *masks,
                                                       size_t layer, size_t kv_head) {
    const size_t at = layer * masks->kv_heads + kv_head;
    return (struct attention_mask_of_head){.kind = (enum attention_kind)masks->kinds[at],
                                           .window = (size_t)masks->windows[at],
                                           .bits = masks->bits +
                                                   at * attention_mask_bytes(masks->steps)};
}

static bool bit_at(const unsigned char *bits, size_t at) {
    return bits[at / 8] >> at % 8 & 1;
}

bool attention_mask_keeps(const struct attention_masks *masks,
                          const struct attention_mask_of_head *mask, size_t query_step,
                          size_t key_step) {
    const struct attention_settings near = {.window = mask->window, .sinks = masks->sinks};
    const size_t distance = query_step - key_step, steps = masks->steps;
    if (mask->kind == ATTENTION_KEEPS_ALL || attention_sees_local(&near, query_step, key_step))
        return true;
    switch (mask->kind) {
    case ATTENTION_KEEPS_LINES:
        return distance >= steps || bit_at(mask->bits, distance) ||
               (key_step < steps && bit_at(mask->bits, steps + key_step));
    case ATTENTION_KEEPS_BLOCKS: {
        const size_t q = query_step / MASK_STEPS;
        return query_step >= steps || bit_at(mask->bits, q * (q + 1) / 2 + key_step / MASK_STEPS);
    }
    default:
        return false;
    }
}

static void select_steps(const struct query_block *block, struct step_looks *looks) {
    const struct attention_sequence *s = block->sequence;
    const struct attention_mask_of_head mask =
        attention_mask_at(s->masks, s->layer, s->kv_head + block->kv_head);
    for (size_t step = looks->first; step < looks->end; step++)
        looks->at[step] = attention_mask_keeps(s->masks, &mask, step_own(block), step);
    for (size_t i = 1; i < block->queries; i++)
        memcpy(looks->at + i * looks->ld, looks->at, looks->end * sizeof *looks->at);
}

const struct attention_policy attention_learned = {
    .name = "learned",
    .selects_steps = true,
    .masks = 1u << ATTENTION_CAUSAL | 1u << ATTENTION_WINDOW,
    .needs_cache = true,
    .select_steps = select_steps,
    .workspace_bytes = attention_cached_bytes,
    .run = attention_cached_run,
};
