/* SPDX-License-Identifier: Apache-2.0
 * Weights of 1 to 6 bits, as blocks of the file: weights, scales and minima have the values of the
 * file. */
#include "weights/weight_kind.h"

/* Defines the kind weights_NAME of tensors of a type, over pack_PACKED and gemm_PRODUCT. */
#define WEIGHTS_OF(NAME, PACKED, PRODUCT, TYPE, SUMS)                                              \
    static size_t NAME##_panel(const struct kernels *kernels) {                                    \
        return kernels->gemm_##PRODUCT ? kernels->q4_panel : 0;                                    \
    }                                                                                              \
    static size_t NAME##_bytes(const struct kernels *kernels, size_t n, size_t k) {                \
        return packed_##PRODUCT##_bytes(n, k, kernels->q4_panel);                                  \
    }                                                                                              \
    static void NAME##_pack(const struct kernels *kernels, const void *rows, size_t n, size_t k,   \
                            void *packed) {                                                        \
        pack_##PACKED(rows, n, k, kernels->q4_panel, packed);                                      \
    }                                                                                              \
    static void NAME##_product(const struct kernels *kernels, const float *x,                      \
                               struct quantised_rows q, const void *w, const float *bias,          \
                               float *y, size_t ldy, size_t m, size_t n, size_t k) {               \
        (void)x;                                                                                   \
        kernels->gemm_##PRODUCT(q, w, bias, y, ldy, m, n, k);                                      \
    }                                                                                              \
    const struct weight_kind weights_##NAME = {                                                    \
        HOST_WEIGHTS,          .name = #NAME,       .compute = WISP_COMPUTE_INT8,                  \
        .sums = (SUMS),        .rows = (TYPE),      .panel = NAME##_panel,                         \
        .bytes = NAME##_bytes, .pack = NAME##_pack, .product = NAME##_product};

WEIGHTS_OF(q4_0, q4, q4, BLOCK_Q4_0, 0)
WEIGHTS_OF(q4_1, q4_1, q4_1, BLOCK_Q4_1, Q4_BLOCK)
WEIGHTS_OF(q4_k, q4_k, q4_k, BLOCK_Q4_K, Q4_BLOCK)
WEIGHTS_OF(q2_k, q2_k, q2_k, BLOCK_Q2_K, Q4_BLOCK / 2)
WEIGHTS_OF(q3_k, q3_k, q3_k, BLOCK_Q3_K, 0)
WEIGHTS_OF(q5_k, q5_k, q5_k, BLOCK_Q5_K, Q4_BLOCK)
WEIGHTS_OF(q6_k, q6_k, q6_k, BLOCK_Q6_K, 0)
WEIGHTS_OF(q5_0, q5_0, q5_0, BLOCK_Q5_0, Q4_BLOCK)
WEIGHTS_OF(q5_1, q5_1, q5_1, BLOCK_Q5_1, Q4_BLOCK)
WEIGHTS_OF(iq4_nl, iq4_nl, iq4_nl, BLOCK_IQ4_NL, 0)
WEIGHTS_OF(iq4_xs, iq4_xs, iq4_xs, BLOCK_IQ4_XS, 0)
WEIGHTS_OF(mxfp4, mxfp4, mxfp4, BLOCK_MXFP4, 0)
WEIGHTS_OF(tq1_0, tq1_0, ternary, BLOCK_TQ1_0, INT8_BLOCK)
WEIGHTS_OF(tq2_0, tq2_0, ternary, BLOCK_TQ2_0, INT8_BLOCK)
WEIGHTS_OF(bitnet_t158, bitnet_t158, ternary, BLOCK_T158, INT8_BLOCK)
WEIGHTS_OF(q1_0, q1_0, pq2_0, BLOCK_Q1_0, INT8_BLOCK)
WEIGHTS_OF(pq2_0, pq2_0, pq2_0, BLOCK_PQ2_0, INT8_BLOCK)
WEIGHTS_OF(q2_0, q2_0, q2_0, BLOCK_Q2_0, TERNARY_LEAST)
WEIGHTS_OF(i2_s, i2_s, i2_s, BLOCK_I2_S, INT8_BLOCK)
