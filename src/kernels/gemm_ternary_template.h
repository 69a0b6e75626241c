/* SPDX-License-Identifier: Apache-2.0
 * The product with ternary weights, in the tiles of gemm_q4_template.h, over v2_load. The products
 * of the weights of a part (ternary_layout.h) are added up as integers. `scaled` of a tile is that
 * of its layout. */

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

/* Computes the integer dot products of `length` weights. With few rows several sums run side by
 * side for each output, so that a product need not wait for the one before. */
ALWAYS_INLINE void ternary_dots(const uint8_t *q, size_t row_bytes, const unsigned char *codes,
                                const size_t length, vi *dots, const int rows) {
    const int chains = rows == 1 ? 4 : 2 * rows <= Q4_ROWS ? 2 : 1, sums = rows * Q4_VECTORS;
    vq sum[4 * Q4_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < chains * sums; i++)
        sum[i] = vi_set1(0);
    UNROLL_NOT
    for (size_t g = 0; g < length / 16; g++, q += 16, codes += Q4_PANEL * 4) {
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

/* Computes the integer dot products of `length` activations of one row and codes 0..3, which are 1
 * more than the weights. Codes are masked if they are, and need no table. */
ALWAYS_INLINE void ternary_code_dots(const uint8_t *q, const unsigned char *codes,
                                     const size_t length, vi *dots) {
    vq sum[4 * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < 4 * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNROLL_NATIVELY
    for (size_t g = 0; g < length / 16; g++, q += 16, codes += Q4_PANEL * 4) {
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

/* Computes the dot products of the activations of one row, from c, less their zero point and the
 * weights of a part, with the same bits as for several rows: all numbers are whole and below 2^24.
 */
ALWAYS_INLINE void ternary_centred_of_row(const struct int8_tile *t, size_t c,
                                          const unsigned char *sums, vf *centred) {
    const size_t length = ternary_part(t->scaled);
    const float zero = t->zero[c / INT8_BLOCK];
    const float sum_x = t->part_sums[c / length] + (float)length * zero;
    vi dots[Q4_VECTORS];
    ternary_code_dots(t->q + c, sums + Q4_PANEL * 2, length, dots);
    UNROLL
    for (int v = 0; v < Q4_VECTORS; v++) {
        const vf dot = vf_sub(vf_of_vi(dots[v]), vf_set1(sum_x));
        centred[v] = vf_fma(vf_set1(-zero), vf_load_halves(sums + v * VF_LANES * 2), dot);
    }
}

#endif

/* Computes the dot products of the activations from c, less their zero points, and the weights of a
 * part, for a tile. `sums` are those of the part's weights, and its codes follow. */
ALWAYS_INLINE void ternary_centred(const struct int8_tile *t, size_t c, const unsigned char *sums,
                                   vf *centred, const int rows) {
    vi dots[Q4_ROWS * Q4_VECTORS];
#ifdef VECTOR_CODES
    if (rows == 1) {
        ternary_centred_of_row(t, c, sums, centred);
        return;
    }
#endif
    ternary_dots(t->q + c, t->row_bytes, sums + Q4_PANEL * 2, ternary_part(t->scaled), dots, rows);
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++) {
        const float zero = t->zero[(size_t)(i / Q4_VECTORS) * t->blocks + c / INT8_BLOCK];
        const vf sum = vf_load_halves(sums + i % Q4_VECTORS * VF_LANES * 2);
        centred[i] = vf_fma(vf_set1(-zero), sum, vf_of_vi(dots[i]));
    }
}

/* Adds what the weights of a part at w add to outputs of a tile before the scale that they share
 * with other parts. Returns the next part. */
ALWAYS_INLINE const unsigned char *ternary_add(const struct int8_tile *t, size_t c,
                                               const unsigned char *w, vf *total, const int rows) {
    const bool scaled = ternary_parts_scaled(t->scaled);
    const unsigned char *sums = w + (scaled ? Q4_PANEL * 2 : 0);
    vf centred[Q4_ROWS * Q4_VECTORS];
    ternary_centred(t, c, sums, centred, rows);
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++) {
        const float scale = t->scale[(size_t)(i / Q4_VECTORS) * t->blocks + c / INT8_BLOCK];
        if (scaled)
            centred[i] = vf_mul(centred[i], vf_load_halves(w + i % Q4_VECTORS * VF_LANES * 2));
        total[i] = vf_fma(centred[i], vf_set1(scale), total[i]);
    }
    return sums + Q4_PANEL * ternary_part_bytes(t->scaled);
}

/* Loads the scales of a vector of outputs that parts share, or 1 if they share none. */
ALWAYS_INLINE vf ternary_scale(const struct int8_tile *t, const unsigned char *scales, int v) {
    if (ternary_parts_scaled(t->scaled))
        return vf_set1(1);
    return t->scaled ? vf_load_halves(scales + v * VF_LANES * 2)
                     : vf_load((const float *)(const void *)scales + v * VF_LANES);
}

/* Computes a tile of y, parts that share a scale after such parts. */
ALWAYS_INLINE void ternary_tile(const struct int8_tile *t, const int rows) {
    const size_t length = t->scaled == K_BLOCK ? K_BLOCK : t->row_bytes;
    const unsigned char *w = t->w;
    for (size_t start = 0; start < t->row_bytes; start += length) {
        const unsigned char *scales = w;
        vf total[Q4_ROWS * Q4_VECTORS];
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            total[i] = vf_set1(0);
        if (!ternary_parts_scaled(t->scaled))
            w += Q4_PANEL * ternary_scale_bytes(t->scaled);
        UNROLL_NOT
        for (size_t c = start; c < start + length; c += ternary_part(t->scaled))
            w = ternary_add(t, c, w, total, rows);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            q4_add(t, start, (size_t)(i / Q4_VECTORS), (size_t)(i % Q4_VECTORS), total[i],
                   ternary_scale(t, scales, i % Q4_VECTORS));
    }
}
