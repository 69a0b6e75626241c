/* SPDX-License-Identifier: Apache-2.0
 * Weights that name levels, in the tiles of gemm_q4_template.h: their tables of levels, dot
 * products and scales. */

#ifdef VECTOR_NARROW

/* Small levels have magnitudes of up to 12, so that 16 bits hold the sum of two products of two
 * each: 4 * 255 * 12. Another level is 16 times a number of -8..7, its upper one, and a lower one
 * of -8..7, whose products fit the sums of Q4_0. */
struct level_weights {
    const struct level_layout *layout;
    vl_table tables[2]; /* of upper and of lower numbers, which for small levels are the levels */
};

ALWAYS_INLINE struct level_weights level_weights_of(const struct level_layout *layout,
                                                    const enum block_form form) {
    signed char upper[16], lower[16];
    UNROLL_NOT
    for (int i = 0; i < 16; i++) {
        upper[i] = (signed char)(form == FORM_LEVELS ? (layout->levels[i] + 8) >> 4 : 0);
        lower[i] = (signed char)(layout->levels[i] - 16 * upper[i]);
    }
    return (struct level_weights){layout, {vl_load_table(upper), vl_load_table(lower)}};
}

/* Computes the integer dot products of one part of small levels, or of lower and upper numbers side
 * by side, whose sums do not fit the registers with many rows. */
ALWAYS_INLINE void level_dots(const uint8_t *q, size_t row_bytes, const unsigned char *codes,
                              const struct level_weights *levels, vi *dots, const int rows,
                              const enum block_form form) {
    const bool is_small = form == FORM_SMALL_LEVELS;
    vi sum[Q4_ROWS * Q4_VECTORS], upper_sum[Q4_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = upper_sum[i] = vi_set1(0);
    UNROLL_NOT
    for (int g = 0; g < Q4_BLOCK / 8; g++, q += 4, codes += Q4_PANEL * 4) {
        vq_weights low[Q4_VECTORS], high[Q4_VECTORS], upper_low[Q4_VECTORS], upper_high[Q4_VECTORS];
        vq_activations x = vq_load_activations(q), x_high = x;
        UNROLL
        for (int v = 0; v < Q4_VECTORS; v++) {
            vl_load_levels(codes + v * VF_LANES * 4, levels->tables[1], &low[v], &high[v]);
            if (!is_small)
                vl_load_levels(codes + v * VF_LANES * 4, levels->tables[0], &upper_low[v],
                               &upper_high[v]);
        }
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            const int v = i % Q4_VECTORS;
            if (v == 0) {
                const uint8_t *row = q + (size_t)(i / Q4_VECTORS) * row_bytes;
                x = vq_load_activations(row);
                x_high = vq_load_activations(row + Q4_BLOCK / 2);
            }
            if (is_small) {
                const vi both = vi16_add(vi16_dot(x, low[v]), vi16_dot(x_high, high[v]));
                sum[i] = vi_add(sum[i], vi16_widen(both));
            } else {
                sum[i] = vq_dot(vq_dot(sum[i], x, low[v]), x_high, high[v]);
                upper_sum[i] = vq_dot(vq_dot(upper_sum[i], x, upper_low[v]), x_high, upper_high[v]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        dots[i] = is_small ? sum[i] : vl_sum(upper_sum[i], sum[i]);
}

#else

struct level_weights {
    const struct level_layout *layout;
    vl_table table;
};

ALWAYS_INLINE struct level_weights level_weights_of(const struct level_layout *layout,
                                                    const enum block_form form) {
    (void)form;
    return (struct level_weights){layout, vl_load_table(layout->levels)};
}

ALWAYS_INLINE void level_dots(const uint8_t *q, size_t row_bytes, const unsigned char *codes,
                              const struct level_weights *levels, vi *dots, const int rows,
                              const enum block_form form) {
    (void)form;
    q4_dots(q, row_bytes, codes, dots, rows, &levels->table);
}

#endif

/* Returns the scales of a vector of outputs in one part. */
ALWAYS_INLINE vf level_scale(const struct level_layout *layout, const unsigned char *block,
                             const unsigned char *part, int v) {
    if (layout->scales == LEVEL_HALVES)
        return vf_load_halves(part + v * VF_LANES * 2);
    if (layout->scales == LEVEL_BFLOATS)
        return vf_load_bfloats(part + v * VF_LANES * 2);
    const vf d = vf_load_halves(block + Q4_PANEL * sizeof(float) + v * VF_LANES * 2);
    return vf_mul(d, vf_sub(vf_load_bytes(part + v * VF_LANES), vf_set1(LEVEL_CENTRE)));
}
