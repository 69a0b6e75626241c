/* SPDX-License-Identifier: Apache-2.0
 * Reads and writes rows of floats of 32 and 16 bits. */
#include <string.h>

#include "base/byte_order.h"
#include "quant/codecs.h"

void dequantise_f32(const void *blocks, size_t n, float *out) {
    memcpy(out, blocks, n * sizeof *out);
    swap_file_numbers(out, n, sizeof *out);
}

void dequantise_f16(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i++)
        out[i] = half_at(b + 2 * i);
}

void dequantise_bf16(const void *blocks, size_t n, float *out) {
    const unsigned char *b = blocks;
    for (size_t i = 0; i < n; i++)
        out[i] = float_of_bfloat(load_u16(b + 2 * i));
}

void quantise_f32(const float *values, size_t n, void *out) {
    memcpy(out, values, n * sizeof *values);
    swap_file_numbers(out, n, sizeof *values);
}

void quantise_f16(const float *values, size_t n, void *out) {
    unsigned char *bytes = out;
    for (size_t i = 0; i < n; i++)
        store_half(values[i], bytes + 2 * i);
}

void quantise_bf16(const float *values, size_t n, void *out) {
    unsigned char *bytes = out;
    for (size_t i = 0; i < n; i++) {
        const uint16_t rounded = bfloat_of_float(values[i]);
        bytes[2 * i] = (unsigned char)(rounded & 255);
        bytes[2 * i + 1] = (unsigned char)(rounded >> 8);
    }
}
