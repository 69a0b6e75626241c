/* SPDX-License-Identifier: Apache-2.0
 * One P for the predictors of all layers. */
#ifndef WISP_CALIBRATE_SHARE_H
#define WISP_CALIBRATE_SHARE_H

#include "calibrate/layer_fit.h"

/* Gives all fits' trained predictors, which are of one rank, the same P and p: of the directions
 * that x can have, those on which all layers' logits depend most. Each Q becomes the least squares
 * fit to the logits that its layer had. */
wisp_status predictors_share(const struct layer_sample *samples, struct layer_fit *fits,
                             size_t layers, wisp_error *error);

#endif
