/* SPDX-License-Identifier: Apache-2.0
 * One table of function pointers for each instruction set. Code outside this folder does not know
 * which set it uses.
 *
 * A fixed sequence of operations computes each output element. It depends only on the element's own
 * inputs and on the lengths k and n, never on the other rows of the call. So results have the same
 * bits however texts are batched or distributed among threads.
 *
 * Shapes are those of row-major matrices; [m, ldx] is one of m rows that lie ldx elements apart. */
#ifndef WISP_KERNELS_KERNELS_H
#define WISP_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/product.h"
#include "kernels/bf16.h"
#include "kernels/i16.h"
#include "kernels/kv_step.h"

/* int8 weights and activations have one scale for each block of this many values along k. The last
 * block of a row may be shorter. Shorter blocks are more exact, longer ones cost less:
 * docs/decisions.md. */
enum { INT8_BLOCK = 128 };

static inline size_t int8_blocks(size_t k) {
    return (k + INT8_BLOCK - 1) / INT8_BLOCK;
}

/* "Narrow" int8 products add up the products of four weights in 16 bits, for instruction sets that
 * have no dot product of bytes in 32 bits. So that the sums fit, activations have NARROW_STEPS
 * steps (rounding may add 1), and weights of one sign in a group of four add up to at most
 * NARROW_WEIGHTS: 181 * 181 < 2^15. Blocks are shorter, or fewer steps would be less exact. */
enum { NARROW_BLOCK = 64, NARROW_STEPS = 180, NARROW_WEIGHTS = 181 };

static inline size_t narrow_blocks(size_t k) {
    return (k + NARROW_BLOCK - 1) / NARROW_BLOCK;
}

/* Returns the bytes of a row of k quantised values: a multiple of 4, since a dot product
 * instruction takes groups of 4. */
static inline size_t int8_row_bytes(size_t k) {
    return (k + 3) & ~(size_t)3;
}

/* 4-bit weights have one scale for each block of Q4_BLOCK values along k, as in Q4_0. A block takes
 * Q4_BLOCK_BYTES: the scale as a 16-bit float, and the nibbles. One of Q4_1 also has a minimum. */
enum { Q4_BLOCK = 32, Q4_BLOCK_BYTES = 18, Q4_1_BLOCK_BYTES = 20 };

/* K_BLOCK weights of a row make one block of a K-quant in a file; of Q4_K it has so many bytes. */
enum { K_BLOCK = 256, Q4_K_BLOCK_BYTES = 144 };

/* The least number of ternary weights that share a scale (ternary_layout.h). */
enum { TERNARY_LEAST = 64 };

/* Returns the range of values that 255 quantisation steps have to cover. A range below 2^-120 is
 * replaced by 0, for which callers use a scale of 0: 255 divided by it could overflow. */
static inline float quantised_range(float low, float high) {
    const float range = high - low;
    return range < 0x1p-120f ? 0 : range;
}

/* m rows of k quantised values. x = scale * (q - zero), if each block of each row has its own
 * scale and zero point. There are int8_blocks(k) blocks, or narrow_blocks(k) from quantise_narrow.
 */
struct quantised_rows {
    uint8_t *q;   /* [m, int8_row_bytes(k)]; int8_t if the set has signed_activations */
    float *scale; /* [m, blocks] */
    float *zero;  /* [m, blocks]: zero points, which are whole numbers */
    /* [m, k / Q4_BLOCK]: the sums of q - zero over Q4_BLOCK values, which sum_parts computes. Only
     * gemm_q4_1, gemm_q4_k, gemm_q5_0, gemm_q5_1 and gemm_q5_k read them, and gemm_q2_k those of 16
     * values, gemm_ternary, gemm_pq2_0 and gemm_i2_s those of INT8_BLOCK, gemm_q2_0 those of
     * TERNARY_LEAST; NULL for others. */
    float *part_sums;
};

/* A product of quantised rows x [m, k] and packed weights w of n outputs: writes n columns of
 * y [m, ldy]. bias [n]. */
typedef void quantised_product(struct quantised_rows x, const void *w, const float *bias, float *y,
                               size_t ldy, size_t m, size_t n, size_t k);

/* Without DECODER_KERNELS (base/product.h) the functions that only decoders use are NULL, and
 * kernels take no activation that only decoders have. */
struct kernels {
    const char *name;
    /* The number of outputs whose weights are interleaved in one panel. */
    size_t f32_panel;
    size_t int8_panel, narrow_panel; /* 0 if gemm_int8 or gemm_narrow is NULL */
    size_t q4_panel;                 /* of gemm_q4 and those that follow it; 0 if they are NULL */
    int signed_activations;          /* whether q is -128..127 rather than 0..255 */

    /* Do what the functions of the same names below do, with panels of f32_panel. */
    void (*pack_f32)(const float *w, size_t ldw, size_t n, size_t k, float *packed);
    void (*pack_f32_transposed)(const float *wt, size_t ldw, size_t n, size_t k, float *packed);

    /* Computes y[i, j] = bias[j] + sum over c of x[i, c] w[j, c], for i < m, j < n, c < k, in the
     * order of c. x [m, ldx]; w packed by pack_f32 with f32_panel; bias [n] or NULL; y [m, ldy], of
     * which n columns are written. Pointers need no alignment; y must not overlap the inputs. */
    void (*gemm_f32)(const float *x, size_t ldx, const float *w, const float *bias, float *y,
                     size_t ldy, size_t m, size_t n, size_t k);

    /* Compute what gemm_f32 does, with the same bits, for weights that are 16-bit floats or
     * bfloats, packed by pack_halves with f32_panel. NULL if 16-bit weights would be slower than
     * floats. */
    void (*gemm_f16)(const float *x, size_t ldx, const void *w, const float *bias, float *y,
                     size_t ldy, size_t m, size_t n, size_t k);
    void (*gemm_bf16)(const float *x, size_t ldx, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k);

    /* Quantises x [m, k]. The range of each block of each row reaches from its least to its largest
     * value and includes 0. q = round(x / scale) + zero, ties to even. Bytes past k are `zero`.
     * If the range is below 2^-120, the scale, the zero point and q are 0. NULL if no product
     * of the set takes them. */
    void (*quantise)(const float *x, size_t m, size_t k, struct quantised_rows out);

    /* Computes the product of gemm_f32 for quantised x and w packed by pack_int8 with int8_panel:
     * y[i, j] = bias[j] + sum over blocks b of xs[i, b] ws[j, b] (sum of (q - zero) w), if xs
     * and ws are the scales of x and w. The inner sums are exact, in 32-bit integers. bias [n];
     * y [m, ldy]. NULL if gemm_narrow is faster. */
    quantised_product *gemm_int8;

    /* Does what `quantise` does, in blocks of NARROW_BLOCK and with 0 <= q <= NARROW_STEPS + 1, or
     * 128 less if the set has signed_activations. NULL if gemm_narrow is. */
    void (*quantise_narrow)(const float *x, size_t m, size_t k, struct quantised_rows out);

    /* Computes the product of gemm_int8, in blocks of NARROW_BLOCK, for x from quantise_narrow and
     * w packed by pack_narrow with narrow_panel. NULL if gemm_int8 is faster, but not in
     * kernels_scalar and portable sets. */
    quantised_product *gemm_narrow;

    /* Computes the product of gemm_int8 for w packed by pack_q4 with q4_panel. k is a multiple of
     * Q4_BLOCK:
     * y[i, j] = bias[j] + sum over blocks b of xs[i, b] (sum over parts p of ws[j, p] (sum of q w)
     * - zero[i, b] (sum of ws w)), if the parts p are the blocks of w within b. The innermost
     * sums are exact.
     * This product and the following ones are NULL in sets of WebAssembly that only embed texts,
     * if int8 is faster (docs/decisions.md, 19), and in portable ones. */
    quantised_product *gemm_q4;

    /* Compute the product of gemm_q4 for w packed by pack_q4_1 or pack_q4_k, of which a weight is
     * ws w + offset, if each part has a scale ws and an offset. To the sum of gemm_q4 they add
     * xs[i, b] (sum over parts p of offset[j, p] x.part_sums[i, p]). */
    quantised_product *gemm_q4_1;
    quantised_product *gemm_q4_k;

    /* Compute the product of gemm_q4 for w packed by pack_q3_k and pack_q6_k with q4_panel, if
     * the parts p have 16 weights, and that of gemm_q4_k for w packed by pack_q5_k and pack_q2_k,
     * of which the latter has parts of 16. k is a multiple of K_BLOCK. */
    quantised_product *gemm_q2_k;
    quantised_product *gemm_q3_k;
    quantised_product *gemm_q5_k;
    quantised_product *gemm_q6_k;

    /* Compute the product of gemm_q4_k for w packed by pack_q5_0 or pack_q5_1 with q4_panel. k is a
     * multiple of Q4_BLOCK. */
    quantised_product *gemm_q5_0;
    quantised_product *gemm_q5_1;

    /* Compute the product of gemm_q4 for w packed by pack_iq4_nl, pack_iq4_xs and pack_mxfp4 with
     * q4_panel. k is a multiple of Q4_BLOCK, and for gemm_iq4_xs of K_BLOCK. */
    quantised_product *gemm_iq4_nl;
    quantised_product *gemm_iq4_xs;
    quantised_product *gemm_mxfp4;

    /* Computes the product of gemm_int8 for w packed by pack_tq1_0, pack_tq2_0 or pack_bitnet_t158
     * with q4_panel. k is a multiple of K_BLOCK:
     * y[i, j] = bias[j] + sum over K_BLOCKs c of d[j, c] (sum over blocks b of xs[i, b] (sum of
     * (q - zero) code)), if a weight is d times its code -1, 0, 1 or 2, and the b are the blocks
     * of x within c. The innermost sums are exact. */
    quantised_product *gemm_ternary;

    /* Compute the product of gemm_ternary for w packed by pack_q2_0, or by pack_q1_0 or pack_pq2_0,
     * with q4_panel: y[i, j] = bias[j] + sum over parts p of xs[i, b] d[j, p] (sum of (q - zero)
     * code), if p has TERNARY_LEAST or INT8_BLOCK weights and is in block b of x. k is a
     * multiple of that number. */
    quantised_product *gemm_q2_0;
    quantised_product *gemm_pq2_0;

    /* Computes the product of gemm_ternary for w packed by pack_i2_s with q4_panel, whose rows have
     * one scale each, so that y[i, j] = bias[j] + d[j] (sum over all blocks). k is a multiple of
     * INT8_BLOCK. */
    quantised_product *gemm_i2_s;

    /* Replaces each row of x by layer_norm(x + residual) * weight + bias. x and residual [m, n],
     * never NULL; weight and bias [n]. The residual does not change, and the sum is not kept. */
    void (*layer_norm)(float *x, const float *residual, const float *weight, const float *bias,
                       float epsilon, size_t m, size_t n);

    /* Computes y = x / sqrt(mean of the row's squares + epsilon) * weight. x and y [m, n], which
     * may be the same array; weight [n]. */
    void (*rms_norm)(const float *x, const float *weight, float epsilon, size_t m, size_t n,
                     float *y);

    /* Replaces n values x by x (1 + erf(x / sqrt 2)) / 2, within 1e-6 of the exact value. */
    void (*gelu)(float *x, size_t n);

    /* Replaces n values x by max(x, 0). */
    void (*relu)(float *x, size_t n);

    /* Replaces n values of `gate` by gate / (1 + e^-gate) * up, within 1e-6 |gate up| of the exact
     * value. */
    void (*silu_mul)(float *gate, const float *up, size_t n);

    /* The next three are only for decoders. */

    /* Replaces n values x by x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, within 1e-6 |x| of
     * the exact value. */
    void (*gelu_tanh)(float *x, size_t n);

    /* Multiplies n values of y by those of x, which may be y. */
    void (*multiply)(float *y, const float *x, size_t n);

    /* Replaces n values x by cap tanh(scale x / cap), within 1e-6 cap of the exact value. */
    void (*soft_cap)(float *x, size_t n, float scale, float cap);

    /* Replaces the first n values of each row of x [m, ld] by softmax(scale * x). */
    void (*softmax)(float *x, size_t ld, size_t m, size_t n, float scale);

    /* Adds n values of x to those of y. */
    void (*add)(float *y, const float *x, size_t n);

    /* Returns the sum of a[i] b[i] over i < n. */
    float (*dot)(const float *a, const float *b, size_t n);

#ifndef __wasm__
    /* Computes sums[j] = sum over c < k of x[c] w[j, c] for j < n, exactly: the caller makes sure
     * that the sums stay below 2^31. x [k]; w [n, ldw]. For indexes, of which WebAssembly has a
     * module of its own (wasm/index). */
    void (*dots_int8)(const int16_t *x, const int8_t *w, size_t ldw, size_t n, size_t k,
                      int32_t *sums);
#endif

    const struct i16_kernels *i16; /* see i16.h; NULL if f32 products are as fast, but not in
                                      portable sets */
#ifndef __wasm__
    const struct bf16_kernels *bf16; /* see bf16.h; NULL if the set's instructions have none */
#endif
    const struct kv_kernels *kv;         /* see kv_step.h; only for decoders */
    const struct sparse_kernels *sparse; /* see sparse.h */
    const struct gather_kernels *gather; /* see gather.h; NULL if gemm_q4 is */
    /* Speeds that were measured for this set (docs/sparse.md). A low-rank predictor is faster than
     * no predictor up to this fraction of computed neurons. Without a predictor a layer computes
     * all neurons, or with ReLU (_relu) uses the exact mode. exact_wins says whether the exact mode
     * is faster than computing all neurons. */
    float lowrank_most_share, lowrank_most_share_relu;
    /* Choosing by gates is not slower than no predictor up to this fraction, when a token is
     * generated by one or two threads. */
    float gate_most_share;
    float predicted_most_share; /* likewise, with a low-rank predictor before the gates, in models
                                   that are not small */
    bool exact_wins;
};

enum { SCALAR_PANEL = 4 }; /* all panels of kernels_scalar */
extern const struct kernels kernels_scalar, kernels_scalar_portable;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2, kernels_avx2_portable;
extern const struct kernels kernels_avx_vnni, kernels_avx_vnni_portable;
extern const struct kernels kernels_avx512, kernels_avx512_portable;
bool cpu_has_avx512_bf16(void);
#if defined(__linux__)
extern const struct kernels kernels_amx;
bool cpu_has_amx_bf16(void); /* of CPUs that run kernels_amx */
/* Asks the system to let this process use the tile registers, for as long as it runs. Returns false
 * if the system refuses. */
bool amx_permitted(void);
#endif
#elif defined(__aarch64__)
extern const struct kernels kernels_neon, kernels_neon_portable;
extern const struct kernels kernels_neon_i8mm, kernels_neon_i8mm_portable;
#elif defined(__wasm_relaxed_simd__)
extern const struct kernels kernels_relaxed_unsigned;
extern const struct kernels kernels_relaxed_signed;
extern const struct kernels kernels_relaxed_narrow;
extern const struct kernels kernels_relaxed_narrow_portable;
extern const struct kernels kernels_relaxed_narrow_signed;
#elif defined(__wasm_simd128__)
extern const struct kernels kernels_simd128, kernels_simd128_portable;
#endif

/* Returns the set at `index` among those that run on this CPU, fastest first, or NULL past the
 * last. */
const struct kernels *kernels_at(size_t index);

/* Returns the set with this name, or the fastest one if `name` is NULL. Returns NULL if the
 * name is unknown or the set does not run on this CPU. */
const struct kernels *kernels_find(const char *name);

/* Portable sets compute embeddings in int8 with the same bits on every machine and in every engine
 * of WebAssembly: quantise_narrow, gemm_narrow, layer_norm, gelu, relu, silu_mul, add and i16 have
 * the bits of kernels_scalar_portable in all of them. Other functions may be NULL, or have other
 * bits.
 *
 * Returns the portable set of kernels_find(name), or NULL if there is none. */
const struct kernels *kernels_find_portable(const char *name);

/* ---- packing -------------------------------------------------------------------------------- */

/* Packs w [n, ldw], of which k columns are read, into panels of `panel` rows: w[j, c] goes to
 * packed[(j / panel * k + c) * panel + j % panel]. Rows that are missing from the last panel are 0.
 * packed holds packed_f32_floats(n, k, panel) floats. */
void pack_f32(const float *w, size_t ldw, size_t n, size_t k, size_t panel, float *packed);

/* Packs like pack_f32, from the transpose wt [k, ldw], if w[j, c] = wt[c, j]. */
void pack_f32_transposed(const float *wt, size_t ldw, size_t n, size_t k, size_t panel,
                         float *packed);

/* Returns the number of floats that n packed rows of k weights take. */
size_t packed_f32_floats(size_t n, size_t k, size_t panel);

/* Packs like pack_f32, from n rows of k 16-bit numbers stored one after the other. packed holds
 * packed_f32_floats(n, k, panel) of them. */
void pack_halves(const void *rows, size_t n, size_t k, size_t panel, void *packed);

/* Quantises w [n, ldw], of which k columns are read, symmetrically, with one scale for each row and
 * block of INT8_BLOCK, and packs it into panels of `panel` rows. Each panel holds for each block:
 * panel floats (scales), panel floats (sums of the block's int8 values), then the values, groups of
 * 4 along k interleaved by row: [block / 4][panel][4]. */
void pack_int8(const float *w, size_t ldw, size_t n, size_t k, size_t panel, void *packed);

/* Returns the bytes that n rows of k weights take when pack_int8 packs them. */
size_t packed_int8_bytes(size_t n, size_t k, size_t panel);

/* Does what pack_int8 does, in blocks of NARROW_BLOCK, and with scales so large that weights of one
 * sign add up to at most NARROW_WEIGHTS in each group of four: values 0, 1, 4 and 5 and values 2,
 * 3, 6 and 7 of each 8. */
void pack_narrow(const float *w, size_t ldw, size_t n, size_t k, size_t panel, void *packed);

/* Returns the bytes that n rows of k weights take when pack_narrow packs them. */
size_t packed_narrow_bytes(size_t n, size_t k, size_t panel);

/* Packs n rows of k weights in Q4_0 blocks, stored one after the other, into panels of `panel`
 * rows. Scales and weights keep their values. Each panel holds for each INT8_BLOCK values: panel
 * floats (the sum of the weights), then for each part of Q4_BLOCK values: panel 16-bit floats
 * (scales) and [4][panel][4] bytes. Byte [g, j, i] holds weight 4 g + i of row j in its low nibble
 * and weight 16 + 4 g + i in its high one, as signed numbers of 4 bits. */
void pack_q4(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Returns the bytes that n rows of k weights take when pack_q4 packs them. */
size_t packed_q4_bytes(size_t n, size_t k, size_t panel);

/* Packs n rows of k weights in Q4_1 blocks as pack_q4 does. A weight d q + m of the file is held as
 * d (q - 8) + (8 d + m). The sum is that of d (q - 8), and each part has panel 16-bit floats d and
 * panel 16-bit floats m before its bytes. */
void pack_q4_1(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Returns the bytes that n rows of k weights take when pack_q4_1 packs them. */
size_t packed_q4_1_bytes(size_t n, size_t k, size_t panel);

/* Packs n rows of k weights in Q4_K blocks as pack_q4 does. A weight d scale q - dmin min is held
 * as d scale (q - 8) + (8 d scale - dmin min). After the panel sums are panel 16-bit floats d and
 * panel 16-bit floats dmin; each part has panel bytes `scale` and panel bytes `min`. */
void pack_q4_k(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Returns the bytes that n rows of k weights take when pack_q4_k packs them. */
size_t packed_q4_k_bytes(size_t n, size_t k, size_t panel);

/* Pack n rows of k weights in blocks of Q2_K, Q3_K, Q5_K or Q6_K, stored one after the other, into
 * panels of `panel` rows. Each panel holds for each INT8_BLOCK values: panel floats (the sum of the
 * weights: d scale (code - centre), k_layout.h), panel 16-bit floats d, of Q2_K and Q5_K also panel
 * 16-bit floats dmin, then for each part of 32 weights: [2][panel] bytes (of Q3_K and Q6_K the
 * scales of 16 weights + 128; of Q2_K the scales of 16 weights, and 16 times their minima; of Q5_K
 * the scale and the minimum), and the codes, in groups of 4 of which g is the one of weight 16 h +
 * 4 g + i, or Q5_K's low bits in the order of pack_q4. Of Q6_K these are [2][3][panel][4] bytes:
 * byte [h, g, j, i] has the code of that weight of row j for g < 3, and in its upper two bits the
 * bits 2 g and 2 g + 1 of the code of weight 16 h + 12 + i. Of Q5_K they are [4][panel][4] bytes
 * with nibbles; of Q2_K and Q3_K [2][panel][4] bytes: bits 2 g and 2 g + 1 of byte [h, j, i] are
 * the lowest two of the code. In Q3_K and Q5_K [panel][4] bytes follow, of which bit g + 4 h is the
 * highest of the code. */
void pack_q2_k(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_q3_k(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_q5_k(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_q6_k(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Return the bytes that n rows of k weights take when one of these packs them. */
size_t packed_q2_k_bytes(size_t n, size_t k, size_t panel);
size_t packed_q3_k_bytes(size_t n, size_t k, size_t panel);
size_t packed_q5_k_bytes(size_t n, size_t k, size_t panel);
size_t packed_q6_k_bytes(size_t n, size_t k, size_t panel);

/* Pack n rows of k weights in Q5_0 or Q5_1 blocks as pack_q5_k does. A weight d (code - 16) of Q5_0
 * is held as d code - 16 d, one of Q5_1 as d code + m. The sum is that of d code. No other floats
 * are before the parts; each part has panel 16-bit floats d and, of Q5_1, panel 16-bit floats m
 * instead of the bytes. The last block of a row may be shorter. */
void pack_q5_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_q5_1(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Return the bytes that n rows of k weights take when one of these packs them. */
size_t packed_q5_0_bytes(size_t n, size_t k, size_t panel);
size_t packed_q5_1_bytes(size_t n, size_t k, size_t panel);

/* Pack n rows of k weights in blocks of IQ4_NL, IQ4_XS or MXFP4, stored one after the other, into
 * panels of `panel` rows. Scales and weights keep their values: a weight is its scale times the
 * level of its code (quant/codecs.h; the levels of MXFP4 are doubled). Each panel holds for each
 * INT8_BLOCK values: panel floats (the sum of the weights), of IQ4_XS panel 16-bit floats d, then
 * for each part of Q4_BLOCK values the scales (of IQ4_NL panel 16-bit floats, of MXFP4 panel
 * bfloats, low bytes first, of IQ4_XS panel bytes, 32 more than the numbers by which d is
 * multiplied) and [4][panel][4] bytes with the codes of the weights that pack_q4 has there. */
void pack_iq4_nl(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_iq4_xs(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_mxfp4(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Return the bytes that n rows of k weights take when one of these packs them. */
size_t packed_iq4_nl_bytes(size_t n, size_t k, size_t panel);
size_t packed_iq4_xs_bytes(size_t n, size_t k, size_t panel);
size_t packed_mxfp4_bytes(size_t n, size_t k, size_t panel);

/* Pack n rows of k weights in blocks of K_BLOCK ternary weights, stored one after the other, into
 * panels of `panel` rows. Each panel holds for each K_BLOCK values: panel 16-bit floats (scales),
 * then for each INT8_BLOCK of them panel 16-bit floats (the sum of the codes -1, 0, 1 and 2, which
 * is exact) and [8][panel][4] bytes: bits 2 p and 2 p + 1 of byte [g, j, i] are 1 + the code of
 * weight 16 g + 4 p + i of row j. */
void pack_tq1_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_tq2_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_bitnet_t158(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Returns the bytes that n rows of k weights take when one of these packs them. */
size_t packed_ternary_bytes(size_t n, size_t k, size_t panel);

/* Pack n rows of k weights in Q2_0 blocks, or in Q1_0 or PQ2_0 blocks, stored one after the other,
 * as those of K_BLOCK weights, but with scales of TERNARY_LEAST weights, of which there also is a
 * sum, or of INT8_BLOCK. Weights d and -d of Q1_0 get the codes 1 and -1. */
void pack_q2_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_q1_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed);
void pack_pq2_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

/* Return the bytes that n rows of k weights take when pack_q2_0 packs them, or one of the others.
 */
size_t packed_q2_0_bytes(size_t n, size_t k, size_t panel);
size_t packed_pq2_0_bytes(size_t n, size_t k, size_t panel);

/* Packs n rows of k floats, stored one after the other, of which each row has the values 0 and d
 * and -d alone. Each panel holds panel floats (d), then for each INT8_BLOCK what a panel of ternary
 * weights holds for it. */
void pack_i2_s(const void *rows, size_t n, size_t k, size_t panel, void *packed);
size_t packed_i2_s_bytes(size_t n, size_t k, size_t panel);

/* Computes x.part_sums, of parts of `length` values, a multiple of 16, for m rows of k values, a
 * multiple of `length`. `is_signed` tells whether q is -128..127. */
void sum_parts(struct quantised_rows x, size_t m, size_t k, size_t length, bool is_signed);

#endif
