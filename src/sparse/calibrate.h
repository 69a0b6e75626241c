/* SPDX-License-Identifier: Apache-2.0
 * Calibration of one feed-forward layer from the inputs it had on real text. */
#ifndef WISP_SPARSE_CALIBRATE_H
#define WISP_SPARSE_CALIBRATE_H

#include "sparse/fit.h"
#include "sparse/layer.h"
#include "sparse/thresholds.h"

struct layer_fit {
    size_t wide;
    int32_t *order;   /* [wide]: neuron j of quad i is order[4 i + j] */
    float *center;    /* [wide]; 0 but with GELU */
    float *factors;   /* [hidden]: what x is multiplied by before it is quantised */
    float *frequency; /* [wide]: the share of tokens for which the neuron is active: above 0 with
                         ReLU, else among the largest fifth of contributions */
    float *magnitude; /* [wide]: the mean size of its contribution */
    struct predictor predictor;
    double variance;     /* of what the layer's output is added to, about each token's mean */
    struct gains gains;  /* losses in units of the variance */
    float *compensation; /* [rank + 1, hidden]: B, transposed, and b (compensation.h); or NULL */
};

/* What thresholds do to tokens that were not fitted to. */
struct layer_quality {
    double share;  /* of quads computed */
    double needed; /* of quads whose contribution is not 0 (ReLU) or is among the largest fifth */
    double recall; /* of needed quads, how many are computed */
    double precision; /* of computed quads, how many are needed */
    double error;     /* of the layer's output, relative to its variance */
};

/* Everything but thresholds, which are shared out among all layers, and what depends on them.
 * `wanted` is the share of quads that the predictor is trained to find. Released with
 * layer_fit_release. */
wisp_status layer_fit(const struct layer_sample *sample, size_t rank, float wanted, uint64_t seed,
                      struct layer_fit *fit, wisp_error *error);

wisp_status layer_measure(const struct layer_sample *sample, const struct layer_fit *fit,
                          const float *thresholds, struct layer_quality *quality,
                          wisp_error *error);

void layer_fit_release(struct layer_fit *fit);

#endif
