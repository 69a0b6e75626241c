/* SPDX-License-Identifier: Apache-2.0
 * Quantises weights symmetrically to int8, for the functions that pack them, and reads packed
 * floats. */
#ifndef WISP_KERNELS_WEIGHTS_H
#define WISP_KERNELS_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Returns the largest magnitude of n weights. It ignores NaN, which a malformed file may hold. */
float largest_magnitude(const float *w, size_t n);

/* Returns a quarter of the magnitude that becomes 127 where n <= NARROW_BLOCK weights are packed
 * for narrow products. It is `largest`, unless weights rounded to multiples of largest / 127 could
 * exceed NARROW_WEIGHTS in a group of four (kernels.h, pack_narrow): then it is so large that they
 * cannot, and may be beyond the largest float, though its quarter is not. */
float narrow_quarter(const float *w, size_t n, float largest);

/* Returns 127 / largest, the factor that turns weights into int8 values, or 0 where all weights are
 * 0. */
static inline float inverse_scale(float largest) {
    return largest > 0 ? 127 / largest : 0;
}

/* Computes q[i] = w[i] inverse for i < n, rounded to the nearest whole number, ties to even. Values
 * beyond -127..127 and NaN become 0. Returns the sum of q. */
int32_t round_weights(const float *restrict w, size_t n, float inverse, int8_t *restrict q);

/* Reads a float that a pack function has put among bytes, in the machine's byte order. */
static inline float packed_float(const unsigned char *bytes) {
    float value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

#endif
