/* SPDX-License-Identifier: Apache-2.0
 * Weights as 16-bit floats of either type, f16 and bf16, as the file stores them. The product
 * expands them to floats, exactly, and multiplies in the order of gemm_f32: its results have the
 * bits of weights_f32. */
#include "weights/weight_kind.h"

static size_t f16_panel(const struct kernels *kernels) {
    return kernels->gemm_f16 ? kernels->f32_panel : 0;
}

static size_t bf16_panel(const struct kernels *kernels) {
    return kernels->gemm_bf16 ? kernels->f32_panel : 0;
}

static size_t bytes(const struct kernels *kernels, size_t n, size_t k) {
    return packed_f32_floats(n, k, kernels->f32_panel) * sizeof(uint16_t);
}

static void pack(const struct kernels *kernels, const void *rows, size_t n, size_t k,
                 void *packed) {
    pack_halves(rows, n, k, kernels->f32_panel, packed);
}

static void f16_product(const struct kernels *kernels, const float *x, struct quantised_rows q,
                        const void *w, const float *bias, float *y, size_t ldy, size_t m, size_t n,
                        size_t k) {
    (void)q;
    kernels->gemm_f16(x, k, w, bias, y, ldy, m, n, k);
}

static void bf16_product(const struct kernels *kernels, const float *x, struct quantised_rows q,
                         const void *w, const float *bias, float *y, size_t ldy, size_t m, size_t n,
                         size_t k) {
    (void)q;
    kernels->gemm_bf16(x, k, w, bias, y, ldy, m, n, k);
}

const struct weight_kind weights_f16 = {
    HOST_WEIGHTS,      .name = "f16",          .compute = WISP_COMPUTE_F32,
    .rows = BLOCK_F16, .panel = f16_panel,     .bytes = bytes,
    .pack = pack,      .product = f16_product,
};

const struct weight_kind weights_bf16 = {
    HOST_WEIGHTS,       .name = "bf16",          .compute = WISP_COMPUTE_F32,
    .rows = BLOCK_BF16, .panel = bf16_panel,     .bytes = bytes,
    .pack = pack,       .product = bf16_product,
};
