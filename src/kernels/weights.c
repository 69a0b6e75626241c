/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/weights.h"

#include <math.h>
#include <string.h>

float largest_magnitude(const float *w, size_t n) {
    /* Side by side, as one maximum after the other would wait for the one before. */
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

int32_t round_weights(const float *w, size_t n, float inverse, int8_t *q) {
    /* Added to a number of magnitude below 2^22, it leaves the nearest whole number in the low bits
     * of the sum: unlike lrintf, this is done for several at a time. */
    const float rounder = 12582912;
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const float scaled = w[i] * inverse, rounded = scaled + rounder;
        int32_t bits;
        memcpy(&bits, &rounded, sizeof bits);
        q[i] = fabsf(scaled) <= 127.5f ? (int8_t)bits : 0;
        sum += q[i];
    }
    return sum;
}
