/* SPDX-License-Identifier: Apache-2.0
 * The int8 product for instruction sets that multiply two rows of 8 bytes by two others. An
 * instruction takes two groups of 4 values, and adds to a square of two rows by two outputs. If
 * a pair of rows lacks the second one, the first takes its place and the result is dropped. */

/* Computes the dot products of `group_pairs` pairs of groups, in the order of int8_dots of
 * gemm_dot_template.h. */
ALWAYS_INLINE void matrix_dots(const uint8_t *q, size_t row_bytes, const unsigned char *w,
                               size_t group_pairs, vi *dots, const int rows, const int vectors) {
    /* sum[i] has the first two outputs of vector v and sum[i + 1] its last two, for pair of rows p,
     * if i = 2 (v pairs + p). */
    enum { MOST_PAIRS = (INT8_ROWS + 1) / 2 };
    const int pairs = (rows + 1) / 2;
    vi sum[2 * MOST_PAIRS * INT8_VECTORS];
    UNROLL
    for (int i = 0; i < 2 * pairs * vectors; i++)
        sum[i] = vi_set1(0);
    for (size_t g = 0; g < group_pairs; g++, q += 8, w += INT8_PANEL * 8) {
        vi_activations x[MOST_PAIRS];
        vi_weights weights[2];
        UNROLL
        for (int p = 0; p < pairs; p++)
            x[p] = vi_load_activation_pair(q + (size_t)(2 * p) * row_bytes,
                                           q + (size_t)(2 * p + (2 * p + 1 < rows)) * row_bytes);
        UNROLL
        for (int i = 0; i < 2 * pairs * vectors; i++) {
            if (i % (2 * pairs) == 0)
                vi_load_weight_pairs(w + i / (2 * pairs) * VF_LANES * 4, INT8_PANEL * 4, weights);
            sum[i] = vi_dot_pairs(sum[i], x[i % (2 * pairs) / 2], weights[i % 2]);
        }
    }
    UNROLL
    for (int i = 0; i < pairs * vectors; i++) {
        const int v = i / pairs, row = i % pairs * 2;
        dots[row * vectors + v] = vi_first_row(sum[2 * i], sum[2 * i + 1]);
        if (row + 1 < rows)
            dots[(row + 1) * vectors + v] = vi_second_row(sum[2 * i], sum[2 * i + 1]);
    }
}

ALWAYS_INLINE void int8_dots(const uint8_t *q, size_t row_bytes, const unsigned char *w,
                             size_t groups, vi *dots, const int rows, const int vectors) {
    const size_t group_pairs = groups / 2;
    matrix_dots(q, row_bytes, w, group_pairs, dots, rows, vectors);
    if (groups % 2 == 0)
        return;
    q += group_pairs * 8;
    w += group_pairs * INT8_PANEL * 8;
    for (int i = 0; i < rows * vectors; i++)
        dots[i] = vi_dot(dots[i], vi_load_activations(q + (size_t)(i / vectors) * row_bytes),
                         vi_load_weights(w + i % vectors * VF_LANES * 4));
}

#include "kernels/gemm_tile_template.h"
