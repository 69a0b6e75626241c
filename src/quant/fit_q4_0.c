/* SPDX-License-Identifier: Apache-2.0
 * Quantises to Q4_0 with less error than the reference. */
#include "quant/codecs.h"

static int round_to(float value, int low, int high) {
    const float bounded = fminf(fmaxf(value, (float)low), (float)high);
    return (int)lrintf(bounded);
}

/* Returns the squared error of a Q4_0 block of 32 values which are divided by `d` and rounded, and
 * then multiplied by *best_d, the scale that minimises the error (least squares). */
static float q4_0_error(const float *values, float d, float *best_d) {
    float xq = 0, qq = 0, xx = 0;
    for (int j = 0; j < 32; j++) {
        const float q = (float)round_to(values[j] / d, -8, 7);
        xq += values[j] * q;
        qq += q * q;
        xx += values[j] * values[j];
    }
    *best_d = qq > 0 ? xq / qq : d;
    return qq > 0 ? xx - xq * xq / qq : xx;
}

/* Returns the scale with the least squared error among 40 candidates. Plain rounding maps the
 * largest magnitude to -8. A smaller scale clamps that value and often rounds the other 31 more
 * exactly. Since the codes are -8..7, both signs of the scale are tried. */
static float q4_0_scale(const float *values) {
    const int extreme = largest_at(values, 32);
    const float largest = extreme < 32 ? fabsf(values[extreme]) : 0;
    float best = 0, best_error = INFINITY;
    for (int step = 0; step < 20 && largest > 0; step++) {
        const float magnitude = largest / (5.5f + 0.2f * (float)step);
        for (int sign = -1; sign <= 1; sign += 2) {
            float fitted;
            const float error = q4_0_error(values, (float)sign * magnitude, &fitted);
            if (error < best_error) {
                best_error = error;
                best = fitted;
            }
        }
    }
    return best;
}

/* Returns a scale as a reader of the file sees it, rounded to a 16-bit float. It is finite, since a
 * block with an infinite scale would expand to NaN. */
static float half_scale(float d) {
    return float_of_half(half_of_float(fminf(fmaxf(d, -HALF_LARGEST), HALF_LARGEST)));
}

static void q4_0_codes(const float *values, float d, int codes[32]) {
    const float inverse = d != 0 ? 1 / d : 0;
    for (int j = 0; j < 32; j++)
        codes[j] = round_to(values[j] * inverse, -8, 7);
}

static double q4_0_loss(const float *values, float d) {
    int codes[32];
    double loss = 0;
    q4_0_codes(values, d, codes);
    for (int j = 0; j < 32; j++) {
        const double off = (double)values[j] - (double)d * codes[j];
        loss += off * off;
    }
    return loss;
}

/* Returns the scale to store: the fitted one, or that of plain rounding where, with both rounded to
 * 16-bit floats, it has no larger error. */
static float q4_0_stored_scale(const float *values) {
    const int largest = largest_at(values, 32);
    const float extreme = largest < 32 ? values[largest] : 0;
    const float fitted = half_scale(q4_0_scale(values)), plain = half_scale(extreme / -8);
    return q4_0_loss(values, fitted) < q4_0_loss(values, plain) ? fitted : plain;
}

void quantise_q4_0_fitted(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += 32, block += 18, values += 32) {
        const float d = q4_0_stored_scale(values);
        int codes[32];
        q4_0_codes(values, d, codes);
        store_half(d, block);
        for (int j = 0; j < 16; j++)
            block[2 + j] = (unsigned char)((codes[j] + 8) | (codes[j + 16] + 8) << 4);
    }
}
