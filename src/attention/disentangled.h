/* SPDX-License-Identifier: Apache-2.0
 * Parts of scores that depend on the distance of a key from a query, and on one of the two. With
 * the row r of the distance j - i, head h adds to q[i] . k[j]
 *
 *   q[i] . to_position[h, r] + to_content[h, r] . k[j]
 *
 * Both sums are products of matrices for a block of queries, of which each score takes its own.
 * Source: He et al., DeBERTa (2020). */
#ifndef WISP_ATTENTION_DISENTANGLED_H
#define WISP_ATTENTION_DISENTANGLED_H

#include <stdbool.h>

#include "base/workspace.h"
#include "kernels/kernels.h"

/* Working memory. */
struct disentangled_space {
    float *sums;   /* of a query with rows, or of rows with keys */
    float *scales; /* of the rows of a product of pairs */
};

/* A block of scores, with what they were made of: floats, or pairs and their factors. */
struct disentangled_block {
    const void *queries; /* [rows, ld_queries] */
    const void *keys;    /* [n_keys, head_size], packed */
    size_t ld_queries;
    float query_scale, key_scale;
    bool is_i16;
    size_t rows, n_keys;
    size_t head, head_size;
    size_t position; /* of the first query, counted in keys */
    float *scores;   /* [rows, ld_scores] */
    size_t ld_scores;
};

struct disentangled {
    /* The two functions below: modules that have only full attention do not link them. */
    struct disentangled_space (*take)(const struct disentangled *parts, size_t panel,
                                      size_t queries, struct workspace *space);
    void (*add)(const struct kernels *kernels, const struct disentangled *parts,
                const struct disentangled_block *block, const struct disentangled_space *space);
    /* The row of each distance, from 1 - n to n - 1 for sequences of up to n tokens; this is that
     * of distance 0. Rows begin with 0 and go on by 0 or 1 from one distance to the next. */
    const uint32_t *row_of;
    size_t beyond; /* positions that queries have beyond those of the sequence; usually 0 */
    size_t alone;  /* distances from -alone to alone have rows of their own */
    size_t rows;   /* of each head */
    /* NULL: scores lack the part. The former is packed for products, the latter is not. They are
     * floats, or pairs (kernels/i16.h) with a factor for each head that makes floats of them. */
    float *to_position; /* [heads, round_up(rows, f32_panel), head_size], or half as many pairs */
    float *to_content;  /* [heads, rows, disentangled_words] */
    float *position_scale, *content_scale; /* [heads] */
};

/* Returns how many floats or pairs a row of to_content takes. Pairs are as i16_kernels.quantise
 * writes them. */
static inline size_t disentangled_words(bool is_i16, size_t head_size) {
    return is_i16 ? (i16_pairs(head_size) + 7) / 8 * 8 : head_size;
}

/* Takes the working memory for blocks of up to so many queries. */
struct disentangled_space disentangled_take(const struct disentangled *parts, size_t panel,
                                            size_t queries, struct workspace *space);

/* Adds the parts to the scores of a block. A score has the same bits in every block. */
void disentangled_add(const struct kernels *kernels, const struct disentangled *parts,
                      const struct disentangled_block *block,
                      const struct disentangled_space *space);

#endif
