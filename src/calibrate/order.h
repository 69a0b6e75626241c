/* SPDX-License-Identifier: Apache-2.0
 * The order in which a layer's neurons are laid out: hot first, co-active ones together. */
#ifndef WISP_CALIBRATE_ORDER_H
#define WISP_CALIBRATE_ORDER_H

#include "base/status.h"
#include "kernels/kernels.h"

/* What is known of a layer's neurons. */
struct neurons {
    size_t n;
    const float *frequency;     /* [n]: the share of tokens that need the neuron */
    const float *magnitude;     /* [n]: the mean size of its contribution */
    const float *contributions; /* [tokens, n]: their sizes */
    size_t tokens;
};

/* order [n]: the neuron at place i is order[i]. By frequency, then magnitude, then number; and in
 * each band of some dozens, where frequencies are about equal, each neuron is followed by the one
 * of those left whose contributions have the largest cosine with its own. */
wisp_status order_neurons(const struct kernels *kernels, const struct neurons *neurons,
                          int32_t *order, wisp_error *error);

/* How many places hold the hot neurons: the fewest, from the first on, to which nine tenths of all
 * needed activations belong. */
size_t hot_neurons(const float *frequency, const int32_t *order, size_t n);

#endif
