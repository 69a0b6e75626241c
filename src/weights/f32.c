/* SPDX-License-Identifier: Apache-2.0
 * Weights as floats. */
#include "weights/weight_kind.h"

static size_t panel(const struct kernels *kernels) {
    return kernels->f32_panel;
}

static size_t bytes(const struct kernels *kernels, size_t n, size_t k) {
    return packed_f32_floats(n, k, kernels->f32_panel) * sizeof(float);
}

static void pack(const struct kernels *kernels, const void *rows, size_t n, size_t k,
                 void *packed) {
    pack_f32(rows, k, n, k, kernels->f32_panel, packed);
}

static void product(const struct kernels *kernels, const float *x, struct quantised_rows q,
                    const void *w, const float *bias, float *y, size_t ldy, size_t m, size_t n,
                    size_t k) {
    (void)q;
    kernels->gemm_f32(x, k, w, bias, y, ldy, m, n, k);
}

const struct weight_kind weights_f32 = {
    HOST_WEIGHTS,   .name = "f32", .compute = WISP_COMPUTE_F32, .rows = BLOCK_F32, .panel = panel,
    .bytes = bytes, .pack = pack,  .product = product,
};
