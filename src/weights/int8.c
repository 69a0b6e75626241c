/* SPDX-License-Identifier: Apache-2.0
 * Weights as bytes, with one scale for each row and block of INT8_BLOCK weights. Tensors of any
 * type are rounded to them. */
#include "weights/weight_kind.h"

static size_t panel(const struct kernels *kernels) {
    return kernels->int8_panel;
}

static size_t bytes(const struct kernels *kernels, size_t n, size_t k) {
    return packed_int8_bytes(n, k, kernels->int8_panel);
}

static void pack(const struct kernels *kernels, const void *rows, size_t n, size_t k,
                 void *packed) {
    pack_int8(rows, k, n, k, kernels->int8_panel, packed);
}

static void product(const struct kernels *kernels, const float *x, struct quantised_rows q,
                    const void *w, const float *bias, float *y, size_t ldy, size_t m, size_t n,
                    size_t k) {
    (void)x;
    kernels->gemm_int8(q, w, bias, y, ldy, m, n, k);
}

const struct weight_kind weights_int8 = {
    HOST_WEIGHTS,   .name = "int8", .compute = WISP_COMPUTE_INT8, .rows = BLOCK_F32, .panel = panel,
    .bytes = bytes, .pack = pack,   .product = product,
};
