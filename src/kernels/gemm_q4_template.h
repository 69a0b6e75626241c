/* SPDX-License-Identifier: Apache-2.0
 * The products with weights in blocks, of sets with VECTOR_Q4, in tiles of Q4_ROWS x Q4_VECTORS,
 * over the vector operations vq_*. If fewer rows are left, tiles have Q4_FEW rows or one.
 *
 * A part has Q4_BLOCK weights. Its products are added up as integers. The sums of the parts of an
 * INT8_BLOCK, each times its scale, are added up as floats; if weights have an offset, its
 * product with the sum of the part's activations is added too. The sum is then corrected by the
 * activations' zero point and multiplied by their scale.
 *
 * A set defines Q4_UNROLL as UNROLL if an unrolled loop over a part is faster, and
 * K_MOST_PACKED, Q4_K_MOST_PACKED, LEVELS_MOST_PACKED and SMALL_LEVELS_MOST_PACKED if more rows
 * than these are faster with gemm_unpacked_template.h, whose tiles have UNPACKED_ROWS rows or one
 * less, and whose loops are UNPACKED_UNROLL. */

#include "kernels/k_layout.h"
#include "kernels/level_layout.h"
#include "kernels/ternary_layout.h"

enum { Q4_PANEL = Q4_VECTORS * VF_LANES };

#ifndef Q4_UNROLL
#define Q4_UNROLL UNROLL_NOT
#endif

/* The packings of weights: those of pack_q4, pack_q4_1, the functions of K-quants (of five bits for
 * all layouts of k_layout.h), of weights that name levels, and of ternary weights. */
enum block_form {
    FORM_Q4_0,
    FORM_Q4_1,
    FORM_Q4_K,
    FORM_Q2_K,
    FORM_Q3_K,
    FORM_Q5,
    FORM_Q6_K,
    FORM_LEVELS,
    FORM_SMALL_LEVELS,
    FORM_TERNARY
};

/* Adds value * scale to output vector v of a row, as far as its columns exist: to the bias in the
 * first block b, else to what y has of the blocks before. */
ALWAYS_INLINE void q4_add(const struct int8_tile *t, size_t b, size_t row, size_t v, vf value,
                          vf scale) {
    const float *bias = t->bias + v * VF_LANES;
    float *y = t->y + row * t->ldy + v * VF_LANES;
    if (v * VF_LANES >= t->columns)
        return;
    const size_t left = t->columns - v * VF_LANES, lanes = left < VF_LANES ? left : VF_LANES;
    vf_store_n(y, vf_fma(value, scale, vf_load_n(b == 0 ? bias : y, lanes)), lanes);
}

/* Returns the number of activations of which the product takes the sums; 0: it takes none. */
ALWAYS_INLINE size_t form_sum_length(const struct int8_tile *t, const enum block_form form) {
    switch (form) {
    case FORM_Q2_K:
        return K_HALF;
    case FORM_Q4_1:
    case FORM_Q4_K:
    case FORM_Q5:
        return Q4_BLOCK;
    case FORM_TERNARY:
        return ternary_part(t->scaled);
    default:
        return 0;
    }
}

/* Returns whether weights name levels. */
ALWAYS_INLINE bool form_has_levels(const enum block_form form) {
    return form == FORM_LEVELS || form == FORM_SMALL_LEVELS;
}

/* Moves a tile on by `rows` rows. */
ALWAYS_INLINE void block_advance(struct int8_tile *t, size_t rows, const enum block_form form) {
    t->q += rows * t->row_bytes;
    t->scale += rows * t->blocks;
    t->zero += rows * t->blocks;
    if (form_sum_length(t, form))
        t->part_sums += rows * (t->row_bytes / form_sum_length(t, form));
    t->y += rows * t->ldy;
}

#include "kernels/gemm_ternary_template.h"

/* The scales of a vector of outputs in one part, and their offsets, which are Q4_FACTOR times too
 * large as the products of nibbles are. */
struct q4_factors {
    vf scale, offset;
};

ALWAYS_INLINE struct q4_factors q4_factors_of(const unsigned char *block, const unsigned char *part,
                                              int v, const enum block_form form) {
    const unsigned char *at = part + v * VF_LANES * (form == FORM_Q4_K ? 1 : 2);
    if (form == FORM_Q4_0)
        return (struct q4_factors){vf_load_halves(at), vf_set1(0)};
    if (form == FORM_Q4_1) {
        const vf scale = vf_load_halves(at);
        const vf offset = vf_fma(scale, vf_set1(8), vf_load_halves(at + Q4_PANEL * 2));
        return (struct q4_factors){scale, vf_mul(offset, vf_set1(Q4_FACTOR))};
    }
    const unsigned char *halves = block + Q4_PANEL * sizeof(float) + v * VF_LANES * 2;
    const vf scale = vf_mul(vf_load_halves(halves), vf_load_bytes(at));
    const vf min = vf_mul(vf_load_halves(halves + Q4_PANEL * 2), vf_load_bytes(at + Q4_PANEL));
    const vf offset = vf_sub(vf_mul(scale, vf_set1(8)), min);
    return (struct q4_factors){scale, vf_mul(offset, vf_set1(Q4_FACTOR))};
}

/* Adds block b to output vector v of a row: y += scale_x (total - zero * sum). `total` is `factor`
 * times the sum of the parts' dot products, each times its scale; `sums` holds the block's sums of
 * weights for all vectors. */
ALWAYS_INLINE void q4_collect(const struct int8_tile *t, size_t b, size_t row, size_t v, vf total,
                              const float *sums, const float factor) {
    const size_t i = row * t->blocks + b;
    const vf centred = vf_fma(vf_set1(-factor * t->zero[i]), vf_load(sums + v * VF_LANES), total);
    q4_add(t, b, row, v, centred, vf_set1(t->scale[i] / factor));
}

/* Computes the integer dot products of one part, of weights that are nibbles, or of those that
 * nibbles name in a table. */
ALWAYS_INLINE void q4_dots(const uint8_t *q, size_t row_bytes, const unsigned char *w, vi *dots,
                           const int rows, const vl_table *table) {
    vq sum[Q4_ROWS * Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        sum[i] = vi_set1(0);
    Q4_UNROLL
    for (int g = 0; g < Q4_BLOCK / 8; g++, q += 4, w += Q4_PANEL * 4) {
        vq_weights low[Q4_VECTORS], high[Q4_VECTORS];
        vq_activations x = vq_load_activations(q), x_high = x;
        UNROLL
        for (int v = 0; v < Q4_VECTORS; v++)
            if (table)
                vl_load_levels(w + v * VF_LANES * 4, *table, &low[v], &high[v]);
            else
                vq_load_nibbles(w + v * VF_LANES * 4, &low[v], &high[v]);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            if (i % Q4_VECTORS == 0) {
                const uint8_t *row = q + (size_t)(i / Q4_VECTORS) * row_bytes;
                x = vq_load_activations(row);
                x_high = vq_load_activations(row + Q4_BLOCK / 2);
            }
            sum[i] = vq_dot(vq_dot(sum[i], x, low[i % Q4_VECTORS]), x_high, high[i % Q4_VECTORS]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        dots[i] = vq_sum(sum[i]);
}

#include "kernels/gemm_levels_template.h"

/* Return the bytes for each output of a block without its parts, and of a part. `levels` are
 * those of forms that have levels. */
ALWAYS_INLINE size_t q4_header_bytes(const enum block_form form,
                                     const struct level_weights *levels) {
    return form_has_levels(form) ? levels->layout->header_bytes
           : form == FORM_Q4_K   ? 2 * sizeof(float)
                                 : sizeof(float);
}

ALWAYS_INLINE size_t q4_part_bytes(const enum block_form form, const struct level_weights *levels) {
    return form_has_levels(form) ? levels->layout->part_bytes
           : form == FORM_Q4_1   ? Q4_1_BLOCK_BYTES
                                 : Q4_BLOCK_BYTES;
}

/* Returns whether weights have offsets. */
ALWAYS_INLINE bool q4_has_offsets(const enum block_form form) {
    return form == FORM_Q4_1 || form == FORM_Q4_K;
}

/* Adds the products of one block, of `length` values, to a tile of y. */
ALWAYS_INLINE void q4_block(const struct int8_tile *t, size_t b, const unsigned char *block,
                            size_t length, const int rows, const enum block_form form) {
    const float *sums = (const float *)(const void *)block;
    const unsigned char *part = block + Q4_PANEL * q4_header_bytes(form, t->levels);
    const size_t part_bytes = q4_part_bytes(form, t->levels);
    const uint8_t *q = t->q + b * INT8_BLOCK;
    const float *part_sums =
        q4_has_offsets(form) ? t->part_sums + b * (INT8_BLOCK / Q4_BLOCK) : NULL;
    const size_t parts = t->row_bytes / Q4_BLOCK;
    vf total[Q4_ROWS * Q4_VECTORS];
    struct q4_factors factors[Q4_VECTORS];
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        total[i] = vf_set1(0);
    for (size_t c = 0; c < length; c += Q4_BLOCK, part += Q4_PANEL * part_bytes) {
        const unsigned char *codes = part + Q4_PANEL * (part_bytes - Q4_BLOCK / 2);
        vi dots[Q4_ROWS * Q4_VECTORS];
        /* A constant: parts of levels have no more bytes than those of Q4_0. */
        if (rows <= FEW_ROWS)
            prefetch_stream(part,
                            Q4_PANEL * (form == FORM_Q4_1 ? Q4_1_BLOCK_BYTES : Q4_BLOCK_BYTES));
        if (form_has_levels(form))
            level_dots(q + c, t->row_bytes, codes, t->levels, dots, rows, form);
        else
            q4_dots(q + c, t->row_bytes, codes, dots, rows, NULL);
        UNROLL
        for (int v = 0; v < Q4_VECTORS; v++)
            if (form_has_levels(form))
                factors[v].scale = level_scale(t->levels->layout, block, part, v);
            else
                factors[v] = q4_factors_of(block, part, v, form);
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++)
            total[i] = vf_fma(vf_of_vi(dots[i]), factors[i % Q4_VECTORS].scale, total[i]);
        if (!q4_has_offsets(form))
            continue;
        UNROLL
        for (int i = 0; i < rows * Q4_VECTORS; i++) {
            const float sum = part_sums[(size_t)(i / Q4_VECTORS) * parts + c / Q4_BLOCK];
            total[i] = vf_fma(vf_set1(sum), factors[i % Q4_VECTORS].offset, total[i]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * Q4_VECTORS; i++)
        q4_collect(t, b, (size_t)(i / Q4_VECTORS), (size_t)(i % Q4_VECTORS), total[i], sums,
                   form_has_levels(form) ? LEVEL_FACTOR : Q4_FACTOR);
}

/* Computes a tile of y, block after block. */
ALWAYS_INLINE void q4_tile(const struct int8_tile *t, const int rows, const enum block_form form) {
    const unsigned char *block = t->w;
    for (size_t b = 0; b < t->blocks; b++) {
        const size_t left = t->row_bytes - b * INT8_BLOCK;
        const size_t length = left < INT8_BLOCK ? left : INT8_BLOCK;
        q4_block(t, b, block, length, rows, form);
        block += Q4_PANEL * (q4_header_bytes(form, t->levels) +
                             length / Q4_BLOCK * q4_part_bytes(form, t->levels));
    }
}

#include "kernels/gemm_k_template.h"

#ifdef K_MOST_PACKED
#include "kernels/gemm_unpacked_template.h"
#endif

ALWAYS_INLINE void block_tile(const struct int8_tile *t, const int rows,
                              const enum block_form form) {
    if (form == FORM_TERNARY)
        ternary_tile(t, rows);
    else if (k_bits(form))
        k_tile(t, rows, k_bits(form));
    else
        q4_tile(t, rows, form);
}

/* Multiplies m rows, of which t is the first, by a panel. */
ALWAYS_INLINE void block_panel(struct int8_tile t, size_t m, const enum block_form form) {
#ifdef K_MOST_PACKED
    const size_t most = form == FORM_Q4_K           ? Q4_K_MOST_PACKED
                        : k_bits(form)              ? K_MOST_PACKED
                        : form == FORM_LEVELS       ? LEVELS_MOST_PACKED
                        : form == FORM_SMALL_LEVELS ? SMALL_LEVELS_MOST_PACKED
                                                    : SIZE_MAX;
    if (m > most) {
        unpacked_panel(t, m, form);
        return;
    }
#else
    const size_t most = SIZE_MAX;
#endif
    for (size_t step; m > 0; m -= step) {
        step = most >= Q4_ROWS && m >= Q4_ROWS ? Q4_ROWS
               : most >= Q4_FEW && m >= Q4_FEW ? Q4_FEW
                                               : 1;
        if (step == Q4_ROWS)
            block_tile(&t, Q4_ROWS, form);
        else if (step == 1)
            block_tile(&t, 1, form);
        else
            block_tile(&t, Q4_FEW, form);
        block_advance(&t, step, form);
    }
}

/* How the weights of a form are laid out, if layouts differ. */
struct block_layout {
    enum k_scales scales; /* of k_layout.h */
    size_t scaled;        /* of ternary weights */
    const struct level_weights *levels;
};

/* Multiplies m rows by n outputs, of which a panel has panel_bytes. */
ALWAYS_INLINE void block_product(struct quantised_rows x, const void *w, size_t panel_bytes,
                                 const float *bias, float *y, size_t ldy, size_t m, size_t n,
                                 size_t k, const enum block_form form, struct block_layout layout) {
    const unsigned char *panel = w;
    for (size_t j = 0; j < n; j += Q4_PANEL, panel += panel_bytes) {
        const struct int8_tile t = {.q = x.q,
                                    .row_bytes = k,
                                    .scale = x.scale,
                                    .zero = x.zero,
                                    .part_sums = x.part_sums,
                                    .scales = layout.scales,
                                    .scaled = layout.scaled,
                                    .levels = layout.levels,
                                    .blocks = int8_blocks(k),
                                    .w = panel,
                                    .bias = bias + j,
                                    .y = y + j,
                                    .ldy = ldy,
                                    .columns = n - j};
        block_panel(t, m, form);
    }
}

/* WebAssembly is downloaded: there one function serves several layouts of a form. Q5_K has its own,
 * as it would be 10 % slower. */
#ifdef __wasm__
#define ONE_FOR_LAYOUTS static __attribute__((noinline))
#else
#define ONE_FOR_LAYOUTS ALWAYS_INLINE
#endif

ONE_FOR_LAYOUTS void five_bit_product(struct quantised_rows x, const void *w, size_t panel_bytes,
                                      const float *bias, float *y, size_t ldy, size_t m, size_t n,
                                      size_t k, enum k_scales scales) {
    block_product(x, w, panel_bytes, bias, y, ldy, m, n, k, FORM_Q5,
                  (struct block_layout){.scales = scales});
}

ONE_FOR_LAYOUTS void ternary_product(struct quantised_rows x, const void *w, size_t panel_bytes,
                                     const float *bias, float *y, size_t ldy, size_t m, size_t n,
                                     size_t k, size_t scaled) {
    block_product(x, w, panel_bytes, bias, y, ldy, m, n, k, FORM_TERNARY,
                  (struct block_layout){.scaled = scaled});
}

/* Defines gemm_NAME of kernels.h, over weights that pack_NAME packs, as a call of FUNCTION. The
 * further arguments are its last ones, which say how the weights are laid out. */
#define PRODUCT(NAME, FUNCTION, ...)                                                               \
    static void gemm_##NAME(struct quantised_rows x, const void *w, const float *bias, float *y,   \
                            size_t ldy, size_t m, size_t n, size_t k) {                            \
        FUNCTION(x, w, packed_##NAME##_bytes(Q4_PANEL, k, Q4_PANEL), bias, y, ldy, m, n, k,        \
                 __VA_ARGS__);                                                                     \
    }
#define ONE_LAYOUT (struct block_layout){0} /* the form alone says how the weights are laid out */
PRODUCT(ternary, ternary_product, K_BLOCK)
PRODUCT(pq2_0, ternary_product, INT8_BLOCK)
PRODUCT(q2_0, ternary_product, TERNARY_LEAST)
PRODUCT(i2_s, ternary_product, 0)
PRODUCT(q5_0, five_bit_product, K_SCALES_D)
PRODUCT(q5_1, five_bit_product, K_SCALES_D_AND_M)
PRODUCT(q4, block_product, FORM_Q4_0, ONE_LAYOUT)
PRODUCT(q4_1, block_product, FORM_Q4_1, ONE_LAYOUT)
PRODUCT(q4_k, block_product, FORM_Q4_K, ONE_LAYOUT)
PRODUCT(q2_k, block_product, FORM_Q2_K, ONE_LAYOUT)
PRODUCT(q3_k, block_product, FORM_Q3_K, ONE_LAYOUT)
PRODUCT(q5_k, block_product, FORM_Q5, ONE_LAYOUT)
PRODUCT(q6_k, block_product, FORM_Q6_K, ONE_LAYOUT)

/* One function serves all types whose weights name levels: it makes the tables of their levels. */
#define LEVELS_PRODUCT(NAME, FORM)                                                                 \
    static __attribute__((noinline)) void NAME(                                                    \
        struct quantised_rows x, const void *w, const float *bias, float *y, size_t ldy, size_t m, \
        size_t n, size_t k, const struct level_layout *layout) {                                   \
        const struct level_weights levels = level_weights_of(layout, FORM);                        \
        block_product(x, w, packed_level_bytes(layout, Q4_PANEL, k, Q4_PANEL), bias, y, ldy, m, n, \
                      k, FORM, (struct block_layout){.levels = &levels});                          \
    }
LEVELS_PRODUCT(level_product, FORM_LEVELS)
#ifdef VECTOR_NARROW
LEVELS_PRODUCT(small_level_product, FORM_SMALL_LEVELS)
#else
#define small_level_product level_product
#endif

/* Defines gemm_NAME of kernels.h over weights that pack_NAME packs. */
#define LEVEL_PRODUCT(NAME, FUNCTION)                                                              \
    static void gemm_##NAME(struct quantised_rows x, const void *w, const float *bias, float *y,   \
                            size_t ldy, size_t m, size_t n, size_t k) {                            \
        FUNCTION(x, w, bias, y, ldy, m, n, k, &layout_##NAME);                                     \
    }
LEVEL_PRODUCT(iq4_nl, level_product)
LEVEL_PRODUCT(iq4_xs, level_product)
LEVEL_PRODUCT(mxfp4, small_level_product)
