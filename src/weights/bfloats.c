/* SPDX-License-Identifier: Apache-2.0
 * Weights as bfloats that are multiplied with activations rounded to bfloats. Tensors of any type
 * are rounded to them. */
#include "weights/weight_kind.h"

static size_t panel(const struct kernels *kernels) {
    return kernels->bf16 && kernels->bf16->runs() ? BF16_PANEL : 0;
}

static size_t bytes(const struct kernels *kernels, size_t n, size_t k) {
    (void)kernels;
    return packed_bf16_bytes(n, k);
}

static void pack(const struct kernels *kernels, const void *rows, size_t n, size_t k,
                 void *packed) {
    (void)kernels;
    pack_bf16(rows, n, k, packed);
}

static void apply(const struct weight_kind *kind, const struct weight_product *p,
                  struct workspace space) {
    const struct bf16_kernels *bf16 = p->kernels->bf16;
    const uint16_t *weights = p->weights;
    uint16_t *x = workspace_take(&space, p->m, bf16_row(p->k), sizeof *x);
    (void)kind;
    bf16->round(p->x, p->m, p->k, x);
    bf16->gemm(x, weights + p->first * bf16_row(p->k), p->bias + p->first, p->y + p->first, p->ldy,
               p->m, p->n, p->k);
}

const struct weight_kind weights_bfloats = {
    .name = "bfloats",
    .compute = WISP_COMPUTE_BF16,
    .rows = BLOCK_F32,
    .load = host_weights_load,
    .release = host_weights_release,
    .apply = apply,
    .panel = panel,
    .bytes = bytes,
    .pack = pack,
};
