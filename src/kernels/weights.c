/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/weights.h"

#include <math.h>

#include "base/half.h"
#include "kernels/kernels.h"

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

float narrow_quarter(const float *w, size_t n, float largest) {
    float most = 0;
    for (size_t i = 0; i < n; i += 8) {
        float eight[8] = {0}, above[4], below[4];
        memcpy(eight, w + i, (n - i < 8 ? n - i : 8) * sizeof *w);
        for (int c = 0; c < 4; c++) {
            const float low = eight[c] * 0.25f, high = eight[c + 4] * 0.25f;
            above[c] = (low > 0 ? low : 0) + (high > 0 ? high : 0);
            below[c] = (low < 0 ? low : 0) + (high < 0 ? high : 0);
        }
        for (int c = 0; c < 4; c += 2) {
            most = above[c] + above[c + 1] > most ? above[c] + above[c + 1] : most;
            most = -below[c] - below[c + 1] > most ? -below[c] - below[c + 1] : most;
        }
    }
    /* Each of the four weights may be rounded up by 1/2. */
    const float needed = most * (127.0f / (NARROW_WEIGHTS - 2));
    return needed > largest / 4 ? needed : largest / 4;
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
