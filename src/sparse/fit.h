/* SPDX-License-Identifier: Apache-2.0
 * Fits a predictor: logits = Q (P x + p) + q, high where a quad's contribution to the layer's
 * output is large. */
#ifndef WISP_SPARSE_FIT_H
#define WISP_SPARSE_FIT_H

#include "base/status.h"
#include "kernels/kernels.h"

struct predictor {
    size_t hidden, quads, rank;
    float *p, *p_bias; /* [hidden, rank], [rank] */
    float *q, *q_bias; /* [rank, quads], [quads] */
};

struct fit_task {
    const struct kernels *kernels;
    const float *x;     /* [tokens, hidden] */
    const float *sizes; /* [tokens, quads]: of the quads' contributions */
    size_t tokens, hidden, quads, rank;
    float wanted; /* the share of quads to be told apart from the rest */
    uint64_t seed;
    bool (*stopped)(void *context); /* asked at each step; may be NULL */
    void *context;
};

/* Starts from the reduced-rank regression of the sizes on x (Izenman, 1975), then minimises the
 * binary cross-entropy of "among the largest `wanted` sizes" by Adam (Kingma and Ba,
 * 2015). A token that wants a quad counts by what its absence would cost.
 * The result is released with predictor_release. */
wisp_status predictor_fit(const struct fit_task *task, struct predictor *to, wisp_error *error);

/* h = P x + p [tokens, rank] and logits [tokens, quads] of x [tokens, hidden]. */
wisp_status predictor_apply(const struct kernels *kernels, const struct predictor *to,
                            const float *x, size_t tokens, float *h, float *logits,
                            wisp_error *error);

void predictor_release(struct predictor *predictor);

#endif
