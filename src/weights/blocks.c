/* SPDX-License-Identifier: Apache-2.0
 * Weights of 4 and 6 bits and ternary ones, as blocks of the file: weights, scales and minima have
 * the values of the file. */
#include "weights/weight_kind.h"

/* Defines the kind weights_NAME of tensors of a type, over pack_PACKED and gemm_PRODUCT. */
#define WEIGHTS_OF(NAME, PACKED, PRODUCT, TYPE, SUMS_PARTS)                                        \
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
    const struct weight_kind weights_##NAME = {.name = #NAME,                                      \
                                               .quantised = true,                                  \
                                               .sums_parts = (SUMS_PARTS),                         \
                                               .rows = (TYPE),                                     \
                                               .panel = NAME##_panel,                              \
                                               .bytes = NAME##_bytes,                              \
                                               .pack = NAME##_pack,                                \
                                               .product = NAME##_product};

WEIGHTS_OF(q4_0, q4, q4, BLOCK_Q4_0, false)
#ifndef __wasm__ /* where these products are slower than int8: kernels.h */
WEIGHTS_OF(q4_1, q4_1, q4_1, BLOCK_Q4_1, true)
WEIGHTS_OF(q4_k, q4_k, q4_k, BLOCK_Q4_K, true)
WEIGHTS_OF(q6_k, q6_k, q6_k, BLOCK_Q6_K, false)
#endif
#ifdef DECODER_KERNELS /* models that embed are small: int8 is faster */
WEIGHTS_OF(tq1_0, tq1_0, ternary, BLOCK_TQ1_0, false)
WEIGHTS_OF(tq2_0, tq2_0, ternary, BLOCK_TQ2_0, false)
WEIGHTS_OF(bitnet_t158, bitnet_t158, ternary, BLOCK_T158, false)
#endif
