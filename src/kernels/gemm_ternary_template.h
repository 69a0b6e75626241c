/* SPDX-License-Identifier: Apache-2.0
 * The product with ternary weights, in the tiles of gemm_q4_template.h, over v2_load. The products
 * of INT8_BLOCK weights are added up as integers. */

/* Adds the products of 4 weights of each output, at a position of the codes of 16, to the sums of a
 * tile. */
ALWAYS_INLINE void ternary_step(const uint8_t *q, size_t row_bytes, const unsigned char *codes,
                                const int position, vq *sum, const int rows) {
    vq_weights weights[Q4_VECTORS];
    vq_activations x = vq_load_activations(q + 4 * position);
    UNROLL
    for (int v = 0; v < Q4_VECTORS; v++)
        weights[v] = v2_load(codes + v * VF_LANES * 4, position);
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++) {
        if (i % Q4_VECTORS == 0)
            x = vq_load_activations(q + (size_t)(i / Q4_VECTORS) * row_bytes + 4 * position);
        sum[i] = vq_dot(sum[i], x, weights[i % Q4_VECTORS]);
#ifdef VECTOR_NARROW /* others are slower in this order, at 2 and 5 rows */
        vi_keep(&sum[i]);
#endif
    }
}

/* Computes the integer dot products of INT8_BLOCK weights. With few rows several sums run side by
 * side for each output, so that a product need not wait for the one before. */
ALWAYS_INLINE void ternary_dots(const uint8_t *q, size_t row_bytes, const unsigned char *codes,
                                vi *dots, const int rows) {
    const int chains = rows == 1 ? 4 : 2 * rows <= Q4_ROWS ? 2 : 1, sums = rows * Q4_VECTORS;
    vq sum[4 * Q4_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < chains * sums; i++)
        sum[i] = vi_set1(0);
    UNROLL_NOT
    for (int g = 0; g < INT8_BLOCK / 16; g++, q += 16, codes += Q4_PANEL * 4) {
        if (rows <= FEW_ROWS)
            prefetch_stream(codes, Q4_PANEL * 4);
        ternary_step(q, row_bytes, codes, 0, sum, rows);
        ternary_step(q, row_bytes, codes, 1, sum + 1 % chains * sums, rows);
        ternary_step(q, row_bytes, codes, 2, sum + 2 % chains * sums, rows);
        ternary_step(q, row_bytes, codes, 3, sum + 3 % chains * sums, rows);
    }
    UNROLL
    for (int i = 0; i < chains * sums; i++) {
        const vi dot = vq_sum(sum[i]);
        dots[i % sums] = i < sums ? dot : vi_add(dots[i % sums], dot);
    }
}

#ifdef VECTOR_CODES

/* Computes the integer dot products of INT8_BLOCK activations of one row and codes 0..3, which are
 * 1 more than the weights. Codes are masked where they are, and need no table. */
ALWAYS_INLINE void ternary_code_dots(const uint8_t *q, const unsigned char *codes, vi *dots) {
    vq sum[4 * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < 4 * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNROLL_NATIVELY
    for (int g = 0; g < INT8_BLOCK / 16; g++, q += 16, codes += Q4_PANEL * 4) {
        vk_codes four[Q4_VECTORS];
        prefetch_stream(codes, Q4_PANEL * 4);
        UNROLL
        for (int v = 0; v < Q4_VECTORS; v++)
            four[v] = v2_load_codes(codes + v * VF_LANES * 4);
        UNROLL
        for (int i = 0; i < 4; i++) {
            const vq_activations x = vq_load_activations(q + 4 * i);
            UNROLL
            for (int v = 0; v < Q4_VECTORS; v++) {
                if (i == 2)
                    four[v] = v2_upper_codes(four[v]);
                sum[4 * v + i] = vq_dot(sum[4 * v + i], x, v2_codes(four[v], i % 2));
                vi_keep(&sum[4 * v + i]);
            }
        }
    }
    UNROLL
    for (int v = 0; v < Q4_VECTORS; v++)
        dots[v] = v2_sum(sum + 4 * v);
}

/* Does what ternary_half does for one row, with the same bits: all numbers before the scale are
 * whole and below 2^24. */
ALWAYS_INLINE void ternary_half_of_row(const struct int8_tile *t, size_t b,
                                       const unsigned char *half, vf *total) {
    const float zero = t->zero[b], sum_x = t->part_sums[b] + (float)INT8_BLOCK * zero;
    vi dots[Q4_VECTORS];
    ternary_code_dots(t->q + b * INT8_BLOCK, half + Q4_PANEL * 2, dots);
    UNROLL
    for (int v = 0; v < Q4_VECTORS; v++) {
        const vf sum = vf_load_halves(half + v * VF_LANES * 2);
        const vf dot = vf_sub(vf_of_vi(dots[v]), vf_set1(sum_x));
        const vf centred = vf_fma(vf_set1(-zero), sum, dot);
        total[v] = vf_fma(centred, vf_set1(t->scale[b]), total[v]);
    }
}

#endif

/* Adds what INT8_BLOCK weights at `half`, block b of the activations, add to outputs of a tile
 * before their scales. */
ALWAYS_INLINE void ternary_half(const struct int8_tile *t, size_t b, const unsigned char *half,
                                vf *total, const int rows) {
    vi dots[Q4_ROWS * Q4_VECTORS];
#ifdef VECTOR_CODES
    if (rows == 1) {
        ternary_half_of_row(t, b, half, total);
        return;
    }
#endif
    ternary_dots(t->q + b * INT8_BLOCK, t->row_bytes, half + Q4_PANEL * 2, dots, rows);
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++) {
        const size_t at = (size_t)(i / Q4_VECTORS) * t->blocks + b;
        const vf sum = vf_load_halves(half + i % Q4_VECTORS * VF_LANES * 2);
        const vf centred = vf_fma(vf_set1(-t->zero[at]), sum, vf_of_vi(dots[i]));
        total[i] = vf_fma(centred, vf_set1(t->scale[at]), total[i]);
    }
}

/* Computes a tile of y, of weights of I2_S: one scale for a row. */
ALWAYS_INLINE void i2_s_tile(const struct int8_tile *t, const int rows) {
    const unsigned char *half = t->w + Q4_PANEL * sizeof(float);
    vf total[Q4_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        total[i] = vf_set1(0);
    for (size_t b = 0; b < t->blocks; b++, half += Q4_PANEL * TERNARY_HALF_BYTES)
        ternary_half(t, b, half, total, rows);
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        q4_add(t, 0, (size_t)(i / Q4_VECTORS), (size_t)(i % Q4_VECTORS), total[i],
               vf_load((const float *)(const void *)t->w + i % Q4_VECTORS * VF_LANES));
}

/* Computes a tile of y, K_BLOCK weights after K_BLOCK weights. */
ALWAYS_INLINE void ternary_tile(const struct int8_tile *t, const int rows) {
    const unsigned char *block = t->w;
    for (size_t b = 0; b < t->blocks; b += 2, block += Q4_PANEL * TERNARY_BYTES) {
        vf total[Q4_ROWS * Q4_VECTORS];
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            total[i] = vf_set1(0);
        UNROLL_NOT
        for (size_t h = 0; h < 2; h++)
            ternary_half(t, b + h, block + Q4_PANEL * (2 + h * TERNARY_HALF_BYTES), total, rows);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            q4_add(t, b, (size_t)(i / Q4_VECTORS), (size_t)(i % Q4_VECTORS), total[i],
                   vf_load_halves(block + i % Q4_VECTORS * VF_LANES * 2));
    }
}
