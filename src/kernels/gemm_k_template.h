/* SPDX-License-Identifier: Apache-2.0
 * The products with weights of k_layout.h, in the tiles of gemm_q4_template.h, over the vector
 * operations vk_*. The products of 16 weights are added up as integers; their sums, each
 * times its scale, are added up as floats, and if weights have a minimum also its product with
 * the sum of the activations. */

/* Returns the number of bits of a weight in the layout of k_layout.h; 0: another form. */
ALWAYS_INLINE int k_bits(const enum block_form form) {
    return form == FORM_Q2_K   ? 2
           : form == FORM_Q3_K ? 3
           : form == FORM_Q5   ? 5
           : form == FORM_Q6_K ? 6
                               : 0;
}

/* Returns the number of scales of a part of K-quants. */
ALWAYS_INLINE int k_halves(const enum block_form form) {
    return form == FORM_Q4_K ? 1 : K_PART / K_HALF;
}

/* Loads weights 4 g to 4 g + 3 of half h of a part, of vector v of outputs. */
ALWAYS_INLINE vk_weights k_load(const unsigned char *planes, const int v, const int g, const int h,
                                const int bits) {
    const unsigned char *at = planes + v * VF_LANES * 4;
    if (bits == 6) {
        const unsigned char *sixes = at + h * Q4_PANEL * 12;
        if (g < 3)
            return vk_centred(vk_bits(sixes + g * Q4_PANEL * 4, 0, 63), k_centre(bits));
        return vk_centred(vk_or(vk_or(vk_bits(sixes, 6, 3), vk_bits(sixes + Q4_PANEL * 4, 4, 12)),
                                vk_bits(sixes + Q4_PANEL * 8, 2, 48)),
                          k_centre(bits));
    }
    const unsigned char *ones = at + Q4_PANEL * (bits == 5 ? 16 : 8);
    const vk_codes low = bits == 5 ? vk_bits(at + g * Q4_PANEL * 4, 4 * h, 15)
                                   : vk_bits(at + h * Q4_PANEL * 4, 2 * g, 3);
    if (bits == 2)
        return vk_centred(low, 0);
    return vk_centred(vk_or(low, bits == 5 ? vk_bits(ones, g + 4 * h - 4, 0x10)
                                           : vk_bits(ones, g + 4 * h - 2, 4)),
                      k_centre(bits));
}

/* K_STEP groups of 4 weights are multiplied at a time. Narrow products of two groups fit 16 bits:
 * 2 * 2 * 255 * 32 is below 2^15. Vectors of weights of the same outputs lie Q4_VECTORS apart. */
#ifdef VECTOR_NARROW

enum { K_STEP = 2 };

typedef struct k_activations {
    vq_activations first, second;
} k_activations;

ALWAYS_INLINE k_activations k_load_activations(const uint8_t *q) {
    return (k_activations){vq_load_activations(q), vq_load_activations(q + 4)};
}

ALWAYS_INLINE vi k_dot(vi sum, k_activations x, const vk_weights *w) {
    const vi first = vi16_dot(x.first, w[0]), second = vi16_dot(x.second, w[Q4_VECTORS]);
    return vi_add(sum, vi16_widen(vi16_add(first, second)));
}

#else

enum { K_STEP = 1 };

typedef vq_activations k_activations;

ALWAYS_INLINE k_activations k_load_activations(const uint8_t *q) {
    return vq_load_activations(q);
}

ALWAYS_INLINE vi k_dot(vi sum, k_activations x, const vk_weights *w) {
    return vi_dot(sum, x, *w);
}

#endif

/* Computes the integer dot products of half h of a part. */
ALWAYS_INLINE void k_dots(const uint8_t *q, size_t row_bytes, const unsigned char *planes,
                          const int h, vi *dots, const int rows, const int bits) {
    vi sum[Q4_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNROLL
    for (int g = 0; g < 4; g += K_STEP, q += 4 * K_STEP) {
        vk_weights weights[K_STEP * Q4_VECTORS];
        k_activations x = k_load_activations(q);
        UNROLL
        for (int i = 0; i < K_STEP * Q4_VECTORS; i++)
            weights[i] = k_load(planes, i % Q4_VECTORS, g + i / Q4_VECTORS, h, bits);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            if (i % Q4_VECTORS == 0)
                x = k_load_activations(q + (size_t)(i / Q4_VECTORS) * row_bytes);
            sum[i] = k_dot(sum[i], x, weights + i % Q4_VECTORS);
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        dots[i] = sum[i];
}

/* Returns the scales and the offsets of a vector of outputs in half h of a part. Unless the part
 * has floats of its own, `halves` has d, and after a panel of them dmin. A byte of Q2_K has a scale
 * and 16 times a minimum. */
ALWAYS_INLINE struct q4_factors k_factors(const unsigned char *halves, const unsigned char *part,
                                          const int v, const int h, const int bits,
                                          const enum k_scales scales) {
    if (bits == 5 && scales != K_SCALES) {
        const unsigned char *own = part + v * VF_LANES * 2;
        const vf scale = vf_load_halves(own);
        return (struct q4_factors){scale, scales == K_SCALES_D
                                              ? vf_mul(scale, vf_set1(-16))
                                              : vf_load_halves(own + Q4_PANEL * 2)};
    }
    const vf d = vf_load_halves(halves + v * VF_LANES * 2);
    const unsigned char *at = part + v * VF_LANES;
    if (!k_has_min(bits))
        return (struct q4_factors){
            vf_mul(d, vf_sub(vf_load_bytes(at + h * Q4_PANEL), vf_set1(128))), vf_set1(0)};
    const vf dmin = vf_load_halves(halves + Q4_PANEL * 2 + v * VF_LANES * 2);
    if (bits == 5) {
        const vf scale = vf_mul(d, vf_load_bytes(at));
        const vf min = vf_mul(dmin, vf_load_bytes(at + Q4_PANEL));
        return (struct q4_factors){scale, vf_sub(vf_set1(0), min)};
    }
    const vf both = vf_load_bytes(at + h * Q4_PANEL);
    const vf min = vf_of_vi(vi_round(vf_mul(vf_sub(both, vf_set1(7.5f)), vf_set1(0x1p-4f))));
    return (struct q4_factors){vf_mul(d, vf_sub(both, vf_mul(min, vf_set1(16)))),
                               vf_mul(dmin, vf_sub(vf_set1(0), min))};
}

/* Adds the products of half h of a part to the sums of a tile. `sums` has the sums of the
 * activations of each half of 2 bits, of each part of 5 bits, of the tile's first row. `factors`
 * are set, but the second half of 5 bits takes those of the first. */
ALWAYS_INLINE void k_half(const struct int8_tile *t, const uint8_t *q, const unsigned char *halves,
                          const unsigned char *part, const float *sums, const int h,
                          struct q4_factors *factors, vf *total, const int rows, const int bits) {
    const size_t row_sums = t->row_bytes / (bits == 2 ? K_HALF : K_PART);
    vi dots[Q4_ROWS * Q4_VECTORS];
    k_dots(q + K_HALF * h, t->row_bytes, part + Q4_PANEL * k_scale_bytes(t->scales), h, dots, rows,
           bits);
    UNROLL
    for (int v = 0; v < Q4_VECTORS; v++)
        if (bits != 5 || h == 0)
            factors[v] = k_factors(halves, part, v, h, bits, t->scales);
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        total[i] = vf_fma(vf_of_vi(dots[i]), factors[i % Q4_VECTORS].scale, total[i]);
    if (bits != 2 && (bits != 5 || h == 1))
        return;
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        total[i] = vf_fma(vf_set1(sums[(size_t)(i / Q4_VECTORS) * row_sums]),
                          factors[i % Q4_VECTORS].offset, total[i]);
}

/* Returns the number of weights of a row in block b. The last block of K-quants is whole. */
ALWAYS_INLINE size_t k_block_length(const struct int8_tile *t, size_t b, const int bits) {
    const size_t left = t->row_bytes - b * INT8_BLOCK;
    return bits == 5 && left < INT8_BLOCK ? left : INT8_BLOCK;
}

/* Computes a tile of y, block after block. */
ALWAYS_INLINE void k_tile(const struct int8_tile *t, const int rows, const int bits) {
    const unsigned char *block = t->w;
    const float *sums = t->part_sums;
    const size_t part_bytes = Q4_PANEL * k_part_bytes(bits, t->scales);
    for (size_t b = 0; b < t->blocks; b++) {
        const unsigned char *halves = block + Q4_PANEL * sizeof(float);
        const unsigned char *part = block + Q4_PANEL * k_header_bytes(bits, t->scales);
        const size_t length = k_block_length(t, b, bits);
        const uint8_t *q = t->q + b * INT8_BLOCK;
        vf total[Q4_ROWS * Q4_VECTORS];
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            total[i] = vf_set1(0);
        UNROLL_NOT
        for (size_t c = 0; c < length; c += K_PART, part += part_bytes) {
            if (rows <= FEW_ROWS)
                prefetch_stream(part, part_bytes);
            struct q4_factors factors[Q4_VECTORS];
            k_half(t, q + c, halves, part, sums, 0, factors, total, rows, bits);
            k_half(t, q + c, halves, part, bits == 2 ? sums + 1 : sums, 1, factors, total, rows,
                   bits);
            if (k_has_min(bits))
                sums += bits == 2 ? 2 : 1;
        }
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            q4_collect(t, b, (size_t)(i / Q4_VECTORS), (size_t)(i % Q4_VECTORS), total[i],
                       (const float *)(const void *)block, 1);
        block = part;
    }
}
