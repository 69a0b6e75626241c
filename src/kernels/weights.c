/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/weights.h"

#include <math.h>

#include "base/half.h"

float largest_magnitude(const float *w, size_t n) {
    /* LANES maxima run side by side: with one, each comparison would wait for the one before. */
    enum { LANES = 16 };
    float most[LANES] = {0}, largest = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            const float x = fabsf(w[i + j]);
            most[j] = x > most[j] ? x : most[j];
        }
    for (; i < n; i++)
        most[0] = fabsf(w[i]) > most[0] ? fabsf(w[i]) : most[0];
    for (size_t j = 0; j < LANES; j++)
        largest = most[j] > largest ? most[j] : largest;
    return largest;
}

int32_t round_weights(const float *restrict w, size_t n, float inverse, int8_t *restrict q) {
    /* Adding 1.5 * 2^23 to a number of magnitude below 2^22 leaves the nearest whole number in the
     * low bits of the sum. Compilers vectorise this, and the mask below, but neither lrintf nor a
     * branch.
     */
    const float rounder = 12582912;
    const int32_t most = (int32_t)bits_of_float(127.5f);
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const float scaled = w[i] * inverse;
        const int32_t magnitude = (int32_t)(bits_of_float(scaled) & 0x7fffffff);
        const int32_t rounded = (int32_t)bits_of_float(scaled + rounder);
        q[i] = (int8_t)(rounded & -(magnitude <= most));
        sum += q[i];
    }
    return sum;
}
