/* SPDX-License-Identifier: Apache-2.0
 * Finds how often each of a layer's neurons is needed, and orders the neurons by that. */
#ifndef WISP_CALIBRATE_NEURONS_H
#define WISP_CALIBRATE_NEURONS_H

#include "calibrate/layer.h"

/* With ReLU a token needs the neurons whose contribution is not 0. With other activations it needs
 * those whose contribution is among the largest fifth of the layer's: all but this fraction. */
static const double unneeded_fraction = 0.8;

/* To find the size below which that fraction is, all sizes are sorted if there are few, and
 * every 61st if there are many. */
static inline size_t neurons_sorting_stride(size_t sizes) {
    enum { STRIDE = 61, FEW_SIZES = 1 << 18 };
    return sizes < FEW_SIZES ? 1 : STRIDE;
}

/* Finds the layer's factors, centers, lengths, frequencies, magnitudes, order and hot neurons from
 * up to 4,096 of its tokens, and puts its weights in that order, which is the model's if the layer
 * asks for it. After an error the weights are of
 * no use. */
wisp_status layer_study_neurons(struct layer *layer, struct arena *scratch, wisp_error *error);

/* Sets order [n] to the numbers of n neurons by falling frequency, then falling magnitude, then
 * rising number. */
wisp_status neurons_order(const float *frequency, const float *magnitude, size_t n,
                          struct arena *scratch, int32_t *order, wisp_error *error);

#endif
