/* SPDX-License-Identifier: Apache-2.0
 * Weights as Q4_0 blocks, whose weights and scales have the values of the file. */
#include "weights/weight_kind.h"

static size_t panel(const struct kernels *kernels) {
    return kernels->q4_panel;
}

static size_t bytes(const struct kernels *kernels, size_t n, size_t k) {
    return packed_q4_bytes(n, k, kernels->q4_panel);
}

static void pack(const struct kernels *kernels, const void *rows, size_t n, size_t k,
                 void *packed) {
    pack_q4(rows, n, k, kernels->q4_panel, packed);
}

static void product(const struct kernels *kernels, const float *x, struct quantised_rows q,
                    const void *w, const float *bias, float *y, size_t ldy, size_t m, size_t n,
                    size_t k) {
    (void)x;
    kernels->gemm_q4(q, w, bias, y, ldy, m, n, k);
}

const struct weight_kind weights_q4_0 = {
    .name = "q4_0",
    .quantised = true,
    .rows = BLOCK_Q4_0,
    .panel = panel,
    .bytes = bytes,
    .pack = pack,
    .product = product,
};
