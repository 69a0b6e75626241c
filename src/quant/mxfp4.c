/* SPDX-License-Identifier: Apache-2.0
 * MXFP4: floats of 4 bits with a power of two in common. Source: OCP Microscaling Formats (MX)
 * Specification 1.0. */
#include "quant/codecs.h"

/* Twice the values of the codes, which are whole numbers. */
static const signed char doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* Returns half of 2^(exponent - 127), the factor of `doubled`. */
static float half_scale(unsigned exponent) {
    return exponent < 2 ? float_of_bits(0x00200000u << exponent)
                        : float_of_bits((exponent - 1) << 23);
}

/* MXFP4: u8 exponent, 16 bytes whose low nibbles are elements 0..15 and whose high ones 16..31. */
void dequantise_mxfp4(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 32, b += 17, out += 32) {
        const float d = half_scale(b[0]);
        for (int j = 0; j < 16; j++) {
            out[j] = (float)doubled[b[1 + j] & 15] * d;
            out[j + 16] = (float)doubled[b[1 + j] >> 4] * d;
        }
    }
}

/* Returns the first of the codes nearest to x. */
static int nearest_code(float x, float d) {
    int best = 0;
    float least = fabsf((float)doubled[0] * d - x);
    for (int code = 1; code < 16; code++) {
        const float distance = fabsf((float)doubled[code] * d - x);
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
        const float d = half_scale(block[0]);
        for (int j = 0; j < 16; j++)
            block[1 + j] =
                (unsigned char)(nearest_code(values[j], d) | nearest_code(values[j + 16], d) << 4);
    }
}
