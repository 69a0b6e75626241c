/* SPDX-License-Identifier: Apache-2.0
 * Lines of a file, chosen at random. */
#ifndef WISP_CLI_SAMPLE_H
#define WISP_CLI_SAMPLE_H

#include <stdint.h>

#include "cli/cli.h"

struct sample {
    wisp_text *text; /* [capacity] */
    size_t n, capacity, seen;
    uint64_t random;
};

/* Reads at most `capacity` lines that are not empty from a file, or from standard input ("-").
 * If there are more, each is chosen with the same probability, by the seed. Returns an exit
 * code, after complaining if it is not EXIT_GOOD. The caller releases the sample in any case. */
int sample_read(const char *path, size_t capacity, uint64_t seed, struct sample *texts);

void sample_release(struct sample *texts);

#endif
