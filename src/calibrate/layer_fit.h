/* SPDX-License-Identifier: Apache-2.0
 * Calibration of one feed-forward layer from the inputs it had on real text. */
#ifndef WISP_CALIBRATE_LAYER_FIT_H
#define WISP_CALIBRATE_LAYER_FIT_H

#include "calibrate/fit.h"
#include "calibrate/layer_sample.h"
#include "calibrate/thresholds.h"

struct layer_fit {
    size_t wide;
    int32_t *order;   /* [wide]: the neuron at place i is order[i] (order.h) */
    size_t hot;       /* places of hot neurons, from the first on */
    float *center;    /* [wide], by place; 0 but with GELU */
    float *lengths;   /* [wide], by place: of W_down's columns */
    float *factors;   /* [hidden]: what x is multiplied by before it is quantised */
    float *frequency; /* [wide], by neuron: the share of tokens that need it */
    float *magnitude; /* [wide], by neuron: the mean size of its contribution */
    struct predictor trained;
    struct predictor predictor; /* the same as the file has it */
    double variance;     /* of what the layer's output is added to, about each token's mean */
    struct gains gains;  /* losses in units of the variance */
    float *compensation; /* [rank + 1, hidden]: B, transposed, and b (compensation.h); or NULL */
};

/* Neurons and a trained predictor; layer_weigh has the rest. `wanted` is the share of neurons that
 * the predictor is trained to find. The sample's neurons are put in the fit's order, in which all
 * that follows wants them. Released with layer_fit_release. */
wisp_status layer_fit(struct layer_sample *sample, size_t rank, float wanted, uint64_t seed,
                      struct layer_fit *fit, wisp_error *error);

/* The predictor for whole texts, from a sample that is seen as these, of the neurons of a fit, of
 * which nothing but their centers and lengths is taken. There are few texts: it stays the
 * regression, as training it learns them by heart. Released with layer_fit_release, also after an
 * error. */
wisp_status layer_fit_texts(const struct layer_sample *sample, const struct layer_fit *neurons,
                            size_t rank, float wanted, struct layer_fit *fit, wisp_error *error);

/* Trains Q on, where P has become another. */
wisp_status layer_refit(const struct layer_sample *sample, float wanted, uint64_t seed,
                        struct layer_fit *fit, wisp_error *error);

/* The predictor as the file will have it, and what is gained by each neuron that it chooses: of all
 * layers together that gives the thresholds. */
wisp_status layer_weigh(const struct layer_sample *sample, const struct predictor_formats *formats,
                        struct layer_fit *fit, wisp_error *error);

/* What thresholds do to held-out tokens. */
wisp_status layer_measure(const struct layer_sample *sample, const struct layer_fit *fit,
                          const float *thresholds, wisp_calibrated_quality *quality,
                          wisp_error *error);

void layer_fit_release(struct layer_fit *fit);

#endif
