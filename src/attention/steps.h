/* SPDX-License-Identifier: Apache-2.0
 * Causal attention over a key-value cache, step by step. A step is KV_STEP positions. A block of
 * queries of one key-value head goes through the steps that a policy chooses, in their order; each
 * adds to what the steps before have added up (kernels/kv_step.h). The query heads that share a
 * key-value head are rows of one product, so that each key is loaded once for all of them.
 *
 * A query is computed by the same operations whether it comes alone or among others, and a key that
 * it does not see has a share of 0. So a prompt has the same bits in one call and token by token,
 * as long as the steps are the same. */
#ifndef WISP_ATTENTION_STEPS_H
#define WISP_ATTENTION_STEPS_H

#include "attention/attention.h"

/* The working memory, and the block of queries that is computed. */
struct query_block {
    const struct kernels *kernels;
    const struct attention_shape *shape;
    const struct attention_sequence *sequence;
    size_t kv_head;              /* of the call: the block has the query heads of its group */
    size_t first, queries;       /* of the call */
    size_t rows;                 /* queries times heads of the group: row r is query r / heads */
    float *q;                    /* [rows, head_size] */
    int8_t *bytes;               /* [rows, kv_key_bytes(head_size)]: the queries in bytes, */
    int32_t *sums;               /* [rows, kv_blocks(head_size)]: the sums of their blocks */
    float *factors;              /* [rows]: of scores, on the way to the exponents of e, */
    float *exponents;            /* [rows]: and of what a soft cap makes of them, if there is one */
    struct softmax_row *softmax; /* [rows] */
    float *scores;               /* [rows, KV_STEP] */
    bool scored;     /* `scores` has those of the next step, with a soft cap if there is one */
    uint8_t *shares; /* [rows, KV_STEP] */
    float *sum;      /* [rows, ld_sum]: the results so far */
    float *page;     /* [rows, ld_sum]: what a step adds */
    float *panel;    /* [KV_STEP or head_size, panel]: 16-bit floats as floats */
    size_t ld_sum;
};

/* Returns how many queries of a shape are computed together: a power of two, at most KV_STEP, so
 * that no step's end is within a block of queries that begins at a multiple of it. */
size_t step_queries(const struct attention_shape *shape);

/* Takes the working memory of blocks. */
void step_take(const struct kernels *kernels, const struct attention_shape *shape,
               struct workspace *space, struct query_block *block);

/* Begins a block with queries [first, first + queries) of a call, of which all fields above it are
 * set. */
void step_begin(struct query_block *block);

/* Returns the first key that the block's first query sees. */
size_t step_first_key(const struct query_block *block);

/* Goes through step `step` of the sequence, of which some query of the block sees a key. */
void step_add(struct query_block *block, size_t step);

/* Returns the queries [first, end) of a block as a block, whose results are parts of the whole's.
 */
struct query_block step_part(const struct query_block *block, size_t first, size_t end);

/* ---- for policies that choose steps -------------------------------------------------------- */

/* Returns the query heads that share the block's key-value head. */
size_t step_heads(const struct query_block *block);

/* Returns how many keys query i of the block sees in the steps [first, end). */
size_t step_keys_seen(const struct query_block *block, size_t i, size_t first, size_t end);

/* Returns the step in which the block's queries are. */
size_t step_own(const struct query_block *block);

/* Looks at what `sees` says of the queries' step and another. */
void step_look_by(const struct query_block *block, const struct step_looks *looks,
                  bool (*sees)(const struct attention_settings *settings, size_t query_step,
                               size_t key_step));

/* Computes looks->weights[i * ld + s], the share of the weight of all keys that query i of the
 * block gives to step s, on average over the heads: a softmax over all keys, added up. A query
 * whose shares are not finite gives 1 to each step. Keeps the scores of all steps, if there are
 * looks->scores. */
void step_weigh(const struct query_block *block, const struct step_looks *looks);

/* Rounds a row x [n] to bytes [kv_key_bytes(n)], and adds up those of each block. Returns the
 * scale: the largest magnitude becomes 127. A row with a NaN has a scale that is NaN. */
float step_quantise(const float *x, size_t n, int8_t *bytes, int32_t *sums);

/* Writes the results as attention_policy.run does. */
void step_end(const struct query_block *block, float *context, size_t ld_context);

#endif
