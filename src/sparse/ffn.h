/* SPDX-License-Identifier: Apache-2.0
 * The feed-forward layer that computes only the neurons that matter to a token.
 *
 *   y = base + sum over the computed neurons of (activation(w_up x + b) - center) w_down
 *
 * where base = b_down + W_down center stands for what is skipped (center is 0 but with GELU, and
 * there where all are computed), and where the layer is gated, the activation is silu(w_gate x) *
 * (w_up x). A low-rank predictor says which neurons are computed: those whose logit, Q (P x + p) +
 * q, is above the neuron's threshold, x being the token's or the mean over its whole text. A layer
 * loaded as exact computes all, as dense layers do, and leaves those whose contribution rounds to
 * nothing out of the second half. A token's result depends on nothing but the token and which
 * neurons are computed for it: P, Q and the first half of exact are dense layers, all other sums
 * are exact integers. Sources: the predictor's shape from Liu et al., Deja Vu (2023);
 * docs/sparse.md has the rest. */
#ifndef WISP_SPARSE_FFN_H
#define WISP_SPARSE_FFN_H

#include "sparse/neuron_store.h"
#include "sparse/recall.h"

struct sparse_ffn {
    const struct kernels *kernels;
    enum activation activation;
    size_t hidden_size, intermediate_size;
    const struct neuron_layer *neurons;
    /* Where a predictor chooses. rank is 0, and all of this empty, where none does. */
    size_t rank;
    struct linear p, q;         /* to [rank], then to a logit for each place */
    struct linear compensation; /* B and b; empty where there is none */
    size_t levels;
    float *thresholds; /* [levels, intermediate_size], for shares of computed neurons that rise */
    size_t bytes;      /* held by the predictor */
};

/* Loads the neurons of layer `index` into the store, which must outlive the layer, and their
 * predictor unless the plan is exact or has no levels. The cache serves one layer after the other.
 */
wisp_status sparse_ffn_load(struct sparse_ffn *ffn, struct neuron_store *store,
                            const struct sparse_plan *plan, size_t index,
                            struct tensor_cache *cache, wisp_error *error);

void sparse_ffn_release(struct sparse_ffn *ffn);

/* The thresholds [intermediate_size] at which about `share` of the neurons are computed, averaged
 * over layers and calibration texts; between the levels in the file by proportion. */
void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds);

/* Where a layer has a compensation, scale (B (P x + p) + b) is added to y: what is lost by skipping
 * as far as that can be told from the predictor's hidden values. */
static inline float sparse_ffn_scale(size_t computed, size_t intermediate_size) {
    const float skipped = (float)(intermediate_size - computed) / (float)intermediate_size;
    return skipped * skipped;
}

/* Chooses neurons once for a whole text: by the logits of the mean of its tokens. Text i is
 * x[starts[i] .. starts[i + 1]), [tokens, hidden_size]; masks [texts, words]. A text's mask depends
 * on nothing but the text. The workspace has sparse_ffn_workspace_bytes left. */
void sparse_ffn_choose(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                       const size_t *starts, size_t texts, uint64_t *masks, struct workspace space);

/* Which neurons are computed for a token; both are NULL for a layer without predictor, which
 * computes all. */
struct sparse_choice {
    const float *thresholds;      /* [intermediate_size]: those whose logits are above */
    const uint64_t *const *masks; /* [tokens]: those of the token's mask */
};

struct sparse_counts {
    uint64_t tokens;
    uint64_t computed;     /* neurons whose activations were */
    uint64_t contributing; /* neurons of those that were not 0 */
    double seconds;
    struct recall *recall; /* to be counted too, at the price of a dense first half; or NULL */
};

/* x [tokens, hidden_size] to y [tokens, hidden_size]; the layer's neurons are all present. The
 * workspace has sparse_ffn_workspace_bytes left. */
void sparse_ffn_apply(const struct sparse_ffn *ffn, struct sparse_choice choice, const float *x,
                      size_t tokens, float *y, struct workspace space,
                      struct sparse_counts *counts);

/* Working memory for any number of tokens; SIZE_MAX where that cannot be addressed. `rank` is that
 * of the predictor, or 0. */
size_t sparse_ffn_workspace_bytes(size_t hidden_size, size_t intermediate_size, size_t rank,
                                  enum activation activation);

#endif
