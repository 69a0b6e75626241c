/* SPDX-License-Identifier: Apache-2.0
 * Weights of -1, 0 and 1 times a scale: TQ1_0 has five weights in a byte, TQ2_0 has four.
 * Compiled for size in WebAssembly. */
#include "quant/codecs.h"

/* The elements of a TQ1_0 block are in three sections. In each of them the bytes hold, one after
 * the other, the digits of `digits` runs of elements, and a run has as many elements as the section
 * has bytes. */
static const struct section {
    int bytes, digits;
} sections[] = {{32, 5}, {16, 5}, {4, 4}};

enum { SECTIONS = 3, TQ1_0_BYTES = 54, TQ2_0_BYTES = 66 };

/* TQ1_0: 52 bytes of digits to the base 3, f16 d. A byte is the number that its five digits make,
 * as a fraction of 3^5 in 256ths, rounded up. Multiplied by 3 it carries the first digit into the
 * next byte. */
void codes_of_tq1_0(const unsigned char *block, unsigned char codes[256]) {
    for (int s = 0; s < SECTIONS; s++) {
        unsigned power = 1;
        for (int run = 0; run < sections[s].digits; run++, power *= 3)
            for (int j = 0; j < sections[s].bytes; j++)
                *codes++ = (unsigned char)((block[j] * power & 255) * 3 >> 8);
        block += sections[s].bytes;
    }
}

/* TQ2_0: 64 bytes of pairs of bits, f16 d. Each half of a block has 128 elements in 32 bytes: the
 * lowest pairs of these are elements 0..31, the next ones 32..63. */
void codes_of_tq2_0(const unsigned char *block, unsigned char codes[256]) {
    for (int j = 0; j < 256; j++)
        codes[j] = block[j / 128 * 32 + j % 32] >> j % 128 / 32 * 2 & 3;
}

/* Expands n elements of blocks of `bytes` bytes, which end with d. x = d (code - 1) */
static void expand(const unsigned char *block, size_t bytes,
                   void (*codes_of)(const unsigned char *, unsigned char *), size_t n, float *out) {
    unsigned char codes[256];
    for (size_t i = 0; i < n; i += 256, block += bytes, out += 256) {
        const float d = half_at(block + bytes - 2);
        codes_of(block, codes);
        for (int j = 0; j < 256; j++)
            out[j] = (float)(codes[j] - 1) * d;
    }
}

void dequantise_tq1_0(const void *blocks, size_t n, float *out) {
    expand(blocks, TQ1_0_BYTES, codes_of_tq1_0, n, out);
}

void dequantise_tq2_0(const void *blocks, size_t n, float *out) {
    expand(blocks, TQ2_0_BYTES, codes_of_tq2_0, n, out);
}

/* Returns the largest magnitude of 256 values, which is their scale. */
static float ternary_scale(const float *values) {
    const int largest = largest_at(values, 256);
    return largest < 256 ? fabsf(values[largest]) : 0;
}

/* Returns 0, 1 or 2 for a value nearest to -1, 0 or 1 times the scale, halves away from 0. */
static unsigned digit_of(float value, float inverse) {
    return (unsigned)whole_part(roundf(value * inverse)) + 1;
}

void quantise_tq1_0(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += 256, block += TQ1_0_BYTES) {
        const float d = ternary_scale(values), inverse = d != 0 ? 1 / d : 0;
        unsigned char *digits = block;
        for (int s = 0; s < SECTIONS; s++) {
            const int bytes = sections[s].bytes;
            for (int j = 0; j < bytes; j++) {
                unsigned number = 0;
                for (int run = 0; run < 5; run++)
                    number =
                        number * 3 +
                        (run < sections[s].digits ? digit_of(values[run * bytes + j], inverse) : 0);
                *digits++ = (unsigned char)(((number & 255) * 256 + 242) / 243);
            }
            values += sections[s].digits * bytes;
        }
        store_half(d, digits);
    }
}

void quantise_tq2_0(const float *values, size_t n, void *out) {
    unsigned char *block = out;
    for (size_t i = 0; i < n; i += 256, block += TQ2_0_BYTES, values += 256) {
        const float d = ternary_scale(values), inverse = d != 0 ? 1 / d : 0;
        for (int j = 0; j < 64; j++) {
            const float *first = values + j / 32 * 128 + j % 32;
            unsigned pairs = 0;
            for (int run = 0; run < 4; run++)
                pairs |= (digit_of(first[32 * run], inverse) & 3) << 2 * run;
            block[j] = (unsigned char)pairs;
        }
        store_half(d, block + TQ2_0_BYTES - 2);
    }
}
