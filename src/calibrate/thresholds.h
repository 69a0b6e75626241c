/* SPDX-License-Identifier: Apache-2.0
 * Chooses thresholds of neurons for a budget: of all ways to compute so many neurons, over all
 * layers, the one that loses least.
 *
 * Each neuron has a curve: when it is computed for the k tokens with its highest logits, so much
 * less of the output is lost. What one more token gains is the steepness of the curve there. If
 * every neuron of every layer is computed as long as that gains more than one common price, no
 * other choice of as many (token, neuron) pairs loses less; so a price stands for a budget. Only
 * the upper hull of a curve matters, of which the corners are kept. */
#ifndef WISP_CALIBRATE_THRESHOLDS_H
#define WISP_CALIBRATE_THRESHOLDS_H

#include "base/arena.h"

/* A corner of a neuron's hull. */
struct gain {
    float computed;  /* the neuron is computed for so many tokens, */
    float threshold; /* whose logits are above this */
    float steepness; /* what each token gains from the corner before to this one */
};

struct hull {
    struct gain *corners; /* [n], ever less steep */
    size_t n;
};

struct point {
    float logit, loss;
};

/* The hulls of a layer's neurons. */
struct gains {
    size_t neurons, tokens;
    struct hull *hulls; /* [neurons], in `arena` */
    struct arena *arena;
    /* Working memory of gains_add, [tokens] each. */
    struct point *points, *sorted;
    struct gain *corners;
    double *heights;
};

/* Begins with no neurons. Hulls will be in `arena`; gains_add works in memory from `scratch`. */
wisp_status gains_open(size_t tokens, size_t most_neurons, struct arena *arena,
                       struct arena *scratch, struct gains *gains, wisp_error *error);

/* Adds the next n neurons, with their logits [tokens, n]. losses [tokens, n] are what is lost if
 * a neuron is not computed for a token, in a unit that all layers have in common. */
wisp_status gains_add(struct gains *gains, const float *logits, const float *losses, size_t n,
                      wisp_error *error);

/* Returns the price at which `share` (0 to 1) of all (token, neuron) pairs are computed, averaged
 * over `layers` layers. */
float gains_price(const struct gains *gains, size_t layers, float share);

/* Sets thresholds [neurons] (NULL: none) to those at a price. Returns the share of the layer's
 * (token, neuron) pairs that they let through. */
double gains_thresholds(const struct gains *gains, float price, float *thresholds);

#endif
