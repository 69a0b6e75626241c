/* SPDX-License-Identifier: Apache-2.0
 * The feed-forward layer that computes only the neurons that matter to a token.
 *
 *   y = base + sum over the computed neurons of (activation(w_up x + b) - center) w_down
 *
 * where base = b_down + W_down center stands for what is skipped (center is 0 but with GELU, and
 * there where all are computed), and where the layer is gated, the activation is silu(w_gate x) *
 * (w_up x). Which neurons are computed is said by a low-rank predictor, Q (P x + p) + q against a
 * threshold for each neuron, x being the token's or the mean over its whole text; a layer loaded as
 * exact computes all, as dense layers do, and leaves those whose contribution rounds to nothing out
 * of the second half. A token's result depends on nothing but the token and which neurons are
 * computed for it: P, Q and the first half of exact are dense layers, all other sums are
 * exact integers. Sources: the predictor's shape from Liu et al., Deja Vu (2023); docs/sparse.md
 * has the rest. */
#ifndef WISP_SPARSE_FFN_H
#define WISP_SPARSE_FFN_H

#include "formats/directory.h"
#include "kernels/kernels.h"
#include "kernels/sparse.h"
#include "layers/linear.h"
#include "sparse/columns.h"
#include "sparse/plan.h"

/* What a layer is like besides its weights. */
struct sparse_shape {
    size_t hidden, wide;
    enum activation activation;
    bool unbiased;
};

struct sparse_ffn {
    const struct kernels *kernels;
    enum activation activation;
    size_t hidden, wide;
    struct columns columns;
    struct linear all; /* W_up, then W_gate; empty where a predictor chooses */
    /* Where one does: neurons are in the order of the plan. rank is 0, and all of this empty, where
     * none does. */
    size_t rank;
    float *by;                      /* [hidden]: what x is multiplied by before it is quantised */
    int8_t *up, *gate;              /* [wide, sparse_row_bytes(hidden)] */
    struct neuron *neurons, *gates; /* [wide] */
    float *center;                  /* [wide], or NULL: 0 */
    struct linear p, q;
    struct linear compensation; /* B and b; empty where there is none */
    size_t levels;
    float *thresholds; /* [levels, wide], for shares of computed neurons that rise */
    size_t bytes;      /* held by all of it */
};

/* Whether layers of these sizes can be sparse: their sums have to fit in 32 bits. */
bool sparse_ffn_fits(size_t hidden, size_t wide);

/* Packs layer `index`, with its predictor unless the plan is exact or has no levels. */
wisp_status sparse_ffn_load(struct sparse_ffn *ffn, const struct directory *dir,
                            const struct sparse_plan *plan, size_t index,
                            const struct sparse_shape *shape, const struct kernels *kernels,
                            wisp_error *error);

void sparse_ffn_release(struct sparse_ffn *ffn);

/* The thresholds [wide] at which about `share` of the neurons are computed, averaged over layers
 * and calibration texts; between the levels in the file by proportion. */
void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds);

/* Where a layer has a compensation, scale (B (P x + p) + b) is added to y: what is lost by skipping
 * as far as that can be told from the predictor's hidden values. */
static inline float sparse_ffn_scale(size_t computed, size_t wide) {
    const float skipped = (float)(wide - computed) / (float)wide;
    return skipped * skipped;
}

/* 64-bit words of a mask, of which bit i says whether neuron i is computed. */
static inline size_t sparse_mask_words(size_t wide) {
    return (wide + 63) / 64;
}

/* Chooses neurons once for a whole text: by what the predictor says of the mean of its tokens. Text
 * i is x[starts[i] .. starts[i + 1]), [tokens, hidden]; masks [texts, words]. A text's mask depends
 * on nothing but the text. `scratch` is that of sparse_ffn_apply. */
void sparse_ffn_choose(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                       const size_t *starts, size_t texts, uint64_t *masks, void *scratch);

/* Which neurons are computed for a token; all, where both are NULL: of a layer without predictor.
 */
struct sparse_choice {
    const float *thresholds;      /* [wide]: those whose logits for the token are above */
    const uint64_t *const *masks; /* [tokens]: those of the token's mask */
};

struct sparse_counts {
    uint64_t tokens;
    uint64_t computed;     /* neurons whose activations were */
    uint64_t contributing; /* neurons of those that were not 0 */
    double seconds;
    struct recall *recall; /* to be counted too, at the price of a dense first half; or NULL */
};

/* x [tokens, hidden] to y [tokens, hidden]. */
void sparse_ffn_apply(const struct sparse_ffn *ffn, struct sparse_choice choice, const float *x,
                      size_t tokens, float *y, void *scratch, struct sparse_counts *counts);

size_t sparse_ffn_scratch_bytes(size_t hidden, size_t wide, size_t rank,
                                enum activation activation);

#endif
