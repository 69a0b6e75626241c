/* SPDX-License-Identifier: Apache-2.0
 * Recall: the part of the neurons a token needs that are chosen for it.
 *
 * With ReLU, a token needs a neuron whose contribution is not 0. With other activations it needs
 * the fifth of a layer's neurons with the largest contributions, as the report of calibration has
 * it. The size of a contribution is |activation - center| times the length of the neuron's column
 * of W_down as int8. The largest fifth is known only at the end, so sizes are counted in bins that
 * are each less than 1 % wide. */
#ifndef WISP_SPARSE_RECALL_H
#define WISP_SPARSE_RECALL_H

#include "sparse/neuron_store.h"

/* The counts of one layer and one thread. */
struct recall {
    size_t intermediate_size;
    bool relu;
    float *lengths; /* [intermediate_size]: lengths of W_down's columns as int8 */
    uint64_t *bins; /* [RECALL_BINS, 2]: neurons of a size, chosen neurons of it; bin 0: size 0 */
};

/* Sums over tokens and texts, in neurons. */
struct recall_totals {
    uint64_t needed;
    uint64_t found; /* neurons both needed and chosen */
};

/* Opens the counts of one layer, all of whose neurons are present. Fails if memory is short. The
 * caller releases them with recall_release, also after an error. */
wisp_status recall_open(struct recall *recall, const struct neuron_layer *neurons,
                        enum activation activation, const struct sparse_kernels *kernels,
                        wisp_error *error);

void recall_release(struct recall *recall);

/* Counts one token. `values` [intermediate_size] are the results of the kernels `activate` or
 * `contribute` for all neurons; `mask` tells which were chosen, NULL that all were. */
void recall_count(struct recall *recall, const float *values, const uint64_t *mask);

/* Sums the counts of one layer over n threads. */
struct recall_totals recall_sum(const struct recall *recalls, size_t n);

#endif
