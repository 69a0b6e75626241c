/* SPDX-License-Identifier: Apache-2.0
 * The feed-forward layer that computes only the quads of neurons that matter to a token.
 *
 *   y = base + sum over the computed neurons of (activation(w_up x + b) - center) w_down
 *
 * where base = b_down + W_down center stands for what is skipped (center is 0 but with GELU, and
 * there where all are computed), and where the layer is gated, the activation is silu(w_gate x) *
 * (w_up x). Which quads are computed is said by a low-rank predictor, Q (P x + p) + q against a
 * threshold for each quad; a layer loaded as exact computes all, as dense layers do, and leaves
 * those whose contribution rounds to nothing out of the second half. A token's result depends on
 * nothing but the token: its first half may be the dense product's, all other sums are exact
 * integers. Sources: the predictor's shape from Liu et al., Deja Vu (2023); docs/sparse.md has the
 * rest. */
#ifndef WISP_SPARSE_FFN_H
#define WISP_SPARSE_FFN_H

#include "formats/directory.h"
#include "kernels/kernels.h"
#include "kernels/sparse.h"
#include "layers/linear.h"

/* Rows that all see the same input: packed in fours where tokens choose among them, or for the
 * dense product, which gives the same sums faster, where each token takes them all. */
struct quad_rows {
    size_t quads, k;
    int8_t *rows;                       /* or NULL */
    void *panels;                       /* or NULL */
    struct quad_parameters *parameters; /* [quads] */
};

/* What a layer is like besides its weights. */
struct sparse_shape {
    size_t hidden, wide;
    enum activation activation;
    bool unbiased;
};

struct sparse_ffn {
    const struct kernels *kernels;
    enum activation activation;
    size_t hidden, wide, quads;
    struct linear all; /* W_up in the quads' order, then W_gate; empty where a predictor chooses */
    struct quad_columns columns; /* of W_down, its rows divided by their scales */
    float *row_scales;           /* [hidden] */
    float *base;                 /* [hidden] */
    /* The predictor; rank is 0, and all of this empty, where there is none. */
    size_t rank;
    struct quad_rows up, gate;
    float *by; /* [hidden]: what x is multiplied by before it is quantised */
    struct quad_rows p, q;
    struct quad_rows compensation; /* B and b; without rows where there is none */
    size_t levels;
    float *thresholds; /* [levels, quads], for shares of computed quads that rise */
    size_t bytes;      /* held by all of it */
};

/* What is the same for all layers of a calibrated model. */
struct sparse_plan {
    const int32_t
        *order; /* [layers, wide]: neuron j of quad i is order[4 i + j]; NULL: as stored */
    size_t levels;
    float shares[32]; /* [levels]: of quads computed, rising */
    float share;      /* unless told otherwise */
    bool exact;       /* all quads are computed: no predictor is wanted */
};

/* Reads the plan of a calibrated model; *plan is zeroed where the model is not calibrated. The
 * order is checked to be one and lives as long as the directory. */
wisp_status sparse_read_plan(struct directory *dir, size_t layers, size_t wide,
                             struct sparse_plan *plan, wisp_error *error);

/* Whether layers of these sizes can be sparse: their sums have to fit in 32 bits. */
bool sparse_ffn_fits(size_t hidden, size_t wide);

/* Packs layer `index`, with its predictor unless the plan is exact or has no levels. */
wisp_status sparse_ffn_load(struct sparse_ffn *ffn, const struct directory *dir,
                            const struct sparse_plan *plan, size_t index,
                            const struct sparse_shape *shape, const struct kernels *kernels,
                            wisp_error *error);

void sparse_ffn_release(struct sparse_ffn *ffn);

/* The thresholds [quads] at which about `share` of the quads are computed, averaged over layers and
 * calibration texts; between the levels in the file by proportion. */
void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds);

/* Where a layer has a compensation, scale (B (P x + p) + b) is added to y: what is lost by skipping
 * as far as that can be told from the predictor's hidden values. */
static inline float sparse_ffn_scale(size_t computed, size_t quads) {
    const float skipped = (float)(quads - computed) / (float)quads;
    return skipped * skipped;
}

struct sparse_counts {
    uint64_t tokens;
    uint64_t computed;     /* quads whose activations were */
    uint64_t contributing; /* quads of those that were not 0 */
    double seconds;
    struct recall *recall; /* to be counted too, at the price of a dense first half; or NULL */
};

/* x [tokens, hidden] to y [tokens, hidden]. `thresholds` [quads]; NULL where the layer has no
 * predictor. */
void sparse_ffn_apply(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                      size_t tokens, float *y, void *scratch, struct sparse_counts *counts);

size_t sparse_ffn_scratch_bytes(size_t hidden, size_t wide, size_t rank,
                                enum activation activation);

#endif
