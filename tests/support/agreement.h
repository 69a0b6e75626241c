/* SPDX-License-Identifier: Apache-2.0
 * Compares embeddings with those of PyTorch. */
#ifndef WISP_TESTS_AGREEMENT_H
#define WISP_TESTS_AGREEMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "support/sampling.h"
#include "wisp.h"

/* The cosines of rows to the expected ones. */
struct agreement {
    double mean, min;
    double error; /* the standard error of the mean: 0 if all texts were embedded */
    size_t n;     /* texts that were embedded */
};

/* Embeds a sample of n texts, and compares their rows with `expected` [n, size]. Fails the test if
 * embedding fails. */
struct agreement agreement_of(wisp_session *session, const wisp_text *texts, size_t n,
                              const float *expected, size_t size, struct sampling sampling);

/* Returns whether the mean of all texts may be at least `bound`: that of a sample is off by its
 * standard error. */
bool mean_reaches(const struct agreement *agreement, double bound);

#endif
