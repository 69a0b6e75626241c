/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/weights.h"

#include <math.h>

#include "base/half.h"
#include "kernels/vector.h"

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
    float quarters[NARROW_BLOCK] = {0}, up[NARROW_BLOCK / 8][4], down[NARROW_BLOCK / 8][4];
    float most = 0;
    const size_t eights = (n + 7) / 8;
    for (size_t i = 0; i < n; i++)
        quarters[i] = w[i] / 4;
    /* Compilers vectorise this loop only if the next one is apart. */
    UNROLL_NOT
    for (size_t e = 0; e < eights; e++)
        for (size_t i = 0; i < 4; i++) {
            const float a = quarters[8 * e + i], b = quarters[8 * e + 4 + i];
            up[e][i] = (a > 0 ? a : 0) + (b > 0 ? b : 0);
            down[e][i] = (a < 0 ? a : 0) + (b < 0 ? b : 0);
        }
    UNROLL_NOT
    for (size_t e = 0; e < eights; e++)
        for (size_t i = 0; i < 4; i += 2) {
            const float above = up[e][i] + up[e][i + 1], below = -down[e][i] - down[e][i + 1];
            const float larger = above > below ? above : below;
            most = larger > most ? larger : most;
        }
    /* Each of the four weights may be rounded up by 1/2. */
    const float needed = most * (127.0f / (NARROW_WEIGHTS - 2));
    return needed > largest / 4 ? needed : largest / 4;
}

int32_t round_weights(const float *restrict w, size_t n, float inverse, int8_t *restrict q) {
    /* Adding 1.5 * 2^23 to a number of magnitude below 2^22 adds the nearest whole number to the
     * bits of the sum. Compilers vectorise this, and the mask below, but neither lrintf nor a
     * branch.
     */
    const float rounder = 12582912;
    const int32_t zero = (int32_t)bits_of_float(rounder);
    const int32_t most = (int32_t)bits_of_float(127.5f);
    int32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const float scaled = w[i] * inverse;
        const int32_t magnitude = (int32_t)(bits_of_float(scaled) & 0x7fffffff);
        const int32_t rounded = (int32_t)bits_of_float(scaled + rounder) & -(magnitude <= most);
        const int32_t value = rounded - (zero & -(magnitude <= most));
        q[i] = (int8_t)value;
        sum += value;
    }
    return sum;
}
