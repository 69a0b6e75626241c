/* SPDX-License-Identifier: Apache-2.0
 * Kinds of weights of a dense layer. A kind owns the memory of its weights: it loads them from rows
 * of the file, multiplies activations with them and releases them. To add a kind, add a file that
 * defines a struct weight_kind, its declaration here, and a row in src/products/lists.h.
 *
 * Kinds in the memory of the program share host.c, and each defines how rows are packed and which
 * kernel multiplies them. Activations and results always are in the memory of the program, so that
 * a kind on a device copies them at its edge. */
#ifndef WISP_WEIGHTS_WEIGHT_KIND_H
#define WISP_WEIGHTS_WEIGHT_KIND_H

#include "base/status.h"
#include "base/workspace.h"
#include "kernels/kernels.h"
#include "quant/blocks.h"

/* The rows of weights in a file. */
struct weight_rows {
    /* Sets *data to rows [first, first + n), stored one after the other as kind->rows says, until
     * the next call. */
    wisp_status (*read)(struct weight_rows *rows, size_t first, size_t n, const void **data,
                        wisp_error *error);
    size_t at_once; /* a call asks for at most so many: whole panels */
};

/* A product y [m, ldy], of which columns [first, first + n) are written, = x [m, k] w^T + bias. */
struct weight_product {
    const struct kernels *kernels;
    const void *weights; /* what `load` made */
    const float *bias;   /* of all outputs */
    const float *x;
    float *y;
    size_t m, k, ldy;
    size_t first, n; /* `first` is a multiple of the kind's panel */
};

struct weight_kind {
    const char *name;
    wisp_compute compute; /* F32, INT8 or BF16: as what the product takes activations */

    /* Makes *weights of n rows of k weights, and sets *bytes to the memory that they take. The
     * caller releases them, also after an error. */
    wisp_status (*load)(const struct weight_kind *kind, const struct kernels *kernels, size_t n,
                        size_t k, struct weight_rows *rows, void **weights, size_t *bytes,
                        wisp_error *error);

    /* Frees weights, which may be NULL. */
    void (*release)(void *weights);

    /* Computes a product. The workspace has weight_workspace_bytes(m, k) left. */
    void (*apply)(const struct weight_kind *kind, const struct weight_product *product,
                  struct workspace space);

    /* The other fields but `rows` and `panel` are those of kinds in the program's memory. Int8
     * activations are from kernels->quantise. */
    bool narrow; /* they are from kernels->quantise_narrow */
    size_t sums; /* it also takes their part_sums, of this many values; 0: it does not */
    /* The type of the rows that `pack` takes. All tensors of the layer must have this type. If
     * it is BLOCK_F32 they may have any, and are expanded to floats first. Rows of I2_S are floats
     * (formats/bitnet.h). */
    enum block_type rows;

    /* Returns the number of outputs whose weights are interleaved in one panel, or 0 if the set
     * has no product for this kind. */
    size_t (*panel)(const struct kernels *kernels);

    /* Returns the bytes of n packed rows of k weights. */
    size_t (*bytes)(const struct kernels *kernels, size_t n, size_t k);

    /* Packs n rows of k weights, stored one after the other, to `bytes` bytes. */
    void (*pack)(const struct kernels *kernels, const void *rows, size_t n, size_t k, void *packed);

    /* Computes y [m, ldy], of which n columns are written, = x w^T + bias. Activations [m, k] are
     * in q if they are int8, and else in x; w is packed from [n, k]; bias [n]. */
    void (*product)(const struct kernels *kernels, const float *x, struct quantised_rows q,
                    const void *w, const float *bias, float *y, size_t ldy, size_t m, size_t n,
                    size_t k);
};

/* The functions above of kinds in the program's memory. host.c */
wisp_status host_weights_load(const struct weight_kind *kind, const struct kernels *kernels,
                              size_t n, size_t k, struct weight_rows *rows, void **weights,
                              size_t *bytes, wisp_error *error);
void host_weights_release(void *weights);
void host_weights_apply(const struct weight_kind *kind, const struct weight_product *product,
                        struct workspace space);

#define HOST_WEIGHTS                                                                               \
    .load = host_weights_load, .release = host_weights_release, .apply = host_weights_apply

/* Returns the bytes of working memory for m rows of k inputs, with any kind; SIZE_MAX if they
 * cannot be addressed. */
size_t weight_workspace_bytes(size_t m, size_t k);

/* The kinds that this product has (src/products); NULL ends them. weight_kind_for takes the first
 * that fits: kinds that keep the numbers of the file come before those that convert tensors of any
 * type. Of these, narrow weights are for sets that have no product of int8 ones. */
extern const struct weight_kind *const weight_kinds[];

/* Returns the kind for a layer whose `count` tensors have these types, and whose activations are
 * what `compute` says. There always is one, for BF16 if the set has a product of it. */
const struct weight_kind *weight_kind_for(const struct kernels *kernels,
                                          const struct block_format *const *types, size_t count,
                                          wisp_compute compute);

extern const struct weight_kind weights_bfloats, weights_f32, weights_f16, weights_bf16,
    weights_int8, weights_narrow, weights_q4_0, weights_q4_1, weights_q2_k, weights_q3_k,
    weights_q4_k, weights_q5_k, weights_q6_k, weights_tq1_0, weights_tq2_0, weights_bitnet_t158,
    weights_i2_s, weights_q5_0, weights_q5_1, weights_q1_0, weights_q2_0, weights_pq2_0,
    weights_iq4_nl, weights_iq4_xs, weights_mxfp4;

#endif
