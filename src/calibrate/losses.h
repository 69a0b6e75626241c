/* SPDX-License-Identifier: Apache-2.0
 * Losses of a layer's output if a predictor skips neurons. */
#ifndef WISP_CALIBRATE_LOSSES_H
#define WISP_CALIBRATE_LOSSES_H

#include "calibrate/layer.h"
#include "calibrate/predictor.h"
#include "calibrate/thresholds.h"

/* A layer's predictor, for tokens or for whole texts. */
struct layer_fit {
    struct predictor trained;
    struct predictor stored; /* what is left of it in the file */
    /* The unit of losses: the mean over tokens of the squared deviation of x + y from its mean over
     * the token, by which the layer norm that follows divides. */
    double variance;
    float
        *compensation; /* [rank + 1, hidden_size]: B, transposed, and b (compensation.h); or NULL */
};

/* Rounds fit->trained to fit->stored, and finds what each neuron that this chooses gains. */
wisp_status layer_find_gains(const struct layer *layer, const struct predictor_formats *formats,
                             struct layer_fit *fit, struct gains *gains, struct arena *scratch,
                             wisp_error *error);

/* Losses are computed for at most LOSS_TOKENS tokens at a time, in the memory of struct
 * loss_work. */
enum { LOSS_TOKENS = 256 };

struct loss_work {
    float *logits;      /* [LOSS_TOKENS, intermediate_size] */
    float *h;           /* [LOSS_TOKENS, rank + 1]: scale (P x + p) and the scale itself */
    float *a;           /* [LOSS_TOKENS, intermediate_size] */
    float *compensated; /* [LOSS_TOKENS, hidden_size] */
};

wisp_status loss_work_open(const struct layer *layer, const struct layer_fit *fit,
                           struct arena *scratch, struct loss_work *work, wisp_error *error);

/* Computes losses [n, hidden_size]: the layer's output for x [n, hidden_size], less its output
 * if neurons are skipped and nothing compensates for it. The predictor reads predictor_x [n,
 * hidden_size]. n is at most LOSS_TOKENS. Leaves the logits, and in h what a compensation is linear
 * in. */
wisp_status layer_losses(const struct layer *layer, const struct layer_fit *fit,
                         const float *thresholds, const float *x, const float *predictor_x,
                         size_t n, const struct loss_work *work, float *losses, wisp_error *error);

/* Computes errors [n, hidden_size]: the losses, less what the compensation adds if the fit has
 * one. */
wisp_status layer_errors(const struct layer *layer, const struct layer_fit *fit,
                         const float *thresholds, const float *x, const float *predictor_x,
                         size_t n, const struct loss_work *work, float *errors, wisp_error *error);

/* Measures on the held-out tokens how well thresholds [intermediate_size] choose. */
wisp_status layer_measure(const struct layer *layer, const struct layer_fit *fit,
                          const float *thresholds, struct arena *scratch,
                          wisp_calibrated_quality *quality, wisp_error *error);

#endif
