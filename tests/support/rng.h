/* SPDX-License-Identifier: Apache-2.0
 * Random numbers for tests. A seed gives the same numbers on every machine. */
#ifndef WISP_TESTS_RNG_H
#define WISP_TESTS_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct rng {
    uint64_t state;
};

/* Splitmix64: a counter whose bits are mixed well. */
static inline uint64_t rng_bits(struct rng *rng) {
    uint64_t z = rng->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Returns a number from 0 to n - 1. */
static inline size_t rng_below(struct rng *rng, size_t n) {
    return (size_t)((rng_bits(rng) >> 32) * n >> 32);
}

/* Returns a number from low to high, both included. */
static inline size_t rng_range(struct rng *rng, size_t low, size_t high) {
    return low + rng_below(rng, high - low + 1);
}

static inline bool rng_coin(struct rng *rng) {
    return rng_bits(rng) >> 63;
}

static inline float rng_between(struct rng *rng, float low, float high) {
    const double share = (double)(rng_bits(rng) >> 11) * 0x1p-53;
    return (float)((double)low + share * ((double)high - (double)low));
}

/* Returns WISP_SEED if it is set, else another seed each time. Prints the seed, so that a
 * failure can be repeated. */
static inline uint64_t rng_seed(void) {
    const char *given = getenv("WISP_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
    printf("WISP_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

#endif
