/* SPDX-License-Identifier: Apache-2.0
 * The merges of a BPE vocabulary: which pairs of neighbouring tokens become one token, and which
 * merge comes first. */
#ifndef WISP_TOKENIZERS_MERGE_TABLE_H
#define WISP_TOKENIZERS_MERGE_TABLE_H

#include "base/arena.h"

struct bpe_merge {
    int32_t left, right; /* tokens */
    int32_t result;      /* the token they become */
    uint32_t rank;       /* merges of lower rank come first */
};

/* A hash table with linear probing. */
struct merge_table {
    struct bpe_merge *slots; /* an empty one has left = -1 */
    uint32_t mask;           /* number of slots - 1 */
    unsigned shift;          /* hash >> shift is the number of a slot */
    uint64_t seed;
};

enum merge_table_result {
    MERGE_TABLE_BUILT,
    MERGE_TABLE_MEMORY,   /* there is no memory */
    MERGE_TABLE_TWICE,    /* a pair has two merges: *which and an earlier one */
    MERGE_TABLE_COLLISION /* pairs were chosen so that they cannot be hashed */
};

/* Builds the table in `arena` from merges [count], at most INT32_MAX. Sets *which to the merge at
 * which it failed. */
enum merge_table_result merge_table_build(struct merge_table *table, struct arena *arena,
                                          const struct bpe_merge *merges, size_t count,
                                          size_t *which);

/* Returns the merge of two tokens, or NULL if they have none. */
const struct bpe_merge *merge_table_find(const struct merge_table *table, int32_t left,
                                         int32_t right);

#endif
