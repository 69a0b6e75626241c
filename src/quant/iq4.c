/* SPDX-License-Identifier: Apache-2.0
 * 4-bit codes for 16 levels that are closer together near 0: IQ4_XS, and the quantiser of IQ4_NL.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "quant/codecs.h"

int iq4_xs_scale(const unsigned char *block, int j) {
    const int low = block[4 + j / 2] >> 4 * (j % 2) & 15, high = load_u16(block + 2) >> 2 * j & 3;
    return (low | high << 4) - 32;
}

/* IQ4_XS: f16 d, u16 whose pairs of bits are the high bits of eight scales, 4 bytes whose nibbles
 * are the low ones, 128 bytes of nibbles, 16 for each 32 elements. x = d (scale - 32) level */
void dequantise_iq4_xs(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i += 256, b += 136)
        for (int j = 0; j < 8; j++, out += 32) {
            const float d = half_at(b) * (float)iq4_xs_scale(b, j);
            expand_levels(b + 8 + 16 * j, iq4_levels, d, out);
        }
}

/* Returns the code of the level nearest to x, and that of the upper one if two are equally
 * near. */
static int nearest_level(float x) {
    if (x <= (float)iq4_levels[0])
        return 0;
    if (x >= (float)iq4_levels[15])
        return 15;
    int low = 0, high = 15;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (x < (float)iq4_levels[middle])
            high = middle;
        else
            low = middle;
    }
    return x - (float)iq4_levels[low] < (float)iq4_levels[high] - x ? low : high;
}

/* Adds up the products of the values and the levels nearest to values * inverse, and the squares of
 * those levels, both weighted by the values' squares. */
static void correlate(const float *values, float inverse, float *products, float *squares) {
    *products = *squares = 0;
    for (int j = 0; j < 32; j++) {
        const float level = (float)iq4_levels[nearest_level(inverse * values[j])];
        const float weight = values[j] * values[j];
        *products += weight * level * values[j];
        *squares += weight * level * level;
    }
}

/* Returns the scale of 32 values: the one with the least weighted squared error among 16
 * candidates, which map the largest magnitude to the first level or near it. */
static float fit_scale(const float *values) {
    const int largest = largest_at(values, 32);
    float products, squares;
    if (largest == 32 || fabsf(values[largest]) < 1e-15f)
        return 0;
    const float first = (float)iq4_levels[0], extreme = values[largest];
    correlate(values, 1 / (-extreme / first), &products, &squares);
    float scale = squares > 0 ? products / squares : 0, best = scale * products;
    for (int step = -7; step <= 7; step++) {
        correlate(values, ((float)step + first) / extreme, &products, &squares);
        if (squares > 0 && products * products > best * squares) {
            scale = products / squares;
            best = scale * products;
        }
    }
    return scale;
}

static void store_codes(const float *values, float inverse, unsigned char *nibbles) {
    for (int j = 0; j < 16; j++)
        nibbles[j] = (unsigned char)(nearest_level(inverse * values[j]) |
                                     nearest_level(inverse * values[j + 16]) << 4);
}

void quantise_iq4_nl(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += 32, block += 18, values += 32) {
        const float d = fit_scale(values);
        store_half(d, block);
        store_codes(values, d != 0 ? 1 / d : 0, block + 2);
    }
}

void quantise_iq4_xs(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += 256, block += 136, values += 256) {
        float scales[8];
        for (int j = 0; j < 8; j++)
            scales[j] = fit_scale(values + 32 * j);
        const int largest = largest_at(scales, 8);
        const float d = largest < 8 ? -scales[largest] / 32 : -0.0f;
        const float inverse = d != 0 ? 1 / d : 0;
        unsigned high = 0;
        memset(block, 0, 8);
        store_half(d, block);
        for (int j = 0; j < 8; j++) {
            const int scale = clamped(nearest_whole(inverse * scales[j]), -32, 31);
            const float step = d * (float)scale;
            store_codes(values + 32 * j, step != 0 ? 1 / step : 0, block + 8 + 16 * j);
            block[4 + j / 2] |= (unsigned char)((scale + 32) % 16 << 4 * (j % 2));
            high |= (unsigned)(scale + 32) / 16 << 2 * j;
        }
        block[2] = (unsigned char)(high & 0xff);
        block[3] = (unsigned char)(high >> 8);
    }
}
