/* SPDX-License-Identifier: Apache-2.0
 * Kinds of weights of a dense layer. Each defines how a tensor's rows are packed and which kernel
 * multiplies them. To add a kind, add a file that defines a struct weight_kind, and a line in
 * weight_kind.c. */
#ifndef WISP_WEIGHTS_WEIGHT_KIND_H
#define WISP_WEIGHTS_WEIGHT_KIND_H

#include "kernels/kernels.h"
#include "quant/blocks.h"

struct weight_kind {
    const char *name;
    bool quantised; /* the product takes activations from kernels->quantise rather than floats */
    bool narrow;    /* they are from kernels->quantise_narrow */
    size_t sums;    /* it also takes their part_sums, of this many values; 0: it does not */
    /* The type of the rows that `pack` takes. All tensors of the layer must have this type. Where
     * it is BLOCK_F32 they may have any, and are expanded to floats first. Rows of I2_S are floats
     * (formats/bitnet.h). */
    enum block_type rows;

    /* Returns the number of outputs whose weights are interleaved in one panel, or 0 where the set
     * has no product for this kind. */
    size_t (*panel)(const struct kernels *kernels);

    /* Returns the bytes of n packed rows of k weights. */
    size_t (*bytes)(const struct kernels *kernels, size_t n, size_t k);

    /* Packs n rows of k weights, stored one after the other, to `bytes` bytes. */
    void (*pack)(const struct kernels *kernels, const void *rows, size_t n, size_t k, void *packed);

    /* Computes y [m, ldy], of which n columns are written, = x w^T + bias. Activations [m, k] are
     * in q where the kind is `quantised`, and else in x; w is packed from [n, k]; bias [n]. */
    void (*product)(const struct kernels *kernels, const float *x, struct quantised_rows q,
                    const void *w, const float *bias, float *y, size_t ldy, size_t m, size_t n,
                    size_t k);
};

/* Returns the kind for a layer whose `count` tensors have these types, and whose activations are
 * quantised or not. There always is one. */
const struct weight_kind *weight_kind_for(const struct kernels *kernels,
                                          const struct block_format *const *types, size_t count,
                                          bool quantised);

extern const struct weight_kind weights_f32, weights_f16, weights_bf16, weights_int8,
    weights_narrow, weights_q4_0, weights_q4_1, weights_q2_k, weights_q3_k, weights_q4_k,
    weights_q5_k, weights_q6_k, weights_tq1_0, weights_tq2_0, weights_bitnet_t158, weights_i2_s,
    weights_q5_0, weights_q5_1, weights_q1_0, weights_q2_0, weights_pq2_0, weights_iq4_nl,
    weights_iq4_xs, weights_mxfp4;

#endif
