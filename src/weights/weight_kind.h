/* SPDX-License-Identifier: Apache-2.0
 * Kinds of weights that a dense layer multiplies by: how they are packed and who multiplies them. A
 * new one is a file that defines a struct weight_kind, and a line in weight_kind.c. */
#ifndef WISP_WEIGHTS_WEIGHT_KIND_H
#define WISP_WEIGHTS_WEIGHT_KIND_H

#include "kernels/kernels.h"
#include "quant/blocks.h"

struct weight_kind {
    const char *name;
    bool quantised; /* the product takes activations that kernels->quantise made; else floats */
    /* Rows are packed as a tensor of this type stores them, and of this type all tensors of a layer
     * have to be; BLOCK_F32: tensors of any type are expanded to floats first. */
    enum block_type rows;

    /* Outputs whose weights lie in one panel; 0 where the set has no such product. */
    size_t (*panel)(const struct kernels *kernels);

    /* Bytes of n packed rows of k weights. */
    size_t (*bytes)(const struct kernels *kernels, size_t n, size_t k);

    /* n rows of k weights, one after the other. */
    void (*pack)(const struct kernels *kernels, const void *rows, size_t n, size_t k, void *packed);

    /* x [m, k], as floats or in q, by the packed w [n, k], with bias [n], to y [m, n]. */
    void (*product)(const struct kernels *kernels, const float *x, struct quantised_rows q,
                    const void *w, const float *bias, float *y, size_t m, size_t n, size_t k);
};

/* For a layer whose `count` tensors are of these types, and whose activations are quantised or not.
 * There is always one. */
const struct weight_kind *weight_kind_for(const struct kernels *kernels,
                                          const struct block_format *const *types, size_t count,
                                          bool quantised);

extern const struct weight_kind weights_f32, weights_f16, weights_bf16, weights_int8, weights_q4_0;

#endif
