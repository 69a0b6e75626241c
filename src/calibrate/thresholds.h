/* SPDX-License-Identifier: Apache-2.0
 * Thresholds of neurons for a wanted share: of all ways to compute so many neurons, over all
 * layers, the one that loses least.
 *
 * Sorted by its logits, a neuron's tokens give a curve: what is gained by computing it for the
 * first k. Computing one more is worth its price where the curve is steeper than the price; so the
 * upper hull of the curve is all that matters, and one price for all neurons of all layers shares
 * the budget among them by error. */
#ifndef WISP_CALIBRATE_THRESHOLDS_H
#define WISP_CALIBRATE_THRESHOLDS_H

#include "base/status.h"

/* One corner of a neuron's hull. */
struct gain {
    float computed;  /* for so many of the tokens */
    float threshold; /* which the logits of just these are above */
    float steepness; /* of the way to here from the corner before, per token */
};

/* The hulls of a layer's neurons. */
struct gains {
    size_t neurons, tokens;
    struct gain *corners; /* those of neuron i: starts[i] .. starts[i + 1] */
    size_t *starts;       /* [neurons + 1] */
    size_t capacity;      /* of corners */
};

/* For no neurons yet, to be added in turn. Released with gains_release, also after an error. */
wisp_status gains_open(size_t tokens, size_t most_neurons, struct gains *gains, wisp_error *error);

/* The next n neurons. logits and losses [tokens, n]: what is lost where a neuron is not computed
 * for a token, in any unit that all layers share. */
wisp_status gains_add(struct gains *gains, const float *logits, const float *losses, size_t n,
                      wisp_error *error);

void gains_release(struct gains *gains);

/* The price at which `share` of the neurons are computed, on average over the layers. */
float gains_price(const struct gains *layers, size_t n, float share);

/* The thresholds [neurons] at a price; returns the share of neurons they let through. */
double gains_thresholds(const struct gains *layer, float price, float *thresholds);

#endif
