/* SPDX-License-Identifier: Apache-2.0
 * Splitmix64 generates random numbers that are the same on every machine. Source: G. Steele, D. Lea
 * and C. Flood, "Fast Splittable Pseudorandom Number Generators", 2014. */
#ifndef WISP_BASE_RANDOM_H
#define WISP_BASE_RANDOM_H

#include <stdint.h>

static const uint64_t random_step = 0x9e3779b97f4a7c15u;

/* Makes every bit of the result depend on every bit of z. */
static inline uint64_t random_mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Advances *state, which may start with any value, and returns 64 random bits. */
static inline uint64_t random_next(uint64_t *state) {
    return random_mix(*state += random_step);
}

#endif
