/* SPDX-License-Identifier: Apache-2.0
 * Chooses how much of a long test runs. `make test` runs samples. `make test-all` and CI set
 * WISP_TEST_ALL in the environment, and then everything runs. */
#ifndef WISP_TESTS_SAMPLING_H
#define WISP_TESTS_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>

#include "support/rng.h"

/* Returns whether everything runs. If not, prints that `what` is skipped and which command runs it.
 */
bool everything_runs(const char *what);

/* Steps through a range by random strides, so that a sample follows no period in the data. */
struct sampling {
    struct rng rng;
    size_t mean_stride; /* 1: nothing is skipped */
};

/* Samples about one of `one_in`, or all if everything runs. Prints the seed, as rng_seed() does.
 */
struct sampling sampling_of(const char *what, size_t one_in);

/* Returns the distance to the next element of the sample. */
static inline size_t sampling_stride(struct sampling *sampling) {
    return sampling->mean_stride == 1 ? 1
                                      : rng_range(&sampling->rng, 1, 2 * sampling->mean_stride - 1);
}

#endif
