/* SPDX-License-Identifier: Apache-2.0
 * The products of several rows with weights of K-quants and with weights that name levels:
 * INT8_BLOCK weights of a panel are unpacked to memory once, then multiplied by all rows. Unpacking
 * takes about as many instructions as the product with a row, and registers for masks that its sums
 * need. Results have the bits of gemm_q4_template.h and gemm_k_template.h. */

/* The rows for which weights are unpacked once, or one more: tiles that have at least two rows
 * cannot multiply a last one. The block of more rows would not stay in the first-level cache. */
enum { STRIP_ROWS = 32 };

/* INT8_BLOCK weights of a panel, or of levels in sets with VECTOR_NARROW their lower and upper
 * numbers; those of Q4_K and their offsets are Q4_FACTOR times too large. */
struct unpacked {
    vk_weights weights[INT8_BLOCK / 4 * Q4_VECTORS];
#ifdef VECTOR_NARROW
    vk_weights upper[INT8_BLOCK / 4 * Q4_VECTORS];
#endif
    struct q4_factors factors[INT8_BLOCK / K_HALF * Q4_VECTORS];
};

/* Returns the number of scales of a part. */
ALWAYS_INLINE int unpacked_scales(const enum block_form form) {
    return k_bits(form) ? K_PART / K_HALF : 1;
}

/* Returns the number of weights of a row in block b. */
ALWAYS_INLINE size_t unpacked_length(const struct int8_tile *t, size_t b,
                                     const enum block_form form) {
    return k_block_length(t, b, form_has_levels(form) ? 5 : k_bits(form));
}

/* Unpacks part c of a block. */
ALWAYS_INLINE void unpack_part(struct unpacked *u, const struct int8_tile *t,
                               const unsigned char *block, const unsigned char *part, const int c,
                               const enum block_form form) {
    const int bits = k_bits(form), scales = unpacked_scales(form), count = scales * Q4_VECTORS;
    const unsigned char *codes =
        part + Q4_PANEL * (form_has_levels(form) ? t->levels->layout->part_bytes - Q4_BLOCK / 2
                                                 : k_scale_bytes(t->scales));
    const int first = c * (K_PART / 4) * Q4_VECTORS;
    vk_weights *weights = u->weights + first;
    UNROLL
    for (int i = 0; i < 4 * Q4_VECTORS; i++) {
        const int g = i / Q4_VECTORS, v = i % Q4_VECTORS;
        vk_weights *high = &weights[4 * Q4_VECTORS + i];
        if (form == FORM_Q4_K)
            vq_load_nibbles(codes + i * VF_LANES * 4, &weights[i], high);
        else if (form_has_levels(form)) {
#ifdef VECTOR_NARROW
            vl_load_levels(codes + i * VF_LANES * 4, t->levels->tables[1], &weights[i], high);
            if (form == FORM_LEVELS)
                vl_load_levels(codes + i * VF_LANES * 4, t->levels->tables[0], &u->upper[first + i],
                               &u->upper[first + 4 * Q4_VECTORS + i]);
#else
            vl_load_levels(codes + i * VF_LANES * 4, t->levels->table, &weights[i], high);
#endif
        } else {
            weights[i] = k_load(codes, v, g, 0, bits);
            *high = k_load(codes, v, g, 1, bits);
        }
    }
    UNROLL
    for (int i = 0; i < count; i++) {
        const int h = i / Q4_VECTORS, v = i % Q4_VECTORS;
        struct q4_factors *factors = &u->factors[c * count + i];
        if (form_has_levels(form))
            factors->scale = level_scale(t->levels->layout, block, part, v);
        else if (form == FORM_Q4_K)
            *factors = q4_factors_of(block, part, v, form);
        else
            *factors = k_factors(block + Q4_PANEL * sizeof(float), part, v, h, bits, t->scales);
    }
}

/* Unpacks block b of a tile. Returns the next one. */
ALWAYS_INLINE const unsigned char *unpack(struct unpacked *u, const struct int8_tile *t, size_t b,
                                          const unsigned char *block, const enum block_form form) {
    const int bits = k_bits(form), parts = (int)unpacked_length(t, b, form) / K_PART;
    const size_t header_bytes =
        bits ? k_header_bytes(bits, t->scales) : q4_header_bytes(form, t->levels);
    const size_t part_bytes = bits ? k_part_bytes(bits, t->scales) : q4_part_bytes(form, t->levels);
    const unsigned char *part = block + Q4_PANEL * header_bytes;
    UNROLL_NOT
    for (int c = 0; c < parts; c++, part += Q4_PANEL * part_bytes)
        unpack_part(u, t, block, part, c, form);
    return part;
}

/* Computes the integer dot products of weights that share a scale. */
ALWAYS_INLINE void unpacked_dots(const uint8_t *q, size_t row_bytes, const vk_weights *weights,
                                 vi *dots, const int rows, const enum block_form form) {
    vi sum[UNPACKED_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNPACKED_UNROLL
    for (int g = 0; g < K_PART / 4 / unpacked_scales(form);
         g += K_STEP, weights += K_STEP * Q4_VECTORS, q += 4 * K_STEP) {
        k_activations x = k_load_activations(q);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            if (i % Q4_VECTORS == 0)
                x = k_load_activations(q + (size_t)(i / Q4_VECTORS) * row_bytes);
            sum[i] = k_dot(sum[i], x, weights + i % Q4_VECTORS);
            vi_keep(&sum[i]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        dots[i] = sum[i];
}

/* Does so for parts whose products with numbers of -8..7 are added up in 16 bits. `upper` are the
 * upper numbers of levels; NULL for others. */
ALWAYS_INLINE void unpacked_part_dots(const uint8_t *q, size_t row_bytes, const vk_weights *weights,
                                      const vk_weights *upper, vi *dots, const int rows) {
    vq sum[UNPACKED_ROWS * Q4_VECTORS], upper_sum[UNPACKED_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = upper_sum[i] = vi_set1(0);
    UNPACKED_UNROLL
    for (int g = 0; g < K_PART / 4 * Q4_VECTORS; g += Q4_VECTORS, q += 4) {
        vq_activations x = vq_load_activations(q);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            if (i % Q4_VECTORS == 0)
                x = vq_load_activations(q + (size_t)(i / Q4_VECTORS) * row_bytes);
            sum[i] = vq_dot(sum[i], x, weights[g + i % Q4_VECTORS]);
            vi_keep(&sum[i]);
            if (upper) {
                upper_sum[i] = vq_dot(upper_sum[i], x, upper[g + i % Q4_VECTORS]);
                vi_keep(&upper_sum[i]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
#ifdef VECTOR_NARROW
        dots[i] = upper ? vl_sum(upper_sum[i], sum[i]) : vq_sum(sum[i]);
#else
        dots[i] = vq_sum(sum[i]);
#endif
}

/* Adds the products of block b to a tile of y. */
ALWAYS_INLINE void unpacked_tile(const struct int8_tile *t, size_t b, const unsigned char *block,
                                 const struct unpacked *u, const int rows,
                                 const enum block_form form) {
    const int scales = unpacked_scales(form);
    const size_t length = form_sum_length(t, form);
    const int parts = (int)unpacked_length(t, b, form) / K_PART;
    const uint8_t *q = t->q + b * INT8_BLOCK;
    const float *sums = length ? t->part_sums + b * (INT8_BLOCK / length) : NULL;
    vf total[UNPACKED_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        total[i] = vf_set1(0);
    UNROLL_NOT
    for (int c = 0; c < parts * scales; c++, q += K_PART / scales) {
        const struct q4_factors *factors = u->factors + c * Q4_VECTORS;
        const int first = c * (K_PART / 4 / scales) * Q4_VECTORS;
        vi dots[UNPACKED_ROWS * Q4_VECTORS];
        if (form == FORM_Q4_K)
            unpacked_part_dots(q, t->row_bytes, u->weights + first, NULL, dots, rows);
#ifdef VECTOR_NARROW
        else if (form == FORM_LEVELS)
            unpacked_part_dots(q, t->row_bytes, u->weights + first, u->upper + first, dots, rows);
#endif
        else
            unpacked_dots(q, t->row_bytes, u->weights + first, dots, rows, form);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            total[i] = vf_fma(vf_of_vi(dots[i]), factors[i % Q4_VECTORS].scale, total[i]);
        if (length == 0 || (form == FORM_Q5 && c % 2 == 1))
            continue;
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            total[i] = vf_fma(vf_set1(sums[(size_t)(i / Q4_VECTORS) * (t->row_bytes / length)]),
                              factors[i % Q4_VECTORS].offset, total[i]);
        sums++;
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        q4_collect(t, b, (size_t)(i / Q4_VECTORS), (size_t)(i % Q4_VECTORS), total[i],
                   (const float *)(const void *)block,
                   (float)(form == FORM_Q4_K       ? Q4_FACTOR
                           : form_has_levels(form) ? LEVEL_FACTOR
                                                   : 1));
}

/* Multiplies m rows, of which t is the first, by a panel. */
ALWAYS_INLINE void unpacked_panel(struct int8_tile t, size_t m, const enum block_form form) {
    struct unpacked u;
    while (m > 0) {
        const size_t strip = m <= STRIP_ROWS + 1 ? m : STRIP_ROWS;
        const unsigned char *block = t.w;
        for (size_t b = 0; b < t.blocks; b++) {
            const unsigned char *next = unpack(&u, &t, b, block, form);
            struct int8_tile tile = t;
            for (size_t left = strip, step; left > 0; left -= step) {
                step = left % UNPACKED_ROWS ? UNPACKED_ROWS - 1 : UNPACKED_ROWS;
                if (step == UNPACKED_ROWS)
                    unpacked_tile(&tile, b, block, &u, UNPACKED_ROWS, form);
                else
                    unpacked_tile(&tile, b, block, &u, UNPACKED_ROWS - 1, form);
                block_advance(&tile, step, form);
            }
            block = next;
        }
        block_advance(&t, strip, form);
        m -= strip;
    }
}
