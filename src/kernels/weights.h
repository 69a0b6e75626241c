/* SPDX-License-Identifier: Apache-2.0
 * Quantises weights symmetrically to int8, for the functions that pack them, and reads packed
 * floats. */
#ifndef WISP_KERNELS_WEIGHTS_H
#define WISP_KERNELS_WEIGHTS_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The functions below take a multiple of so many weights, largest_magnitude any number. */
enum { WEIGHT_STEP = 16 };

/* Returns n weights with zeros behind them, up to a multiple of WEIGHT_STEP: `w` itself if n is
 * one, else a copy in `room`. */
const float *pad_weights(const float *w, size_t n, float *room);

/* Returns the largest magnitude of n weights; NaN if one of them is NaN. */
float largest_magnitude(const float *w, size_t n);

/* Returns a quarter of the magnitude that becomes 127 if weights are packed for narrow products.
 * It is that of the largest magnitude, unless weights rounded to multiples of largest / 127 could
 * exceed NARROW_WEIGHTS in a group of four (kernels.h, pack_narrow): then it is so large that they
 * cannot, and may be beyond the largest float, though its quarter is not. Weights are finite. */
float narrow_quarter(const float *w, size_t n);

/* Returns 127 / largest, the factor that turns weights into int8 values. Returns 0, which makes all
 * values 0, if all weights are 0 or so small that the factor would be infinite. */
static inline float inverse_scale(float largest) {
    const float inverse = 127 / largest;
    return inverse <= FLT_MAX ? inverse : 0;
}

/* Rounds w[i] inverse for i < n to the nearest whole number, ties to even, adds `offset`, 0 or 128,
 * and stores groups of four as bytes, the first one at `to` and each of the others `stride` bytes
 * further. Weights are finite, and no magnitude is above 127. Returns the sum of the numbers,
 * without offsets. */
int32_t round_weights(const float *w, size_t n, float inverse, int offset, unsigned char *to,
                      size_t stride);

/* Computes w[i] *= factors[i] for i < n. */
void scale_weights(float *restrict w, const float *restrict factors, size_t n);

/* Writes rows [TRANSPOSED_ROWS, n] as columns [n, ld]. n is a multiple of 4. */
enum { TRANSPOSED_ROWS = 4 };
void transpose_weights(const float *restrict rows, size_t n, float *restrict columns, size_t ld);

/* Reads a float that a pack function has put among bytes, in the machine's byte order. */
static inline float packed_float(const unsigned char *bytes) {
    float value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

#endif
