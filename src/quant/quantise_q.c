/* SPDX-License-Identifier: Apache-2.0
 * Quantises blocks of 32 elements by rounding. q_blocks.c describes the blocks. */
#include <float.h>

#include "quant/codecs.h"

/* The scale is at most HALF_LARGEST, since a block with an infinite one would expand to NaN. */
void quantise_q8_0(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += 32, block += 34, values += 32) {
        const int largest = largest_at(values, 32);
        const float d = largest < 32 ? fminf(fabsf(values[largest]) / 127, HALF_LARGEST) : 0;
        const float inverse = d > 0 ? 1 / d : 0;
        store_half(d, block);
        for (int j = 0; j < 32; j++) {
            const int q = whole_part(roundf(values[j] * inverse));
            block[2 + j] = (unsigned char)(q == INT_MIN ? 0 : clamped(q, -127, 127));
        }
    }
}

void store_low_bits(const int codes[32], unsigned char *nibbles) {
    for (int j = 0; j < 16; j++)
        nibbles[j] = (unsigned char)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}

void store_fifth_bits(const int codes[32], unsigned char *bytes) {
    uint32_t bits = 0;
    for (int j = 0; j < 32; j++)
        bits |= (uint32_t)(codes[j] >> 4 & 1) << j;
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(bits >> 8 * i & 255);
}

/* Rounds 32 values to codes 0..2 middle - 1 of steps from -middle: the value of the largest
 * magnitude becomes code 0. Returns the step. */
static float round_from_middle(const float *values, int middle, int codes[32]) {
    const int largest = largest_at(values, 32);
    const float d = largest < 32 ? values[largest] / (float)-middle : 0 / (float)-middle;
    const float inverse = d != 0 ? 1 / d : 0;
    for (int j = 0; j < 32; j++) {
        const signed char q = (signed char)whole_part(values[j] * inverse + ((float)middle + 0.5f));
        codes[j] = q < 2 * middle ? q : 2 * middle - 1;
    }
    return d;
}

/* Rounds 32 values to codes 0..most of steps from the least value, which goes to *least. Returns
 * the step. */
static float round_from_least(const float *values, int most, int codes[32], float *least) {
    float low = FLT_MAX, high = -FLT_MAX;
    for (int j = 0; j < 32; j++) {
        low = values[j] < low ? values[j] : low;
        high = values[j] > high ? values[j] : high;
    }
    const float d = (high - low) / (float)most, inverse = d != 0 ? 1 / d : 0;
    for (int j = 0; j < 32; j++) {
        const signed char q = (signed char)whole_part((values[j] - low) * inverse + 0.5f);
        codes[j] = q < most ? q : most;
    }
    *least = low;
    return d;
}

void quantise_q4_0(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    int codes[32];
    for (size_t i = 0; i < n; i += 32, block += 18, values += 32) {
        store_half(round_from_middle(values, 8, codes), block);
        store_low_bits(codes, block + 2);
    }
}

void quantise_q4_1(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    int codes[32];
    float least;
    for (size_t i = 0; i < n; i += 32, block += 20, values += 32) {
        store_half(round_from_least(values, 15, codes, &least), block);
        store_half(least, block + 2);
        store_low_bits(codes, block + 4);
    }
}

void quantise_q5_0(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    int codes[32];
    for (size_t i = 0; i < n; i += 32, block += 22, values += 32) {
        store_half(round_from_middle(values, 16, codes), block);
        store_fifth_bits(codes, block + 2);
        store_low_bits(codes, block + 6);
    }
}

void quantise_q5_1(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    int codes[32];
    float least;
    for (size_t i = 0; i < n; i += 32, block += 24, values += 32) {
        store_half(round_from_least(values, 31, codes, &least), block);
        store_half(least, block + 2);
        store_fifth_bits(codes, block + 4);
        store_low_bits(codes, block + 8);
    }
}
