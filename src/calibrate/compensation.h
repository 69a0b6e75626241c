/* SPDX-License-Identifier: Apache-2.0
 * A compensation adds to a layer's output what skipping loses, as far as that is linear in the
 * values that the predictor computes anyway:
 *
 *   y += scale (B (P x + p) + b)
 *
 * The scale depends on how many of the token's neurons are skipped (sparse_ffn_scale): the fewer
 * are skipped the less is lost, and so one B serves all thresholds. */
#ifndef WISP_CALIBRATE_COMPENSATION_H
#define WISP_CALIBRATE_COMPENSATION_H

#include "calibrate/losses.h"

/* Fits B and b to the layer's tokens by least squares, given the final thresholds
 * [intermediate_size]. fit->compensation becomes the result only if it saves more of the loss on
 * held-out tokens than those neurons would that could be computed in its time, at `price` each
 * (thresholds.h). */
wisp_status compensation_fit(const struct layer *layer, const float *thresholds, float price,
                             struct layer_fit *fit, struct arena *scratch, wisp_error *error);

#endif
