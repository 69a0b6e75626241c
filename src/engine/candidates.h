/* SPDX-License-Identifier: Apache-2.0
 * Tokens that may come next, ranked. */
#ifndef WISP_ENGINE_CANDIDATES_H
#define WISP_ENGINE_CANDIDATES_H

#include <stddef.h>
#include <stdint.h>

struct candidate {
    int32_t id;
    float rank;    /* higher ones come first; among equal ranks the lower id does */
    float logit;   /* after bias and penalties */
    double weight; /* proportional to the probability */
};

/* Moves the first k of n candidates by rank to the front, in order; k <= n. */
void candidates_select(struct candidate *candidates, size_t n, size_t k);

/* Moves the fewest candidates by rank whose weights sum up to `wanted` to the front, in an order
 * that depends only on the candidates, and returns their number: n if all do not reach it. */
size_t candidates_reach(struct candidate *candidates, size_t n, double wanted);

/* Returns the logarithm of the sum of exp(logits), in double precision. */
double log_sum_exp(const float *logits, size_t n);

#endif
