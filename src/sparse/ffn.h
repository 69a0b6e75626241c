/* SPDX-License-Identifier: Apache-2.0
 * A feed-forward layer that computes only the neurons that matter to a token.
 *
 *   y = base + sum over the computed neurons of (activation(w_up x + b) - center) w_down
 *
 * In a gated layer the activation is f(w_gate x) * (w_up x). The base b_down + W_down center
 * stands for the neurons that are skipped; center is 0 except in layers with GELU and a predictor.
 *
 * A low-rank predictor computes a logit Q (P x + p) + q for each neuron, where x is the token's
 * hidden state or the mean over its whole text. The neurons whose logits exceed their thresholds
 * are computed. A layer without predictor (exact) computes the first half of all neurons, as a
 * dense layer does, and leaves those out of the second half whose contribution rounds to 0.
 *
 * The result for a token depends only on its hidden state and on the neurons computed for it: P, Q
 * and the first half of exact are dense layers, and all other sums are exact integers.
 *
 * Source of the predictor's shape: Liu et al., Deja Vu (2023). docs/sparse.md describes the rest.
 */
#ifndef WISP_SPARSE_FFN_H
#define WISP_SPARSE_FFN_H

#include "sparse/neuron_store.h"
#include "sparse/recall.h"

struct sparse_ffn {
    const struct kernels *kernels;
    enum activation activation;
    size_t hidden_size, intermediate_size;
    const struct neuron_layer *neurons;
    /* The predictor; rank is 0 and the rest empty if there is none. */
    size_t rank;
    struct linear p;            /* P [rank, hidden_size] */
    struct linear q;            /* Q [intermediate_size, rank]: one logit for each place */
    struct linear compensation; /* B [hidden_size, rank] and b; empty if there is none */
    size_t levels;
    float *thresholds; /* [levels, intermediate_size]: one level for each share of the plan */
    size_t bytes;      /* memory of the predictor */
};

/* Loads the neurons of layer `index` into the store, which must outlive the layer, and their
 * predictor unless the plan is exact or has no levels. The cache serves one layer after the other.
 * Fails if a tensor is missing, has another shape or an unsupported type or rank, cannot be
 * read, or holds values that are not finite; the layer is then empty. */
wisp_status sparse_ffn_load(struct sparse_ffn *ffn, struct neuron_store *store,
                            const struct sparse_plan *plan, size_t index,
                            struct tensor_cache *cache, wisp_error *error);

void sparse_ffn_release(struct sparse_ffn *ffn);

/* Loads the predictor of layer `index` of the plan, and its compensation if the file has one, into
 * an `ffn` that has its kernels and sizes. Fails as sparse_ffn_load does; the caller then releases
 * the layer. */
wisp_status sparse_ffn_load_predictor(struct sparse_ffn *ffn, const struct directory *dir,
                                      const struct sparse_plan *plan, size_t index,
                                      wisp_error *error);

/* Read parts of the predictor of a layer that was loaded, after they were released: P and Q; B and
 * b, which the file must have; or the thresholds. `by_text` is that of the plan. Fail as
 * sparse_ffn_load does; what was read of the part stays until it is released. */
wisp_status sparse_ffn_read_choice(struct sparse_ffn *ffn, const struct directory *dir,
                                   bool by_text, size_t index, wisp_error *error);
wisp_status sparse_ffn_read_compensation(struct sparse_ffn *ffn, const struct directory *dir,
                                         size_t index, wisp_error *error);
wisp_status sparse_ffn_read_thresholds(struct sparse_ffn *ffn, const struct directory *dir,
                                       bool by_text, size_t index, wisp_error *error);

/* Writes the thresholds [intermediate_size] at which about `share` of the neurons are computed, on
 * average over the layers and the calibration texts. Interpolates between the levels of the file.
 */
void sparse_ffn_thresholds(const struct sparse_ffn *ffn, const struct sparse_plan *plan,
                           float share, float *thresholds);

/* Returns the scale of the compensation: a layer that has one adds scale (B (P x + p) + b) to y,
 * which estimates from the predictor's hidden values the contributions of the skipped neurons. */
static inline float sparse_ffn_scale(size_t computed, size_t intermediate_size) {
    const float skipped = (float)(intermediate_size - computed) / (float)intermediate_size;
    return skipped * skipped;
}

/* Chooses neurons for whole texts, by the logits of each text's mean hidden state. x [tokens,
 * hidden_size] holds text i at rows starts[i] to starts[i + 1] - 1. Writes masks [texts,
 * sparse_mask_words]; the mask of a text depends on nothing but the text. The workspace has
 * sparse_ffn_workspace_bytes left. */
void sparse_ffn_choose(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                       const size_t *starts, size_t texts, uint64_t *masks, struct workspace space);

/* Writes masks [n, sparse_mask_words], the neurons that the predictor chooses for each of n tokens
 * x [n, hidden_size], and inner [n, rank], P x + p. The workspace has sparse_ffn_workspace_bytes
 * left. */
void sparse_ffn_predict(const struct sparse_ffn *ffn, const float *thresholds, const float *x,
                        size_t n, uint64_t *masks, float *inner, struct workspace space);

/* Says which neurons are computed. If `masks` is not NULL, the masks decide; otherwise, if
 * `thresholds` is not NULL, the predictor decides token by token; otherwise all are computed. */
struct sparse_choice {
    const float *thresholds;      /* [intermediate_size] */
    const uint64_t *const *masks; /* [tokens]: points to the mask of each token */
    const float *inner;           /* [tokens, rank]: P x + p, with `masks` of sparse_ffn_predict */
};

/* Totals of one layer and one thread. */
struct sparse_counts {
    uint64_t tokens;
    uint64_t computed;     /* neurons whose activations were computed */
    uint64_t contributing; /* computed neurons whose contribution was not 0 */
    double seconds;
    struct recall *recall; /* counts recall, which costs a dense first half; may be NULL */
};

/* Computes y [tokens, hidden_size] from x [tokens, hidden_size], and adds to the counts. All
 * neurons of the layer are present, or all those in the masks. A layer with a compensation needs
 * `inner` with masks. The workspace has sparse_ffn_workspace_bytes left. */
void sparse_ffn_apply(const struct sparse_ffn *ffn, struct sparse_choice choice, const float *x,
                      size_t tokens, float *y, struct workspace space,
                      struct sparse_counts *counts);

/* Returns the bytes of working memory for any number of tokens; SIZE_MAX if they cannot be
 * addressed. `rank` is the rank of the predictor, or 0. */
size_t sparse_ffn_workspace_bytes(size_t hidden_size, size_t intermediate_size, size_t rank,
                                  enum activation activation);

#endif
