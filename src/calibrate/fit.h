/* SPDX-License-Identifier: Apache-2.0
 * Trains a predictor: its logits are to be high if a neuron's contribution to the layer's output
 * is large. */
#ifndef WISP_CALIBRATE_FIT_H
#define WISP_CALIBRATE_FIT_H

#include "calibrate/layer.h"
#include "calibrate/predictor.h"

enum { FIT_STEPS = 600 };

struct fit_options {
    size_t rank;
    float computed; /* the fraction of neurons that the predictor learns to tell from the rest */
    int steps;      /* of Adam; 0: the regression is all */
    uint64_t seed;
};

/* Starts from the reduced-rank regression of the neurons' contributions on layer->predictor_x
 * (Izenman, 1975), then minimises the binary cross-entropy of "among the largest contributions, and
 * not 0" by Adam (Kingma and Ba, 2015). A token that needs a neuron counts by what the output would
 * lose without it. The layer's neurons have been studied (neurons.h); the predictor numbers them by
 * place and belongs to the layer's arena. */
wisp_status predictor_fit(struct layer *layer, const struct fit_options *options,
                          struct arena *scratch, struct predictor *predictor, wisp_error *error);

#endif
