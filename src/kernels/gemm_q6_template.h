/* SPDX-License-Identifier: Apache-2.0
 * The product with weights of Q6_K, in the tiles of gemm_q4_template.h, over the vector operations
 * v6_*. The products of 16 weights are added up as integers; their sums, each times its scale, are
 * added up as floats. */

/* Computes the integer dot products of half h of 32 weights. */
ALWAYS_INLINE void q6_dots(const uint8_t *q, size_t row_bytes, const unsigned char *nibbles,
                           const int h, vi *dots, const int rows) {
    const unsigned char *pairs = nibbles + Q4_PANEL * 16 + (size_t)h * Q4_PANEL * 4;
    vi sum[Q4_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNROLL
    for (int g = 0; g < 4; g++) {
        v6_weights weights[Q4_VECTORS];
        vq_activations x = vq_load_activations(q + 4 * g);
        UNROLL
        for (int v = 0; v < Q4_VECTORS; v++)
            weights[v] = v6_load(nibbles + (g * Q4_PANEL + v * VF_LANES) * 4,
                                 pairs + v * VF_LANES * 4, g, h);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            if (i % Q4_VECTORS == 0)
                x = vq_load_activations(q + (size_t)(i / Q4_VECTORS) * row_bytes + 4 * g);
            sum[i] = v6_dot(sum[i], x, weights[i % Q4_VECTORS]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        dots[i] = sum[i];
}

/* Adds the products of 16 weights to the sums of a tile. */
ALWAYS_INLINE void q6_half(const struct int8_tile *t, const uint8_t *q, const unsigned char *halves,
                           const unsigned char *part, const int h, vf *total, const int rows) {
    vi dots[Q4_ROWS * Q4_VECTORS];
    vf scale[Q4_VECTORS];
    q6_dots(q + 16 * h, t->row_bytes, part + 2 * Q4_PANEL, h, dots, rows);
    UNROLL
    for (int v = 0; v < Q4_VECTORS; v++)
        scale[v] = vf_mul(vf_load_halves(halves + v * VF_LANES * 2),
                          vf_sub(vf_load_bytes(part + h * Q4_PANEL + v * VF_LANES), vf_set1(128)));
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        total[i] = vf_fma(vf_of_vi(dots[i]), scale[i % Q4_VECTORS], total[i]);
}

/* Computes a tile of y, block after block. */
ALWAYS_INLINE void q6_tile(const struct int8_tile *t, const int rows) {
    const unsigned char *block = t->w;
    for (size_t b = 0; b < t->blocks; b++) {
        const unsigned char *halves = block + Q4_PANEL * sizeof(float);
        const unsigned char *part = halves + Q4_PANEL * 2;
        const uint8_t *q = t->q + b * INT8_BLOCK;
        vf total[Q4_ROWS * Q4_VECTORS];
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            total[i] = vf_set1(0);
        UNROLL_NOT
        for (int c = 0; c < INT8_BLOCK; c += 32, part += Q4_PANEL * Q6_PART_BYTES) {
            if (rows <= FEW_ROWS)
                prefetch_stream(part, Q4_PANEL * Q6_PART_BYTES);
            q6_half(t, q + c, halves, part, 0, total, rows);
            q6_half(t, q + c, halves, part, 1, total, rows);
        }
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            q4_collect(t, b, (size_t)(i / Q4_VECTORS), (size_t)(i % Q4_VECTORS), total[i],
                       (const float *)(const void *)block, 1);
        block = part;
    }
}
