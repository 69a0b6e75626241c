/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/disentangled.h"

#include "base/checked.h"

/* Keys that are multiplied at once with the rows of their distances. These are as many as the keys
 * and the queries of a block, so that about half of the products are of no use. */
static size_t keys_at_once(size_t panel) {
    return round_up(32, panel);
}

struct disentangled_space disentangled_take(const struct disentangled *parts, size_t panel,
                                            size_t queries, struct workspace *space) {
    const size_t keys = keys_at_once(panel), distances = queries + keys;
    struct disentangled_space s;
    s.sums = workspace_take(space, 1, larger(queries * (parts->rows + panel), distances * keys),
                            sizeof *s.sums);
    s.scales = workspace_take(space, 1, distances, sizeof *s.scales);
    return s;
}

/* Returns the address of word `at` of floats or pairs. */
static const void *word(const void *words, size_t at) {
    return (const float *)words + at;
}

/* Computes y [m, ldy] = x [m, ldx] w^T of a block's words, with n columns. */
static void multiply(const struct kernels *kernels, const struct disentangled_block *block,
                     const void *x, size_t ldx, const void *w, float scale, float *scales, float *y,
                     size_t ldy, size_t m, size_t n) {
    if (!block->is_i16) {
        kernels->gemm_f32(x, ldx, w, NULL, y, ldy, m, n, block->head_size);
        return;
    }
    for (size_t i = 0; i < m; i++)
        scales[i] = scale;
    kernels->i16->gemm(x, ldx, w, scales, y, ldy, m, n, block->head_size);
}

/* Adds what the queries have in common with the distances of keys. */
static void add_to_position(const struct kernels *kernels, const struct disentangled *parts,
                            const struct disentangled_block *b,
                            const struct disentangled_space *space) {
    const size_t panel = kernels->f32_panel;
    const size_t words = b->is_i16 ? i16_pairs(b->head_size) : b->head_size;
    const size_t position = b->position + parts->beyond;
    const uint32_t *of_first = parts->row_of - position; /* by the key, for the first query */
    const size_t first = of_first[1 - (ptrdiff_t)b->rows] / panel * panel;
    const size_t ld = of_first[b->n_keys - 1] + 1 - first;
    const size_t head = b->head * round_up(parts->rows, panel);
    multiply(kernels, b, b->queries, b->ld_queries,
             word(parts->to_position, (head + first) * words),
             b->query_scale * parts->position_scale[b->head], space->scales, space->sums, ld,
             b->rows, ld);
    for (size_t r = 0; r < b->rows; r++) {
        const uint32_t *row_of = of_first - r;
        const float *sums = space->sums + r * ld;
        float *scores = b->scores + r * b->ld_scores;
        const size_t at = position + r;
        const size_t alone = at > parts->alone ? smaller(at - parts->alone, b->n_keys) : 0;
        const size_t end = larger(alone, smaller(at + parts->alone + 1, b->n_keys));
        for (size_t j = 0; j < alone; j++)
            scores[j] += sums[row_of[j] - first];
        if (end > alone)
            kernels->add(scores + alone, sums + row_of[alone] - first, end - alone);
        for (size_t j = end; j < b->n_keys; j++)
            scores[j] += sums[row_of[j] - first];
    }
}

/* Adds what keys have in common with their distances, some keys at a time. */
static void add_to_content(const struct kernels *kernels, const struct disentangled *parts,
                           const struct disentangled_block *b,
                           const struct disentangled_space *space) {
    const size_t step = keys_at_once(kernels->f32_panel);
    const size_t words = b->is_i16 ? i16_pairs(b->head_size) : b->head_size;
    const size_t ld_rows = disentangled_words(b->is_i16, b->head_size);
    for (size_t start = 0; start < b->n_keys; start += step) {
        const size_t n = smaller(step, b->n_keys - start);
        const uint32_t *of_first = parts->row_of + start - (b->position + parts->beyond);
        const size_t first = of_first[1 - (ptrdiff_t)b->rows];
        const size_t m = of_first[n - 1] + 1 - first;
        multiply(kernels, b, word(parts->to_content, (b->head * parts->rows + first) * ld_rows),
                 ld_rows, word(b->keys, start * words),
                 b->key_scale * parts->content_scale[b->head], space->scales, space->sums, step, m,
                 n);
        for (size_t r = 0; r < b->rows; r++) {
            const uint32_t *row_of = of_first - r;
            float *scores = b->scores + r * b->ld_scores + start;
            for (size_t j = 0; j < n; j++)
                scores[j] += space->sums[(row_of[j] - first) * step + j];
        }
    }
}

void disentangled_add(const struct kernels *kernels, const struct disentangled *parts,
                      const struct disentangled_block *block,
                      const struct disentangled_space *space) {
    if (parts->to_position)
        add_to_position(kernels, parts, block, space);
    if (parts->to_content)
        add_to_content(kernels, parts, block, space);
}
