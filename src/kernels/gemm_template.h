/* SPDX-License-Identifier: Apache-2.0
 * Matrix products over the vector operations of an instruction set (vector_*.h). The including file
 * defines how many rows and vectors of outputs a tile holds in registers: F32_ROWS x F32_VECTORS
 * and INT8_ROWS x INT8_VECTORS. Afterwards it includes one of four int8 products:
 * gemm_dot_template.h, gemm_matrix_template.h, gemm_narrow_template.h or gemm_wide_template.h.
 *
 * A tile's sums are one array, and each loop over it is a single loop with constant bounds: gcc
 * does not keep the array in registers when loops are nested or the array has two indices. Tiles
 * with fewer rows, for the last rows of a product, do the same operations for each output. */

#include "kernels/k_layout.h"

enum {
    F32_PANEL = F32_VECTORS * VF_LANES,
    INT8_PANEL = INT8_VECTORS * VF_LANES,
    FEW_ROWS = 2, /* so few rows are multiplied as fast as their weights come from memory */
};

/* ---- floats and pairs of 16-bit numbers ------------------------------------------------------ */

/* The types of weights: floats, pairs of 16-bit integers, 16-bit floats and bfloats. */
enum word { WORD_F32, WORD_PAIR, WORD_F16, WORD_BF16 };

ALWAYS_INLINE size_t word_bytes(const enum word word) {
    return word == WORD_F32 || word == WORD_PAIR ? 4 : 2;
}

struct word_tile {
    const float *x; /* the tile's first row; WORD_PAIR has pairs instead of floats */
    size_t ldx;
    const unsigned char *w; /* the panel, from the tile's first vector of outputs */
    const float *bias;      /* may be NULL; not used by WORD_PAIR */
    const float *row_scale; /* the factor of each row's sums; only used by WORD_PAIR */
    float *y;
    size_t ldy;
    size_t k;       /* the number of words of a row */
    size_t columns; /* the number of outputs in the tile's last vector */
};

/* Returns the number of outputs in vector v of `vectors`. */
ALWAYS_INLINE size_t lanes_of(int v, int vectors, size_t columns) {
    return v == vectors - 1 ? columns : VF_LANES;
}

/* Loads a vector of weights and expands it to floats, exactly. */
ALWAYS_INLINE vf load_words(const unsigned char *w, const enum word word) {
#ifdef VECTOR_HALVES
    if (word != WORD_F32)
        return word == WORD_F16 ? vf_load_halves(w) : vf_load_bfloats(w);
#endif
    (void)word;
    return vf_load((const float *)(const void *)w);
}

/* Computes a tile of `rows` rows and `vectors` vectors of y. */
ALWAYS_INLINE void f32_tile(const struct word_tile *t, const int rows, const int vectors,
                            const enum word word) {
    vf sum[F32_ROWS * F32_VECTORS], bias[F32_VECTORS];
    UNROLL
    for (int v = 0; v < vectors; v++)
        bias[v] = t->bias ? vf_load_n(t->bias + v * VF_LANES, lanes_of(v, vectors, t->columns))
                          : vf_set1(0);
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = bias[i % vectors];
    const unsigned char *w = t->w;
    for (size_t c = 0; c < t->k; c++, w += F32_PANEL * word_bytes(word)) {
        vf weights[F32_VECTORS], x = vf_set1(0);
        if (rows <= FEW_ROWS)
            prefetch_stream(w, F32_PANEL * word_bytes(word));
        UNROLL
        for (int v = 0; v < vectors; v++)
            weights[v] = load_words(w + (size_t)v * VF_LANES * word_bytes(word), word);
        UNROLL
        for (int i = 0; i < rows * vectors; i++) {
            if (i % vectors == 0)
                x = vf_set1(t->x[(size_t)(i / vectors) * t->ldx + c]);
            sum[i] = vf_fma(x, weights[i % vectors], sum[i]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        vf_store_n(t->y + (size_t)(i / vectors) * t->ldy + i % vectors * VF_LANES, sum[i],
                   lanes_of(i % vectors, vectors, t->columns));
}

#ifdef VECTOR_I16

/* Computes a tile as f32_tile does, for WORD_PAIR. */
ALWAYS_INLINE void i16_tile(const struct word_tile *t, const int rows, const int vectors) {
    const int32_t *x = (const int32_t *)(const void *)t->x;
    const int32_t *w = (const int32_t *)(const void *)t->w;
    vi sum[F32_ROWS * F32_VECTORS];
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        sum[i] = vi_set1(0);
    for (size_t c = 0; c < t->k; c++, w += F32_PANEL) {
        vi weights[F32_VECTORS], pair = vi_set1(0);
        UNROLL
        for (int v = 0; v < vectors; v++)
            weights[v] = vi_load(w + v * VF_LANES);
        UNROLL
        for (int i = 0; i < rows * vectors; i++) {
            if (i % vectors == 0)
                pair = vi_set1(x[(size_t)(i / vectors) * t->ldx + c]);
            sum[i] = vi_dot_i16(sum[i], pair, weights[i % vectors]);
        }
    }
    UNROLL
    for (int i = 0; i < rows * vectors; i++)
        vf_store_n(t->y + (size_t)(i / vectors) * t->ldy + i % vectors * VF_LANES,
                   vf_mul(vf_of_vi(sum[i]), vf_set1(t->row_scale[i / vectors])),
                   lanes_of(i % vectors, vectors, t->columns));
}

#endif

ALWAYS_INLINE void word_tile(const struct word_tile *t, const int rows, const int vectors,
                             const enum word word) {
#ifdef VECTOR_I16
    if (word == WORD_PAIR) {
        i16_tile(t, rows, vectors);
        return;
    }
#endif
    f32_tile(t, rows, vectors, word);
}

/* Multiplies all m rows by `vectors` vectors of a panel. */
ALWAYS_INLINE void word_strip(struct word_tile t, size_t m, const int vectors,
                              const enum word word) {
    while (m > 0) {
        const size_t step = m >= F32_ROWS ? F32_ROWS : m >= 4 ? 4 : m >= 2 ? 2 : 1;
        if (step == F32_ROWS)
            word_tile(&t, F32_ROWS, vectors, word);
        else if (step == 4)
            word_tile(&t, F32_ROWS < 4 ? F32_ROWS : 4, vectors, word);
        else if (step == 2)
            word_tile(&t, 2, vectors, word);
        else
            word_tile(&t, 1, vectors, word);
        t.x += step * t.ldx;
        t.y += step * t.ldy;
        if (word == WORD_PAIR)
            t.row_scale += step;
        m -= step;
    }
}

/* Multiplies all m rows by the n outputs of t.w, to t.y. */
ALWAYS_INLINE void word_product(struct word_tile t, size_t m, size_t n, const enum word word) {
    const unsigned char *const w = t.w;
    const float *const bias = t.bias;
    const size_t bytes = word_bytes(word);
    float *const y = t.y;
    size_t j = 0;
    t.columns = VF_LANES;
    for (; j + F32_PANEL <= n; j += F32_PANEL) {
        t.w = w + j * t.k * bytes;
        t.bias = bias ? bias + j : NULL;
        t.y = y + j;
        word_strip(t, m, F32_VECTORS, word);
    }
    /* A last panel that is not full is computed vector by vector. */
    for (size_t panel = j * t.k; j < n; j += VF_LANES, panel += VF_LANES) {
        t.w = w + panel * bytes;
        t.bias = bias ? bias + j : NULL;
        t.y = y + j;
        t.columns = n - j < VF_LANES ? n - j : VF_LANES;
        word_strip(t, m, 1, word);
    }
}

static void gemm_f32(const float *x, size_t ldx, const float *w, const float *bias, float *y,
                     size_t ldy, size_t m, size_t n, size_t k) {
    const struct word_tile t = {.x = x,
                                .ldx = ldx,
                                .w = (const unsigned char *)w,
                                .bias = bias,
                                .y = y,
                                .ldy = ldy,
                                .k = k};
    word_product(t, m, n, WORD_F32);
}

#ifdef VECTOR_HALVES

static void gemm_f16(const float *x, size_t ldx, const void *w, const float *bias, float *y,
                     size_t ldy, size_t m, size_t n, size_t k) {
    const struct word_tile t = {
        .x = x, .ldx = ldx, .w = w, .bias = bias, .y = y, .ldy = ldy, .k = k};
    word_product(t, m, n, WORD_F16);
}

static void gemm_bf16(const float *x, size_t ldx, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k) {
    const struct word_tile t = {
        .x = x, .ldx = ldx, .w = w, .bias = bias, .y = y, .ldy = ldy, .k = k};
    word_product(t, m, n, WORD_BF16);
}

#define HALF_PRODUCTS .gemm_f16 = gemm_f16, .gemm_bf16 = gemm_bf16,
#else
#define HALF_PRODUCTS
#endif

/* ---- int8 ----------------------------------------------------------------------------------- */

/* The values of a block. Portable sets have narrow blocks, of which every instruction set computes
 * the exact sums. */
#if defined(VECTOR_PORTABLE) || defined(VECTOR_NARROW)
enum { TILE_BLOCK = NARROW_BLOCK };
#else
enum { TILE_BLOCK = INT8_BLOCK };
#endif

struct int8_tile {
    const uint8_t *q; /* the tile's first row */
    size_t row_bytes;
    const float *scale; /* [rows, blocks] */
    const float *zero;
    const float *part_sums; /* [rows, parts]; only of weights with offsets */
#ifdef DECODER_KERNELS
    enum k_scales scales;               /* only of weights in the layout of k_layout.h */
    size_t scaled;                      /* only of ternary weights: ternary_layout.h */
    const struct level_weights *levels; /* only of weights that name levels */
#endif
    size_t blocks;
    const unsigned char *w;    /* the panel, from its first block */
    const unsigned char *next; /* the next panel, which is prefetched meanwhile */
    size_t fetched;            /* the bytes of it that each block of a tile prefetches; 0: none */
    size_t vector;             /* the index in the panel of the tile's first vector */
    const float *bias;
    float *y;
    size_t ldy;
    size_t columns; /* the number of outputs in the tile's last vector */
};

/* The scale and zero point of one row in one block. They are loaded once for all vectors, since the
 * compiler has to assume that a store to y changes them. */
struct int8_row {
    vf scale, minus_zero;
    float *y;
    const float *before; /* the bias for the first block, y for later ones */
};

ALWAYS_INLINE struct int8_row int8_row_of(const struct int8_tile *t, size_t b, const int row) {
    const size_t i = (size_t)row * t->blocks + b;
    float *y = t->y + (size_t)row * t->ldy;
    return (struct int8_row){.scale = vf_set1(t->scale[i]),
                             .minus_zero = vf_set1(-t->zero[i]),
                             .y = y,
                             .before = b == 0 ? t->bias : y};
}

/* The scales and the sums of weights of a tile's outputs in one block, loaded once for all rows. */
struct int8_weights {
    vf scale[INT8_VECTORS], sum[INT8_VECTORS];
};

ALWAYS_INLINE struct int8_weights int8_weights_of(const float *scales, const int vectors) {
    struct int8_weights w;
    UNROLL
    for (int v = 0; v < vectors; v++) {
        w.scale[v] = vf_load(scales + v * VF_LANES);
        w.sum[v] = vf_load(scales + INT8_PANEL + v * VF_LANES);
    }
    return w;
}

/* Adds a block's products to output vector v of a row: y += scale_x scale_w (dot - zero * sum_w).
 * The dot product and zero * sum_w are whole numbers below 2^24, so their difference is exact in
 * f32.
 */
ALWAYS_INLINE void int8_collect(const struct int8_row *r, const struct int8_weights *w, vi dot,
                                const int v, const size_t lanes) {
    const vf centred = vf_fma(r->minus_zero, w->sum[v], vf_of_vi(dot));
    const vf scale = vf_mul(r->scale, w->scale[v]);
    const vf before = vf_load_n(r->before + v * VF_LANES, lanes);
    vf_store_n(r->y + v * VF_LANES, vf_mul_add(centred, scale, before), lanes);
}

/* Native portable sets only run models that embed, with narrow weights: they have neither products
 * of other weights nor sparse layers. Then nothing takes what `quantise` writes. In WebAssembly a
 * file defines a set and its portable one, which has no products of other weights either. */
#if defined(VECTOR_Q4) && (defined(__wasm__) || !defined(VECTOR_PORTABLE))
#define QUANTISE_BESIDE_NARROW rows_quantise_unsigned
#define BLOCK_PRODUCTS                                                                             \
    .q4_panel = Q4_PANEL, .gemm_q4 = gemm_q4, .gemm_q4_1 = gemm_q4_1, .gemm_q4_k = gemm_q4_k,      \
    .gemm_q2_k = gemm_q2_k, .gemm_q3_k = gemm_q3_k, .gemm_q5_k = gemm_q5_k,                        \
    .gemm_q6_k = gemm_q6_k, .gemm_q5_0 = gemm_q5_0, .gemm_q5_1 = gemm_q5_1,                        \
    .gemm_iq4_nl = gemm_iq4_nl, .gemm_iq4_xs = gemm_iq4_xs, .gemm_mxfp4 = gemm_mxfp4,              \
    .gemm_ternary = gemm_ternary, .gemm_q2_0 = gemm_q2_0, .gemm_pq2_0 = gemm_pq2_0,                \
    .gemm_i2_s = gemm_i2_s, .gather = &gather_kernels,
#if defined(__x86_64__)
#include "kernels/gather_x86.h"
#elif defined(__aarch64__)
#include "kernels/gather_neon.h"
#else
#include "kernels/gather_wasm.h"
#endif
#include "kernels/gather_template.h"
#else
#define QUANTISE_BESIDE_NARROW NULL
#define BLOCK_PRODUCTS
#endif

#ifndef SPARSE_UNSIGNED
#define SPARSE_UNSIGNED NULL
#endif

#ifdef VECTOR_I16
#define I16_KERNELS &i16
#else
#define I16_KERNELS NULL
#endif

#ifndef __wasm__
#include "kernels/dots_int8.h"
#define INDEX_ROWS .dots_int8 = dots_int8,
#else
#define INDEX_ROWS
#endif

/* The initialiser of a set's table, for a dot product instruction that takes unsigned or signed
 * activations, or for narrow products. The last arguments of KERNELS_OF initialise the fields of
 * the int8 products. */
#define KERNELS_WITH_UNSIGNED(set)                                                                 \
    KERNELS_OF(set, 0, rows_quantise_unsigned, SPARSE_UNSIGNED,                                    \
               BLOCK_PRODUCTS.int8_panel = INT8_PANEL, .gemm_int8 = gemm_int8)
#define KERNELS_WITH_SIGNED(set)                                                                   \
    KERNELS_OF(set, 1, rows_quantise_signed, &sparse_signed,                                       \
               BLOCK_PRODUCTS.int8_panel = INT8_PANEL, .gemm_int8 = gemm_int8)
#define KERNELS_WITH_NARROW(set)                                                                   \
    KERNELS_OF(set, 0, QUANTISE_BESIDE_NARROW, SPARSE_UNSIGNED,                                    \
               BLOCK_PRODUCTS.narrow_panel = INT8_PANEL, .quantise_narrow = rows_quantise_narrow,  \
               .gemm_narrow = gemm_int8)
#define KERNELS_WITH_NARROW_SIGNED(set) /* only for portable sets */                               \
    KERNELS_OF(set, 1, NULL, NULL, .narrow_panel = INT8_PANEL,                                     \
               .quantise_narrow = rows_quantise_narrow_signed, .gemm_narrow = gemm_int8)
#define KERNELS_OF(set, signed_values, quantiser, sparse_table, ...)                               \
    {.name = set,                                                                                  \
     .f32_panel = F32_PANEL,                                                                       \
     .signed_activations = signed_values,                                                          \
     .pack_f32 = pack_rows,                                                                        \
     .pack_f32_transposed = pack_columns,                                                          \
     .gemm_f32 = gemm_f32,                                                                         \
     HALF_PRODUCTS.quantise = quantiser,                                                           \
     __VA_ARGS__,                                                                                  \
     .layer_norm = rows_layer_norm,                                                                \
     .rms_norm = rows_rms_norm,                                                                    \
     .gelu = rows_gelu,                                                                            \
     .relu = rows_relu,                                                                            \
     .silu_mul = rows_silu_mul,                                                                    \
     DECODER_ROWS KV_KERNELS.softmax = rows_softmax,                                               \
     .add = rows_add,                                                                              \
     .dot = rows_dot,                                                                              \
     INDEX_ROWS.i16 = I16_KERNELS,                                                                 \
     .sparse = sparse_table,                                                                       \
     .lowrank_most_share = (float)MOST_PERCENT / 100,                                              \
     .lowrank_most_share_relu = (float)MOST_PERCENT_RELU / 100,                                    \
     .gate_most_share = (float)MOST_PERCENT_GATE / 100,                                            \
     .predicted_most_share = (float)MOST_PERCENT_PREDICTED / 100,                                  \
     .exact_wins = EXACT_WINS}
