/* SPDX-License-Identifier: Apache-2.0
 * One table of function pointers per instruction set. Nothing above this folder knows which set it
 * runs on.
 *
 * Every output element is computed by a fixed sequence of operations that depends on its own
 * inputs and the lengths k and n alone, never on which other rows are in the call: so results have
 * the same bits however texts are batched or shared among threads. */
#ifndef WISP_KERNELS_KERNELS_H
#define WISP_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/i16.h"

/* int8 weights and activations share one scale among this many values along k (the last block of
 * a row may be shorter). Shorter blocks are more exact, longer ones cost less: docs/decisions.md.
 */
enum { INT8_BLOCK = 128 };

static inline size_t int8_blocks(size_t k) {
    return (k + INT8_BLOCK - 1) / INT8_BLOCK;
}

/* A row of quantised values holds a multiple of 4, the group of one dot instruction. */
static inline size_t int8_row_bytes(size_t k) {
    return (k + 3) & ~(size_t)3;
}

/* Weights of 4 bits share one scale among this many values along k, as Q4_0 has them, which take
 * so many bytes: the scale as a 16-bit float, and the nibbles. */
enum { Q4_BLOCK = 32, Q4_BLOCK_BYTES = 18 };

/* What 255 steps have to span. 255 divided by anything less is no float: it counts as nothing. */
static inline float quantised_range(float low, float high) {
    const float range = high - low;
    return range < 0x1p-120f ? 0 : range;
}

/* m rows of k values: x = scale * (q - zero) with scale and zero per row and block. */
struct quantised_rows {
    uint8_t *q;   /* [m, int8_row_bytes(k)]; int8_t where the set has signed_activations */
    float *scale; /* [m, int8_blocks(k)] */
    float *zero;  /* [m, int8_blocks(k)], whole numbers */
};

struct kernels {
    const char *name;
    size_t f32_panel; /* outputs whose f32 weights are interleaved in one panel */
    size_t int8_panel;
    size_t q4_panel;        /* 0 where gemm_q4 is NULL */
    int signed_activations; /* q runs over -128..127 rather than 0..255 */

    /* As the functions below, for panels of f32_panel. */
    void (*pack_f32)(const float *w, size_t ldw, size_t n, size_t k, float *packed);
    void (*pack_f32_transposed)(const float *wt, size_t ldw, size_t n, size_t k, float *packed);

    /* y[i, j] = bias[j] + sum over c of x[i, c] w[j, c], for i < m, j < n, c < k, in order of c.
     * x [m, ldx]; w packed by pack_f32 with f32_panel; bias [n] or NULL; y [m, ldy], of which n
     * columns are written. No alignment is asked for; y may not overlap the inputs. */
    void (*gemm_f32)(const float *x, size_t ldx, const float *w, const float *bias, float *y,
                     size_t ldy, size_t m, size_t n, size_t k);

    /* As gemm_f32, to the bit, for w of 16-bit floats or bfloats packed by pack_halves with
     * f32_panel. NULL where expanding weights costs more than they save. */
    void (*gemm_f16)(const float *x, size_t ldx, const void *w, const float *bias, float *y,
                     size_t ldy, size_t m, size_t n, size_t k);
    void (*gemm_bf16)(const float *x, size_t ldx, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k);

    /* x [m, k] into q: per row and block, zero and scale span the least and the largest value and
     * 0; q = round(x / scale) + zero, ties to even. Bytes past k are `zero`. Where the span is
     * below 2^-120 scale, zero and q are 0. */
    void (*quantise)(const float *x, size_t m, size_t k, struct quantised_rows out);

    /* As gemm_f32, for quantised x and w packed by pack_int8 with int8_panel:
     * y[i, j] = bias[j] + sum over blocks b of xs[i, b] ws[j, b] (sum of (q - zero) w), the inner
     * sums exact in 32-bit integers. bias [n]; y [m, ldy]. */
    void (*gemm_int8)(struct quantised_rows x, const void *w, const float *bias, float *y,
                      size_t ldy, size_t m, size_t n, size_t k);

    /* As gemm_int8, for w packed by pack_q4 with q4_panel; k is a multiple of Q4_BLOCK:
     * y[i, j] = bias[j] + sum over blocks b of xs[i, b] (sum over parts p of ws[j, p] (sum of q w)
     * - zero[i, b] (sum of ws w)), where a part is a block of w, and the innermost sums are exact.
     * NULL in the sets of WebAssembly, where int8 is faster: docs/decisions.md, 19. */
    void (*gemm_q4)(struct quantised_rows x, const void *w, const float *bias, float *y, size_t ldy,
                    size_t m, size_t n, size_t k);

    /* x[i] = layer_norm(x[i] + residual[i]) * weight + bias over n values, in place.
     * x and residual [m, n]. */
    void (*layer_norm)(float *x, const float *residual, const float *weight, const float *bias,
                       float epsilon, size_t m, size_t n);

    /* x (1 + erf(x / sqrt 2)) / 2, within 1e-6 of the exact value; in place on n values. */
    void (*gelu)(float *x, size_t n);

    void (*relu)(float *x, size_t n);

    /* gate = gate / (1 + e^-gate) * up over n values, within 1e-6 |gate up| of the exact value. */
    void (*silu_mul)(float *gate, const float *up, size_t n);

    /* Each of m rows of x [m, ld]: softmax(scale * x) over its first n values, in place. */
    void (*softmax)(float *x, size_t ld, size_t m, size_t n, float scale);

    /* y += x over n values. */
    void (*add)(float *y, const float *x, size_t n);

    /* The sum of a[i] b[i]. */
    float (*dot)(const float *a, const float *b, size_t n);

    const struct i16_kernels *i16;       /* i16.h; NULL where f32 products are as fast */
    const struct sparse_kernels *sparse; /* sparse.h */
    /* Of neurons computed, up to which choosing them is faster than what is done without a
     * predictor: all of them or, with ReLU, exact; and whether exact is faster than all of them.
     * Measured: docs/sparse.md. */
    float lowrank_most_share, lowrank_most_share_relu;
    bool exact_wins;
};

enum { SCALAR_PANEL = 4 }; /* both of its panels */
extern const struct kernels kernels_scalar;
#if defined(__x86_64__)
extern const struct kernels kernels_avx2;
extern const struct kernels kernels_avx_vnni;
extern const struct kernels kernels_avx512;
#if defined(__linux__)
extern const struct kernels kernels_amx;
/* Asks the system to let this process use the tiles, which it grants for good; false where it does
 * not. */
bool amx_permitted(void);
#endif
#elif defined(__aarch64__)
extern const struct kernels kernels_neon;
extern const struct kernels kernels_neon_i8mm;
#elif defined(__wasm_relaxed_simd__)
extern const struct kernels kernels_relaxed_unsigned;
extern const struct kernels kernels_relaxed_signed;
extern const struct kernels kernels_relaxed_wide;
extern const struct kernels kernels_simd128;
#elif defined(__wasm_simd128__)
extern const struct kernels kernels_simd128;
#endif

/* The sets that run on this CPU, fastest first; NULL past the last. */
const struct kernels *kernels_at(size_t index);

/* By name, or the fastest for NULL; NULL where the name is unknown or does not run here. */
const struct kernels *kernels_find(const char *name);

/* ---- packing -------------------------------------------------------------------------------- */

/* Panels of `panel` rows: w[j, c] goes to packed[(j / panel * k + c) * panel + j % panel]; rows
 * that are missing from the last panel are 0. packed holds packed_f32_floats(n, k, panel). */
void pack_f32(const float *w, size_t ldw, size_t n, size_t k, size_t panel, float *packed);

/* The same from the transpose: wt [k, ldw], w[j, c] = wt[c, j]. */
void pack_f32_transposed(const float *wt, size_t ldw, size_t n, size_t k, size_t panel,
                         float *packed);

size_t packed_f32_floats(size_t n, size_t k, size_t panel);

/* As pack_f32, for rows of 16-bit numbers, n of k one after the other. packed holds
 * packed_f32_floats(n, k, panel) of them. */
void pack_halves(const void *rows, size_t n, size_t k, size_t panel, void *packed);

/* Panels of `panel` rows quantised symmetrically per row and block of INT8_BLOCK. Each panel holds
 * for each block: panel floats (scales), panel floats (sums of the block's int8 values), then the
 * values, groups of 4 along k interleaved by row: [block / 4][panel][4]. */
void pack_int8(const float *w, size_t ldw, size_t n, size_t k, size_t panel, void *packed);

size_t packed_int8_bytes(size_t n, size_t k, size_t panel);

/* Panels of `panel` rows of Q4_0 blocks, n rows of k values one after the other, whose bits are
 * kept. Each panel holds for each INT8_BLOCK values: panel floats (the sum of the weights), then
 * for each part of Q4_BLOCK values: panel 16-bit floats (scales) and [4][panel][4] bytes, of which
 * byte [g, j, i] holds weight 4 g + i of row j in its low nibble and weight 16 + 4 g + i in its
 * high one, as signed numbers of 4 bits. */
void pack_q4(const void *blocks, size_t n, size_t k, size_t panel, void *packed);

size_t packed_q4_bytes(size_t n, size_t k, size_t panel);

#endif
