/* SPDX-License-Identifier: Apache-2.0
 * The products of several rows with weights of K-quants: INT8_BLOCK weights of a panel are unpacked
 * to memory once, then multiplied by all rows. Unpacking takes about as many instructions as the
 * product with a row, and registers for masks that its sums need. Results have the bits of
 * gemm_q4_template.h and gemm_k_template.h. */

/* The rows for which weights are unpacked once. The block of more rows would not stay in the
 * first-level cache. */
enum { K_STRIP = 32 };

/* The rows of a tile. The sums of more would not stay in 16 registers with their totals. */
enum { K_ROWS = 2 };

/* INT8_BLOCK weights of a panel; those of Q4_K and their offsets are Q4_FACTOR times too large. */
struct k_unpacked {
    vk_weights weights[INT8_BLOCK / 4 * Q4_VECTORS];
    struct q4_factors factors[INT8_BLOCK / K_HALF * Q4_VECTORS];
};

/* Unpacks part c of a block. */
ALWAYS_INLINE void k_unpack_part(struct k_unpacked *u, const unsigned char *block,
                                 const unsigned char *part, const int c, const enum block_form form,
                                 const enum k_scales scales) {
    const int bits = k_bits(form), halves = k_halves(form), count = halves * Q4_VECTORS;
    const unsigned char *codes = part + Q4_PANEL * k_scale_bytes(scales);
    vk_weights *weights = u->weights + c * (K_PART / 4) * Q4_VECTORS;
    UNROLL
    for (int i = 0; i < 4 * Q4_VECTORS; i++) {
        const int g = i / Q4_VECTORS, v = i % Q4_VECTORS;
        if (form == FORM_Q4_K) {
            vq_load_nibbles(codes + i * VF_LANES * 4, &weights[i], &weights[4 * Q4_VECTORS + i]);
            continue;
        }
        weights[i] = k_load(codes, v, g, 0, bits);
        weights[4 * Q4_VECTORS + i] = k_load(codes, v, g, 1, bits);
    }
    UNROLL
    for (int i = 0; i < count; i++) {
        const int h = i / Q4_VECTORS, v = i % Q4_VECTORS;
        struct q4_factors factors = form == FORM_Q4_K ? q4_factors_of(block, part, v, form)
                                                      : k_factors(block + Q4_PANEL * sizeof(float),
                                                                  part, v, h, bits, scales);
        if (form == FORM_Q4_K)
            factors.offset = vf_mul(factors.offset, vf_set1(Q4_FACTOR));
        u->factors[c * count + i] = factors;
    }
}

/* Unpacks block b of a tile. Returns the next one. */
ALWAYS_INLINE const unsigned char *k_unpack(struct k_unpacked *u, const struct int8_tile *t,
                                            size_t b, const unsigned char *block,
                                            const enum block_form form) {
    const int bits = k_bits(form), parts = (int)k_block_length(t, b, bits) / K_PART;
    const size_t header_bytes =
        form == FORM_Q4_K ? q4_header_bytes(form, NULL) : k_header_bytes(bits, t->scales);
    const size_t part_bytes =
        form == FORM_Q4_K ? q4_part_bytes(form, NULL) : k_part_bytes(bits, t->scales);
    const unsigned char *part = block + Q4_PANEL * header_bytes;
    UNROLL_NOT
    for (int c = 0; c < parts; c++, part += Q4_PANEL * part_bytes)
        k_unpack_part(u, block, part, c, form, t->scales);
    return part;
}

/* Computes the integer dot products of weights that share a scale. */
ALWAYS_INLINE void k_unpacked_dots(const uint8_t *q, size_t row_bytes, const vk_weights *weights,
                                   vi *dots, const int rows) {
    vi sum[K_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNROLL_NOT
    for (int g = 0; g < K_HALF / 4; g += K_STEP, weights += K_STEP * Q4_VECTORS, q += 4 * K_STEP) {
        k_activations x = k_load_activations(q);
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

/* Does so for the parts of Q4_K. */
ALWAYS_INLINE void k_unpacked_part_dots(const uint8_t *q, size_t row_bytes,
                                        const vk_weights *weights, vi *dots, const int rows) {
    vq sum[K_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    UNROLL_NOT
    for (int g = 0; g < K_PART / 4; g++, weights += Q4_VECTORS, q += 4) {
        vq_activations x = vq_load_activations(q);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            if (i % Q4_VECTORS == 0)
                x = vq_load_activations(q + (size_t)(i / Q4_VECTORS) * row_bytes);
            sum[i] = vq_dot(sum[i], x, weights[i % Q4_VECTORS]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        dots[i] = vq_sum(sum[i]);
}

/* Adds the products of block b to a tile of y. */
ALWAYS_INLINE void k_unpacked_tile(const struct int8_tile *t, size_t b, const unsigned char *block,
                                   const struct k_unpacked *u, const int rows,
                                   const enum block_form form) {
    const int halves = k_halves(form);
    const size_t length = form_sum_length(t, form);
    const int parts = (int)k_block_length(t, b, k_bits(form)) / K_PART;
    const uint8_t *q = t->q + b * INT8_BLOCK;
    const float *sums = length ? t->part_sums + b * (INT8_BLOCK / length) : NULL;
    vf total[K_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        total[i] = vf_set1(0);
    UNROLL_NOT
    for (int c = 0; c < parts * halves; c++, q += K_PART / halves) {
        const struct q4_factors *factors = u->factors + c * Q4_VECTORS;
        vi dots[K_ROWS * Q4_VECTORS];
        const vk_weights *weights = u->weights + c * (K_PART / 4 / halves) * Q4_VECTORS;
        if (form == FORM_Q4_K)
            k_unpacked_part_dots(q, t->row_bytes, weights, dots, rows);
        else
            k_unpacked_dots(q, t->row_bytes, weights, dots, rows);
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
                   (const float *)(const void *)block, form == FORM_Q4_K ? Q4_FACTOR : 1);
}

/* Multiplies m rows, of which t is the first, by a panel. */
ALWAYS_INLINE void k_unpacked_panel(struct int8_tile t, size_t m, const enum block_form form) {
    struct k_unpacked u;
    while (m > 0) {
        const size_t strip = m < K_STRIP ? m : K_STRIP;
        const unsigned char *block = t.w;
        for (size_t b = 0; b < t.blocks; b++) {
            const unsigned char *next = k_unpack(&u, &t, b, block, form);
            struct int8_tile tile = t;
            for (size_t left = strip, step; left > 0; left -= step) {
                step = left >= K_ROWS ? K_ROWS : 1;
                if (step == K_ROWS)
                    k_unpacked_tile(&tile, b, block, &u, K_ROWS, form);
                else
                    k_unpacked_tile(&tile, b, block, &u, 1, form);
                block_advance(&tile, step, form);
            }
            block = next;
        }
        block_advance(&t, strip, form);
        m -= strip;
    }
}
