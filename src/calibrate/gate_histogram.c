/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/gate_histogram.h"

#include <math.h>

/* Neurons of the bin that the threshold is in count by their part of it. */
struct gate_outcome gate_histogram_above(const struct gate_histogram *h, float least) {
    const uint32_t bits = bits_of_float(least);
    const size_t bin = bits >> GATE_BIN_SHIFT;
    const double part = 1 - (double)(bits & ((1u << GATE_BIN_SHIFT) - 1)) / (1u << GATE_BIN_SHIFT);
    double count = 0, needed = 0, loss = 0;
    for (size_t i = bin; i < GATE_BINS; i++) {
        const double counted = i == bin ? part : 1;
        count += counted * (double)h->count[i];
        needed += counted * (double)h->needed[i];
        loss += counted * h->loss[i];
    }
    return (struct gate_outcome){
        .active = h->neurons > 0 ? count / (double)h->neurons : 0,
        .recall = h->all_needed > 0 ? needed / (double)h->all_needed : 1,
        .loss = h->all_loss > 0 ? fmax(1 - loss / h->all_loss, 0) : 0,
    };
}

float gate_histogram_least(const struct gate_histogram *h, double share) {
    uint32_t low = 0, high = 0x7f7fffff; /* bits of floats, which are in the same order */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (gate_histogram_above(h, float_of_bits(middle)).active > share)
            low = middle + 1;
        else
            high = middle;
    }
    return float_of_bits(low);
}
