/* SPDX-License-Identifier: Apache-2.0
 * How much of a long test runs. `make test` takes samples; `make test-all` and CI set WISP_TEST_ALL
 * in the environment, and then everything runs. */
#ifndef WISP_TESTS_SAMPLING_H
#define WISP_TESTS_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>

#include "support/rng.h"

/* Whether everything runs. If not, prints that `what` is skipped, and what would run it. */
bool everything_runs(const char *what);

/* A walk over a range in strides that are random, so that a sample follows no period in the data.
 */
struct sampling {
    struct rng rng;
    size_t mean_stride; /* 1: nothing is left out */
};

/* All of `what` where everything runs, else about one in `one_in`. The seed is printed, as
 * rng_seed() does. */
struct sampling sampling_of(const char *what, size_t one_in);

/* How far it is to the next of the sample. */
static inline size_t sampling_stride(struct sampling *sampling) {
    return sampling->mean_stride == 1 ? 1
                                      : rng_range(&sampling->rng, 1, 2 * sampling->mean_stride - 1);
}

#endif
