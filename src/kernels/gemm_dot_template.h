/* SPDX-License-Identifier: Apache-2.0
 * The int8 product for instruction sets that multiply bytes and add up four products in each lane.
 */

/* Computes the integer dot products of one block of `groups` groups of 4 values. The result has
 * `vectors` vectors of outputs for each of `rows` rows, row after row. */
ALWAYS_INLINE void int8_dots(const uint8_t *q, size_t row_bytes, const unsigned char *w,
                             size_t groups, vi *dots, const int rows, const int vectors) {
    vi sum[INT8_ROWS * INT8_VECTORS];
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = vi_set1(0);
    for (size_t g = 0; g < groups; g++, q += 4, w += INT8_PANEL * 4) {
        vi_weights weights[INT8_VECTORS];
        vi_activations x = vi_load_activations(q);
        if (rows <= FEW_ROWS)
            prefetch_stream(w, INT8_PANEL * 4);
        UNROLL
        for (int v = 0; v < vectors; v++)
            weights[v] = vi_load_weights(w + v * VF_LANES * 4);
        UNROLL
        for (int i = 0; i < rows * vectors; i++) {
            if (i % vectors == 0)
                x = vi_load_activations(q + (size_t)(i / vectors) * row_bytes);
            sum[i] = vi_dot(sum[i], x, weights[i % vectors]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        dots[i] = sum[i];
}

#include "kernels/gemm_tile_template.h"
