/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizers/merge_table.h"

#include "base/checked.h"

/* A hostile file may hold pairs whose hashes collide. If a pair would be more than MAX_PROBES slots
 * away from its place, which chance alone does not bring about, the table is filled again with
 * another seed. So building and looking up take linear time. */
enum { MAX_PROBES = 512, MAX_SEEDS = 8 };

/* Returns the slot of a pair, or the empty slot where it belongs if the table does not have it.
 * Returns NULL if that slot is more than MAX_PROBES away. */
static struct bpe_merge *find_slot(const struct merge_table *table, int32_t left, int32_t right) {
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint64_t hash = (pair ^ table->seed) * UINT64_C(0x9E3779B97F4A7C15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    const uint32_t place = (uint32_t)(hash >> table->shift);
    for (uint32_t i = 0; i < MAX_PROBES; i++) {
        struct bpe_merge *slot = &table->slots[(place + i) & table->mask];
        if (slot->left < 0 || (slot->left == left && slot->right == right))
            return slot;
    }
    return NULL;
}

static enum merge_table_result fill(struct merge_table *table, const struct bpe_merge *merges,
                                    size_t count, size_t *which) {
    for (size_t i = 0; i <= table->mask; i++)
        table->slots[i].left = -1;
    for (*which = 0; *which < count; ++*which) {
        const struct bpe_merge *merge = &merges[*which];
        struct bpe_merge *slot = find_slot(table, merge->left, merge->right);
        if (!slot)
            return MERGE_TABLE_COLLISION;
        if (slot->left >= 0)
            return MERGE_TABLE_TWICE;
        *slot = *merge;
    }
    return MERGE_TABLE_BUILT;
}

enum merge_table_result merge_table_build(struct merge_table *table, struct arena *arena,
                                          const struct bpe_merge *merges, size_t count,
                                          size_t *which) {
    uint32_t slots = 64;
    table->shift = 64 - 6;
    for (; slots / 4 * 3 < count && slots < 1u << 31; slots *= 2)
        table->shift--;
    size_t bytes;
    if (!checked_size((uint64_t)slots * sizeof *table->slots, &bytes))
        return MERGE_TABLE_MEMORY;
    table->mask = slots - 1;
    table->slots = arena_allocate(arena, bytes);
    if (!table->slots)
        return MERGE_TABLE_MEMORY;
    enum merge_table_result result = MERGE_TABLE_COLLISION;
    for (uint64_t seed = 1; seed <= MAX_SEEDS && result == MERGE_TABLE_COLLISION; seed++) {
        table->seed = seed * UINT64_C(0xD1B54A32D192ED03);
        result = fill(table, merges, count, which);
    }
    return result;
}

const struct bpe_merge *merge_table_find(const struct merge_table *table, int32_t left,
                                         int32_t right) {
    const struct bpe_merge *slot = find_slot(table, left, right);
    return slot && slot->left >= 0 ? slot : NULL;
}
