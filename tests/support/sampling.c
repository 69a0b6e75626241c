/* SPDX-License-Identifier: Apache-2.0 */
#include "support/sampling.h"

#include <stdio.h>
#include <stdlib.h>

bool everything_runs(const char *what) {
    if (getenv("WISP_TEST_ALL"))
        return true;
    printf("skipped: %s: in make test-all\n", what);
    return false;
}

struct sampling sampling_of(const char *what, size_t one_in) {
    char part[128];
    snprintf(part, sizeof part, "%s, all but one in %zu", what, one_in);
    if (everything_runs(part))
        return (struct sampling){.mean_stride = 1};
    return (struct sampling){.rng = {rng_seed()}, .mean_stride = one_in};
}
