/* SPDX-License-Identifier: Apache-2.0
 * Splitmix64: random numbers that are the same everywhere. Source: G. Steele, D. Lea and C. Flood,
 * "Fast Splittable Pseudorandom Number Generators", 2014. */
#ifndef WISP_BASE_RANDOM_H
#define WISP_BASE_RANDOM_H

#include <stdint.h>

static const uint64_t random_step = 0x9e3779b97f4a7c15u;

/* Spreads what a few bits of z say over all of them. */
static inline uint64_t random_mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t random_next(uint64_t *state) {
    return random_mix(*state += random_step);
}

#endif
