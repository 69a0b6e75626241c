/* SPDX-License-Identifier: Apache-2.0
 * The distribution of the scores of a gated layer's neurons (sparse/gathered.h), and the loss of
 * the layer's output without them. Native only. */
#ifndef WISP_CALIBRATE_GATE_HISTOGRAM_H
#define WISP_CALIBRATE_GATE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

/* Scores whose bits differ after the first four of the mantissa are one bin: 16 in an octave. */
enum { GATE_BIN_SHIFT = 19, GATE_BINS = 0x7f800000 >> GATE_BIN_SHIFT };

struct gate_histogram {
    uint64_t count[GATE_BINS];  /* neurons of tokens */
    uint64_t needed[GATE_BINS]; /* of them, those among the fifth of the token's neurons that
                                   contribute most */
    double loss[GATE_BINS];     /* the sum of the squares of their contributions */
    uint64_t neurons, all_needed;
    double all_loss;
};

/* Adds a neuron. Scores that are not finite count as the largest. */
static inline void gate_histogram_add(struct gate_histogram *h, float score, double loss,
                                      int needed) {
    const uint32_t bits = bits_of_float(score) & 0x7fffffff;
    const size_t bin = bits >> GATE_BIN_SHIFT < GATE_BINS ? bits >> GATE_BIN_SHIFT : GATE_BINS - 1;
    h->count[bin]++;
    h->needed[bin] += (uint64_t)needed;
    h->loss[bin] += loss;
    h->neurons++;
    h->all_needed += (uint64_t)needed;
    h->all_loss += loss;
}

/* The outcome of computing only the neurons whose score is at least a threshold, as shares: the
 * share of all neurons, the share of the needed ones, and how much of the sum of squares of
 * contributions is lost. */
struct gate_outcome {
    double active, recall, loss;
};

struct gate_outcome gate_histogram_above(const struct gate_histogram *h, float least);

/* Returns the least score at which at most `share` of the neurons are computed. */
float gate_histogram_least(const struct gate_histogram *h, double share);

#endif
