/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of Q4_1 and Q4_K blocks, whose weights have an offset, into panels; and adds up the
 * activations that are multiplied by the offsets.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "base/half.h"
#include "kernels/k_layout.h"
#include "kernels/kernels.h"
#include "quant/codecs.h"

size_t packed_q4_1_bytes(size_t n, size_t k, size_t panel) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (int8_blocks(k) * sizeof(float) + k / Q4_BLOCK * Q4_1_BLOCK_BYTES);
}

size_t packed_q4_k_bytes(size_t n, size_t k, size_t panel) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (int8_blocks(k) * 2 * sizeof(float) + k / Q4_BLOCK * Q4_BLOCK_BYTES);
}

/* Packs 32 weights, the nibbles of which are shifted by `shift`, of row j of a panel, as signed
 * numbers. Weight c is in byte c of `stored`, or for c >= 16 of `upper`, in the nibble that is
 * shifted by `upper_shift`. Returns the sum of the weights. */
static int pack_nibbles(const unsigned char *stored, int shift, const unsigned char *upper,
                        int upper_shift, size_t panel, size_t j, unsigned char *packed) {
    int sum = 0;
    for (size_t c = 0; c < Q4_BLOCK / 2; c++) {
        const int low = stored[c] >> shift & 15, high = upper[c] >> upper_shift & 15;
        sum += low - 8 + high - 8;
        packed[(c / 4 * panel + j) * 4 + c % 4] = (unsigned char)((low | high << 4) ^ 0x88);
    }
    return sum;
}

void pack_q4_1(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {
    const unsigned char *rows = blocks;
    unsigned char *block = packed;
    memset(packed, 0, packed_q4_1_bytes(n, k, panel));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            const size_t length = k - start < INT8_BLOCK ? k - start : INT8_BLOCK;
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored =
                    rows + ((first + j) * k + start) / Q4_BLOCK * Q4_1_BLOCK_BYTES;
                unsigned char *part = block + panel * sizeof(float);
                float sum = 0;
                for (size_t c = 0; c < length; c += Q4_BLOCK) {
                    memcpy(part + j * 2, stored, 2);
                    memcpy(part + (panel + j) * 2, stored + 2, 2);
                    sum += half_at(stored) * (float)pack_nibbles(stored + 4, 0, stored + 4, 4,
                                                                 panel, j, part + panel * 4);
                    stored += Q4_1_BLOCK_BYTES;
                    part += panel * Q4_1_BLOCK_BYTES;
                }
                memcpy(block + j * sizeof(float), &sum, sizeof sum);
            }
            block += panel * (sizeof(float) + length / Q4_BLOCK * Q4_1_BLOCK_BYTES);
        }
}

void pack_q4_k(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {
    const unsigned char *rows = blocks;
    unsigned char *block = packed;
    memset(packed, 0, packed_q4_k_bytes(n, k, panel));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored =
                    rows + ((first + j) * k + start) / K_BLOCK * Q4_K_BLOCK_BYTES;
                unsigned char *halves = block + panel * sizeof(float);
                unsigned char *part = halves + panel * sizeof(float);
                float sum = 0;
                memcpy(halves + j * 2, stored, 2);
                memcpy(halves + (panel + j) * 2, stored + 2, 2);
                for (size_t c = 0; c < INT8_BLOCK; c += Q4_BLOCK) {
                    const int index = (int)((start + c) % K_BLOCK / Q4_BLOCK);
                    const struct scale_and_min codes = scale_and_min_at(stored + 4, index);
                    const unsigned char *nibbles = stored + 16 + index / 2 * 32;
                    const int shift = 4 * (index % 2);
                    part[j] = (unsigned char)codes.scale;
                    part[panel + j] = (unsigned char)codes.min;
                    sum += half_at(stored) * (float)codes.scale *
                           (float)pack_nibbles(nibbles, shift, nibbles + 16, shift, panel, j,
                                               part + panel * 2);
                    part += panel * Q4_BLOCK_BYTES;
                }
                memcpy(block + j * sizeof(float), &sum, sizeof sum);
            }
            block += packed_q4_k_bytes(panel, INT8_BLOCK, panel);
        }
}

void sum_parts(struct quantised_rows x, size_t m, size_t k, size_t length, bool is_signed) {
    const size_t blocks = int8_blocks(k), parts = k / length;
    const uint8_t flipped = is_signed ? 128 : 0; /* which makes bytes 128 more, and unsigned */
    for (size_t i = 0; i < m; i++)
        for (size_t p = 0; p < parts; p++) {
            const uint8_t *q = x.q + i * k + p * length;
            int32_t sum = -(int32_t)length * flipped;
            for (size_t start = 0; start < length; start += K_HALF)
                for (size_t c = 0; c < K_HALF; c++)
                    sum += q[start + c] ^ flipped;
            x.part_sums[i * parts + p] =
                (float)sum - (float)length * x.zero[i * blocks + p * length / INT8_BLOCK];
        }
}
