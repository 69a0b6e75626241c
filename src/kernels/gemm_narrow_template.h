/* SPDX-License-Identifier: Apache-2.0
 * The narrow int8 product (kernels.h), for instruction sets that multiply bytes and add up two
 * products in 16 bits. The products of two groups of 4 values are added up in 16 bits too, before
 * they are widened. */

/* Computes what int8_dots of gemm_dot_template.h computes. */
ALWAYS_INLINE void int8_dots(const uint8_t *q, size_t row_bytes, const unsigned char *w,
                             size_t groups, vi *dots, const int rows, const int vectors) {
    vi sum[INT8_ROWS * INT8_VECTORS];
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = vi_set1(0);
    for (; groups >= 2; groups -= 2, q += 8, w += 2 * INT8_PANEL * 4) {
        vi first[INT8_VECTORS], second[INT8_VECTORS];
        vi x = vi_set1(0), y = x;
        if (rows <= FEW_ROWS)
            prefetch_stream(w, 2 * INT8_PANEL * 4);
        UNROLL
        for (int v = 0; v < vectors; v++) {
            first[v] = vi16_load_weights(w + v * VF_LANES * 4);
            second[v] = vi16_load_weights(w + (INT8_VECTORS + v) * VF_LANES * 4);
        }
        UNROLL
        for (int i = 0; i < rows * vectors; i++) {
            if (i % vectors == 0) {
                const uint8_t *row = q + (size_t)(i / vectors) * row_bytes;
                x = vi16_load_activations(row);
                y = vi16_load_activations(row + 4);
            }
            const vi products =
                vi16_add(vi16_dot(x, first[i % vectors]), vi16_dot(y, second[i % vectors]));
            sum[i] = vi_add(sum[i], vi16_widen_by_ones(products));
        }
    }
    if (groups) {
        UNROLL
        for (int i = 0; i < rows * vectors; i++) {
            const vi x = vi16_load_activations(q + (size_t)(i / vectors) * row_bytes);
            const vi weights = vi16_load_weights(w + i % vectors * VF_LANES * 4);
            sum[i] = vi_add(sum[i], vi16_widen(vi16_dot(x, weights)));
        }
    }
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        dots[i] = sum[i];
}

#include "kernels/gemm_tile_template.h"
