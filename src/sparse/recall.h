/* SPDX-License-Identifier: Apache-2.0
 * How many of the neurons that a token needs are chosen for it.
 *
 * A token needs a neuron whose contribution is not 0 (ReLU), or else is among the largest fifth of
 * the layer's, as in calibration's report; its size is |activation - center| times the length of
 * W_down's column, as int8 has them. Which are the largest fifth is known at the end only, so sizes
 * are counted in bins less than 1 % wide. */
#ifndef WISP_SPARSE_RECALL_H
#define WISP_SPARSE_RECALL_H

#include "sparse/neuron_store.h"

/* Counts of one layer by one thread. */
struct recall {
    size_t intermediate_size;
    bool relu;
    float *lengths; /* [intermediate_size], of W_down's columns as int8 */
    uint64_t *bins; /* [RECALL_BINS, 2]: neurons of each size, and those chosen; bin 0: size 0 */
};

/* In neurons. */
struct recall_totals {
    uint64_t needed;
    uint64_t found; /* needed and chosen */
};

/* Released with recall_release, also after an error. */
wisp_status recall_open(struct recall *recall, const struct neuron_layer *neurons,
                        enum activation activation, const struct sparse_kernels *kernels,
                        wisp_error *error);

void recall_release(struct recall *recall);

/* One token's values [intermediate_size], as `activate` or `contribute` gives them for all neurons,
 * and which of these are chosen for it: bits of `mask`; NULL: all are. */
void recall_count(struct recall *recall, const float *values, const uint64_t *mask);

/* Sums the n threads' counts of one layer. */
struct recall_totals recall_sum(const struct recall *recalls, size_t n);

#endif
