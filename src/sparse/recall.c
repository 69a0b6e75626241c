/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "sparse/recall.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A bin number consists of a float's exponent and the first bits of its fraction. */
    FRACTION_BITS = 7,
    FIRST_EXPONENT = 127 - 40, /* smaller sizes above 0 count as 2^-40 */
    EXPONENTS = 64,
    RECALL_BINS = 1 + (EXPONENTS << FRACTION_BITS)
};

/* With any activation but ReLU, this part of the neurons is not needed. */
static const double unneeded_part = 0.8;

/* Computes the lengths of W_down's columns without their column scales, because the values that
 * recall_count takes are multiplied by those already. */
static void measure_columns(const struct neuron_layer *neurons,
                            const struct sparse_kernels *kernels, float *lengths) {
    const uint8_t offset = kernels->signed_columns ? 0 : 0x80;
    for (size_t i = 0; i < neurons->intermediate_size; i++) {
        const uint8_t *column = neuron_down(neurons, i);
        double squares = 0;
        for (size_t c = 0; c < neurons->hidden_size; c++) {
            const int8_t weight = (int8_t)(column[column_place(c, kernels->lanes)] ^ offset);
            const double scaled = (double)neurons->row_scale[c] * weight;
            squares += scaled * scaled;
        }
        lengths[i] = (float)sqrt(squares);
    }
}

wisp_status recall_open(struct recall *recall, const struct neuron_layer *neurons,
                        enum activation activation, const struct sparse_kernels *kernels,
                        wisp_error *error) {
    const size_t bins = 2 * (size_t)RECALL_BINS, n = neurons->intermediate_size;
    *recall = (struct recall){.intermediate_size = n,
                              .relu = activation_has_zeros(activation),
                              .lengths = malloc(n * sizeof *recall->lengths),
                              .bins = calloc(bins, sizeof *recall->bins)};
    if (!recall->lengths || !recall->bins)
        return fail_memory(error, bins * sizeof *recall->bins);
    measure_columns(neurons, kernels, recall->lengths);
    return WISP_OK;
}

void recall_release(struct recall *recall) {
    free(recall->lengths);
    free(recall->bins);
    *recall = (struct recall){0};
}

static size_t bin_of(float size) {
    uint32_t bits;
    if (!(size > 0))
        return 0;
    memcpy(&bits, &size, sizeof bits);
    const uint32_t first = (uint32_t)FIRST_EXPONENT << FRACTION_BITS;
    const uint32_t bin = bits >> (23 - FRACTION_BITS);
    if (bin <= first)
        return 1;
    return bin - first < RECALL_BINS - 1 ? bin - first + 1 : RECALL_BINS - 1;
}

void recall_count(struct recall *recall, const float *values, const uint64_t *mask) {
    for (size_t i = 0; i < recall->intermediate_size; i++) {
        uint64_t *bin = recall->bins + 2 * bin_of(fabsf(values[i]) * recall->lengths[i]);
        bin[0]++;
        bin[1] += mask ? mask[i / 64] >> i % 64 & 1 : 1;
    }
}

static uint64_t sum_bin(const struct recall *recalls, size_t n, size_t i) {
    uint64_t sum = 0;
    for (size_t r = 0; r < n; r++)
        sum += recalls[r].bins[i];
    return sum;
}

/* Returns the last bin with neurons that are not needed. */
static size_t unneeded_bin(const struct recall *recalls, size_t n) {
    uint64_t total = 0, below = 0;
    if (recalls->relu)
        return 0;
    for (size_t i = 0; i < RECALL_BINS; i++)
        total += sum_bin(recalls, n, 2 * i);
    for (size_t i = 0; i < RECALL_BINS; i++) {
        below += sum_bin(recalls, n, 2 * i);
        if ((double)below >= unneeded_part * (double)total)
            return i;
    }
    return RECALL_BINS;
}

struct recall_totals recall_sum(const struct recall *recalls, size_t n) {
    struct recall_totals totals = {0};
    for (size_t i = unneeded_bin(recalls, n) + 1; i < RECALL_BINS; i++) {
        totals.needed += sum_bin(recalls, n, 2 * i);
        totals.found += sum_bin(recalls, n, 2 * i + 1);
    }
    return totals;
}
