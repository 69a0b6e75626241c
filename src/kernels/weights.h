/* SPDX-License-Identifier: Apache-2.0
 * Weights to symmetric int8, for the ways of packing them. */
#ifndef WISP_KERNELS_WEIGHTS_H
#define WISP_KERNELS_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

/* Of n weights; NaN, which a malformed file may hold, does not count. */
float largest_magnitude(const float *w, size_t n);

/* By which weights are multiplied to be whole numbers; 0 where all are 0. */
static inline float inverse_scale(float largest) {
    return largest > 0 ? 127 / largest : 0;
}

/* q[i] = w[i] inverse, rounded to the nearest whole number, ties to even; what is beyond int8, or
 * NaN, is 0. Returns the sum of q. */
int32_t round_weights(const float *restrict w, size_t n, float inverse, int8_t *restrict q);

#endif
