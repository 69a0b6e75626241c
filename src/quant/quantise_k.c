/* SPDX-License-Identifier: Apache-2.0
 * Quantises blocks of 256 elements with scales of scales. k_blocks.c describes the blocks. Each
 * sub-block of 16 or 32 elements is fitted by itself; then the scales are rounded, and the elements
 * a second time, to the rounded scales. */
#include <string.h>

#include "quant/codecs.h"

/* Values whose largest magnitude is below this become zeros. */
#define NOTHING 1e-15f

enum { BLOCK = 256, LONGEST = 32 };

/* The fit of a sub-block of n values by codes 0..most, a scale and a minimum. The scales tried are
 * the range of the values divided by most + first, most + first + 0.1 and so on. */
struct fit {
    int n, most;
    float first;
    int last_step;
    bool absolute; /* whether errors are added up as magnitudes rather than squares */
};

static float fit_error(const struct fit *fit, const float *values, const float *weights,
                       const unsigned char *codes, float scale, float min) {
    float error = 0;
    for (int i = 0; i < fit->n; i++) {
        const float off = scale * (float)codes[i] + min - values[i];
        error += weights[i] * (fit->absolute ? fabsf(off) : off * off);
    }
    return error;
}

/* Finds codes, a scale and a minimum of at most 0 with a small weighted error, if a value is
 * about scale * code + minimum. Returns the scale; *minus_min is the minimum's magnitude. */
static float fit_with_min(const struct fit *fit, const float *values, const float *weights,
                          unsigned char *codes, float *minus_min) {
    const int n = fit->n;
    unsigned char tried[LONGEST];
    float min = values[0], max = values[0];
    float sum_w = weights[0], sum_x = weights[0] * values[0];
    for (int i = 1; i < n; i++) {
        min = values[i] < min ? values[i] : min;
        max = values[i] > max ? values[i] : max;
        sum_w += weights[i];
        sum_x += weights[i] * values[i];
    }
    min = min > 0 ? 0 : min;
    *minus_min = -min;
    memset(codes, 0, (size_t)n);
    if (max == min)
        return 0;
    float inverse = (float)fit->most / (max - min), scale = 1 / inverse;
    for (int i = 0; i < n; i++)
        codes[i] = (unsigned char)clamped(nearest_whole(inverse * (values[i] - min)), 0, fit->most);
    float least_error = fit_error(fit, values, weights, codes, scale, min);
    for (int step = 0; step <= fit->last_step; step++) {
        float sum_q = 0, sum_qq = 0, sum_xq = 0;
        inverse = (fit->first + 0.1f * (float)step + (float)fit->most) / (max - min);
        for (int i = 0; i < n; i++) {
            const int code = clamped(nearest_whole(inverse * (values[i] - min)), 0, fit->most);
            const float q = (float)code;
            tried[i] = (unsigned char)code;
            sum_q += weights[i] * q;
            sum_qq += weights[i] * q * q;
            sum_xq += weights[i] * q * values[i];
        }
        const float determinant = sum_w * sum_qq - sum_q * sum_q;
        if (!(determinant > 0))
            continue;
        float new_scale = (sum_w * sum_xq - sum_x * sum_q) / determinant;
        float new_min = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
        if (new_min > 0) {
            new_min = 0;
            new_scale = sum_xq / sum_qq;
        }
        const float error = fit_error(fit, values, weights, tried, new_scale, new_min);
        if (error < least_error) {
            memcpy(codes, tried, (size_t)n);
            least_error = error;
            scale = new_scale;
            min = new_min;
        }
    }
    *minus_min = -min;
    return scale;
}

/* Returns the largest of n scales or minima, at least 0. */
static float largest_of(const float *values, int n) {
    float largest = 0;
    for (int i = 0; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    return largest;
}

/* Stores the pairs of bits of 256 codes. */
static void store_pairs(const unsigned char *codes, int shift, unsigned char *pairs) {
    for (int j = 0; j < 64; j++) {
        const unsigned char *first = codes + j / 32 * 128 + j % 32;
        unsigned all = 0;
        for (int run = 0; run < 4; run++)
            all |= (unsigned)(first[32 * run] >> shift & 3) << 2 * run;
        pairs[j] = (unsigned char)all;
    }
}

void quantise_q2_k(const float *values, size_t n, void *out) {
    static const struct fit fit = {16, 3, -0.5f, 15, true};
    unsigned char *block = out, codes[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK, block += 84, values += BLOCK) {
        float scales[16], mins[16], weights[16];
        for (int j = 0; j < 16; j++) {
            for (int k = 0; k < 16; k++)
                weights[k] = fabsf(values[16 * j + k]);
            scales[j] = fit_with_min(&fit, values + 16 * j, weights, codes + 16 * j, &mins[j]);
        }
        const float scale = largest_of(scales, 16), min = largest_of(mins, 16);
        store_half(scale / 15, block + 80);
        store_half(min / 15, block + 82);
        for (int j = 0; j < 16; j++) {
            const int low = scale > 0 ? nearest_whole(15 / scale * scales[j]) : 0;
            const int high = min > 0 ? nearest_whole(15 / min * mins[j]) : 0;
            block[j] = (unsigned char)((unsigned)low | (unsigned)high << 4);
            const float d = half_at(block + 80) * (float)(block[j] & 15);
            const float m = half_at(block + 82) * (float)(block[j] >> 4);
            for (int k = 16 * j; k < 16 * j + 16 && d != 0; k++)
                codes[k] = (unsigned char)clamped(nearest_whole((values[k] + m) / d), 0, 3);
        }
        store_pairs(codes, 0, block + 16);
    }
}

/* Finds codes -4..3 and a scale with a small error, weighted by the squares of 16 values, and
 * stores the codes + 4. One code after the other is changed if that helps. */
static float fit_q3_k(const float *values, unsigned char *stored) {
    int codes[16];
    const int largest = largest_at(values, 16);
    memset(stored, 0, 16);
    if (largest == 16 || fabsf(values[largest]) < NOTHING)
        return 0;
    const float inverse = -4 / values[largest];
    float products = 0, squares = 0;
    for (int i = 0; i < 16; i++) {
        const float weight = values[i] * values[i];
        codes[i] = clamped(nearest_whole(inverse * values[i]), -4, 3);
        products += weight * values[i] * (float)codes[i];
        squares += weight * (float)codes[i] * (float)codes[i];
    }
    bool changed = true;
    for (int round = 0; round < 5 && changed; round++) {
        changed = false;
        for (int i = 0; i < 16; i++) {
            const float weight = values[i] * values[i], old = (float)codes[i];
            float p = products - weight * values[i] * old;
            if (!(p > 0))
                continue;
            float s = squares - weight * old * old;
            const int code = clamped(nearest_whole(values[i] * s / p), -4, 3);
            if (code == codes[i])
                continue;
            p += weight * values[i] * (float)code;
            s += weight * (float)code * (float)code;
            if (s > 0 && p * p * squares > products * products * s) {
                codes[i] = code;
                products = p;
                squares = s;
                changed = true;
            }
        }
    }
    for (int i = 0; i < 16; i++)
        stored[i] = (unsigned char)(codes[i] + 4);
    return squares > 0 ? products / squares : 0;
}

void quantise_q3_k(const float *values, size_t n, void *out) {
    unsigned char *block = out, codes[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK, block += 110, values += BLOCK) {
        unsigned char *scale_bytes = block + 96;
        float scales[16];
        for (int j = 0; j < 16; j++)
            scales[j] = fit_q3_k(values + 16 * j, codes + 16 * j);
        const int largest = largest_at(scales, 16);
        const float inverse = largest < 16 ? -32 / scales[largest] : 0;
        memset(block, 0, 110);
        store_half(largest < 16 ? 1 / inverse : 0, block + 108);
        for (int j = 0; j < 16 && largest < 16; j++) {
            const unsigned scale =
                (unsigned)(clamped((signed char)nearest_whole(inverse * scales[j]), -32, 31) + 32);
            scale_bytes[j % 8] |= (unsigned char)((scale & 15) << 4 * (j / 8));
            scale_bytes[8 + j % 4] |= (unsigned char)(scale >> 4 << 2 * (j / 4));
        }
        for (int j = 0; j < 16; j++) {
            const float d = half_at(block + 108) * (float)q3_k_scale(scale_bytes, j);
            for (int k = 16 * j; k < 16 * j + 16 && d != 0; k++)
                codes[k] = (unsigned char)(clamped(nearest_whole(values[k] / d), -4, 3) + 4);
        }
        for (int j = 0; j < BLOCK; j++)
            block[j % 32] |= (unsigned char)((codes[j] >> 2) << j / 32);
        store_pairs(codes, 0, block + 32);
    }
}

/* Fits 256 values to codes of sub-blocks of 32, and stores scales and minima in the 16 bytes that
 * Q4_K and Q5_K begin with. */
static void fit_q45_k(const struct fit *fit, const float *values, unsigned char *codes,
                      unsigned char *block) {
    float scales[8], mins[8], weights[32];
    unsigned char *packed = block + 4;
    for (int j = 0; j < 8; j++) {
        const float *part = values + 32 * j;
        float squares = 0;
        for (int k = 0; k < 32; k++)
            squares += part[k] * part[k];
        const float mean = sqrtf(squares / 32);
        for (int k = 0; k < 32; k++)
            weights[k] = mean + fabsf(part[k]);
        scales[j] = fit_with_min(fit, part, weights, codes + 32 * j, &mins[j]);
    }
    const float scale = largest_of(scales, 8), min = largest_of(mins, 8);
    const float scale_steps = scale > 0 ? 63 / scale : 0, min_steps = min > 0 ? 63 / min : 0;
    store_half(scale / 63, block);
    store_half(min / 63, block + 2);
    memset(packed, 0, 12);
    for (int j = 0; j < 8; j++) {
        const int s = clamped((unsigned char)nearest_whole(scale_steps * scales[j]), 0, 63);
        const int m = clamped((unsigned char)nearest_whole(min_steps * mins[j]), 0, 63);
        if (j < 4) {
            packed[j] = (unsigned char)s;
            packed[j + 4] = (unsigned char)m;
        } else {
            packed[j + 4] = (unsigned char)((s & 15) | (m & 15) << 4);
            packed[j - 4] |= (unsigned char)(s >> 4 << 6);
            packed[j] |= (unsigned char)(m >> 4 << 6);
        }
    }
    for (int j = 0; j < 8; j++) {
        const struct scale_and_min rounded = scale_and_min_at(packed, j);
        const float d = half_at(block) * (float)rounded.scale;
        const float m = half_at(block + 2) * (float)rounded.min;
        for (int k = 32 * j; k < 32 * j + 32 && d != 0; k++)
            codes[k] = (unsigned char)clamped(nearest_whole((values[k] + m) / d), 0, fit->most);
    }
}

/* Stores the low four bits of 256 codes. */
static void store_nibbles(const unsigned char *codes, unsigned char *nibbles) {
    for (int j = 0; j < 128; j++) {
        const unsigned char *low = codes + j / 32 * 64 + j % 32;
        nibbles[j] = (unsigned char)((low[0] & 15) | (low[32] & 15) << 4);
    }
}

void quantise_q4_k(const float *values, size_t n, void *out) {
    static const struct fit fit = {32, 15, -1, 20, false};
    unsigned char *block = out, codes[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK, block += 144, values += BLOCK) {
        fit_q45_k(&fit, values, codes, block);
        store_nibbles(codes, block + 16);
    }
}

void quantise_q5_k(const float *values, size_t n, void *out) {
    static const struct fit fit = {32, 31, -0.5f, 15, false};
    unsigned char *block = out, codes[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK, block += 176, values += BLOCK) {
        fit_q45_k(&fit, values, codes, block);
        memset(block + 16, 0, 32);
        for (int j = 0; j < BLOCK; j++)
            block[16 + j % 32] |= (unsigned char)((codes[j] >> 4) << j / 32);
        store_nibbles(codes, block + 48);
    }
}

/* Rounds 16 values to codes -32..31 and returns their products with the values and their squares,
 * both weighted by the squares of the values. */
static void correlate_q6_k(const float *values, float inverse, int *codes, float *products,
                           float *squares) {
    *products = *squares = 0;
    for (int i = 0; i < 16; i++) {
        const float weight = values[i] * values[i];
        codes[i] = clamped(nearest_whole(inverse * values[i]), -32, 31);
        *products += weight * values[i] * (float)codes[i];
        *squares += weight * (float)codes[i] * (float)codes[i];
    }
}

/* Finds a scale with a small weighted error among 19 that map the largest magnitude to or near -32.
 * Stores the codes + 32. */
static float fit_q6_k(const float *values, unsigned char *stored) {
    int codes[16];
    float products, squares;
    const int largest = largest_at(values, 16);
    memset(stored, 0, 16);
    if (largest == 16 || fabsf(values[largest]) < NOTHING)
        return 0;
    correlate_q6_k(values, -32 / values[largest], codes, &products, &squares);
    float scale = squares != 0 ? products / squares : 0, best = scale * products;
    for (int i = 0; i < 16; i++)
        stored[i] = (unsigned char)(codes[i] + 32);
    for (int step = -9; step <= 9; step++) {
        const float inverse = -(32 + 0.1f * (float)step) / values[largest];
        if (step == 0)
            continue;
        correlate_q6_k(values, inverse, codes, &products, &squares);
        if (!(squares > 0 && products * products > best * squares))
            continue;
        for (int i = 0; i < 16; i++)
            stored[i] = (unsigned char)(codes[i] + 32);
        scale = products / squares;
        best = scale * products;
    }
    return scale;
}

void quantise_q6_k(const float *values, size_t n, void *out) {
    unsigned char *block = out, codes[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK, block += 210, values += BLOCK) {
        float scales[16];
        for (int j = 0; j < 16; j++)
            scales[j] = fit_q6_k(values + 16 * j, codes + 16 * j);
        const int largest = largest_at(scales, 16);
        memset(block, 0, 210);
        if (largest == 16 || fabsf(scales[largest]) < NOTHING)
            continue;
        const float inverse = -128 / scales[largest];
        store_half(1 / inverse, block + 208);
        for (int j = 0; j < 16; j++) {
            const int rounded = nearest_whole(inverse * scales[j]);
            const signed char scale = (signed char)(rounded < 127 ? rounded : 127);
            const float d = half_at(block + 208) * (float)scale;
            block[192 + j] = (unsigned char)scale;
            for (int k = 16 * j; k < 16 * j + 16 && d != 0; k++)
                codes[k] = (unsigned char)(clamped(nearest_whole(values[k] / d), -32, 31) + 32);
        }
        for (int j = 0; j < 128; j++) {
            const unsigned char *low = codes + j / 64 * 128 + j % 64;
            block[j] = (unsigned char)((low[0] & 15) | (low[64] & 15) << 4);
        }
        store_pairs(codes, 4, block + 128);
    }
}
