/* SPDX-License-Identifier: Apache-2.0
 * Quantises to MXFP4, floats of 4 bits with a common power of two. */
#include "quant/codecs.h"

/* Returns the first of the codes nearest to x. */
static int nearest_code(float x, float d) {
    int best = 0;
    float least = fabsf((float)mxfp4_doubled[0] * d - x);
    for (int code = 1; code < 16; code++) {
        const float distance = fabsf((float)mxfp4_doubled[code] * d - x);
        if (distance < least) {
            least = distance;
            best = code;
        }
    }
    return best;
}

void quantise_mxfp4(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += 32, block += 17, values += 32) {
        const int largest = largest_at(values, 32);
        /* The largest magnitude is divided by a power of two that leaves 4 to 8, of which 6 is the
         * largest code. */
        const int exponent =
            largest < 32 ? whole_part(floorf(log2f(fabsf(values[largest]))) - 2 + 127) : 0;
        block[0] = (unsigned char)clamped(exponent, 0, 255);
        const float d = mxfp4_scale(block[0]);
        for (int j = 0; j < 16; j++)
            block[1 + j] =
                (unsigned char)(nearest_code(values[j], d) | nearest_code(values[j + 16], d) << 4);
    }
}
