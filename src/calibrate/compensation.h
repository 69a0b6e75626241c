/* SPDX-License-Identifier: Apache-2.0
 * What a layer loses by skipping, as far as it is linear in what the predictor computes anyway:
 *
 *   y += scale (B (P x + p) + b)
 *
 * with a scale that depends on how many of the token's neurons are skipped (sparse_ffn_scale): the
 * fewer are the less is lost, and so one B serves all thresholds. */
#ifndef WISP_CALIBRATE_COMPENSATION_H
#define WISP_CALIBRATE_COMPENSATION_H

#include "calibrate/layer_fit.h"

/* errors [n, hidden]: the layer's output for x [n, hidden], of which the predictor sees `seen`,
 * less what it is where neurons are skipped, after compensation if the fit has one. */
wisp_status layer_errors(const struct layer_sample *sample, const struct layer_fit *fit,
                         const float *thresholds, const float *x, const float *seen, size_t n,
                         float *errors, wisp_error *error);

/* Least squares on the sample, given the final thresholds [wide]. Kept as fit->compensation only
 * where, on held-out tokens, it takes away more of the loss (as in fit->gains) than the neurons
 * would that could be computed in its time, at `price` each. */
wisp_status compensation_fit(const struct layer_sample *sample, const float *thresholds,
                             float price, struct layer_fit *fit, wisp_error *error);

#endif
