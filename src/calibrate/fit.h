/* SPDX-License-Identifier: Apache-2.0
 * Fits a predictor: logits are to be high where a neuron's contribution to the layer's output is
 * large. */
#ifndef WISP_CALIBRATE_FIT_H
#define WISP_CALIBRATE_FIT_H

#include "calibrate/predictor.h"

enum { FIT_STEPS = 600 };

struct fit_task {
    const struct kernels *kernels;
    const float *x;    /* [tokens, hidden] */
    const float *seen; /* [tokens, hidden]: what the predictor has to tell the sizes from */
    size_t tokens, hidden, wide, rank;
    /* sizes [n, wide] of the neurons' contributions for x [n, hidden]. All of them would not fit
     * into memory. */
    wisp_status (*sizes)(const void *layer, const float *x, size_t n, float *sizes,
                         wisp_error *error);
    const void *layer;
    float wanted; /* the share of neurons to be told apart from the rest */
    int steps;    /* of Adam; 0: the regression is all */
    uint64_t seed;
    bool (*stopped)(void *context); /* asked at each step; may be NULL */
    void *context;
};

/* Starts from the reduced-rank regression of the sizes on what is seen (Izenman, 1975), then
 * minimises the binary cross-entropy of "among the largest `wanted` sizes, and not 0" by Adam
 * (Kingma and Ba, 2015). A token that wants a neuron counts by what its absence would cost. The
 * result is released with predictor_release. */
wisp_status predictor_fit(const struct fit_task *task, struct predictor *to, wisp_error *error);

/* Only the second half of that, for P as it is and Q from where it is; in half as many
 * steps. */
wisp_status predictor_refit(const struct fit_task *task, struct predictor *to, wisp_error *error);

#endif
