/* SPDX-License-Identifier: Apache-2.0
 * Expands 4-bit codes that name one of 16 levels: Q4_0, IQ4_NL and MXFP4. One loop serves all
 * three, since every page that embeds downloads it. Source of MXFP4: OCP Microscaling Formats (MX)
 * Specification 1.0.
 * Compiled for size in WebAssembly. */
#include "quant/codecs.h"

static const signed char q4_0_levels[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

const signed char iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

const signed char mxfp4_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void expand_levels(const unsigned char *nibbles, const signed char *levels, float d, float *out) {
    for (int j = 0; j < 16; j++) {
        out[j] = d * (float)levels[nibbles[j] & 15];
        out[j + 16] = d * (float)levels[nibbles[j] >> 4];
    }
}

/* Expands blocks of a scale in `scale_bytes` bytes, which is a half in two or an exponent in one,
 * and 16 bytes of nibbles. */
static void expand_blocks(const unsigned char *block, size_t n, const signed char *levels,
                          size_t scale_bytes, float *out) {
    for (size_t i = 0; i < n; i += 32, block += scale_bytes + 16, out += 32)
        expand_levels(block + scale_bytes, levels,
                      scale_bytes == 1 ? mxfp4_scale(block[0]) : half_at(block), out);
}

/* Q4_0: f16 d, 16 bytes whose low nibbles are elements 0..15 and whose high ones 16..31.
 * x = d (q - 8) */
void dequantise_q4_0(const void *blocks, size_t n, float *out) {
    expand_blocks(blocks, n, q4_0_levels, 2, out);
}

/* IQ4_NL: f16 d, nibbles as in Q4_0. x = d level */
void dequantise_iq4_nl(const void *blocks, size_t n, float *out) {
    expand_blocks(blocks, n, iq4_levels, 2, out);
}

/* MXFP4: u8 exponent, nibbles as in Q4_0, which are floats of 4 bits. x = 2^(exponent - 128) level
 */
void dequantise_mxfp4(const void *blocks, size_t n, float *out) {
    expand_blocks(blocks, n, mxfp4_doubled, 1, out);
}
