/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of Q4_0 blocks into panels.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "base/half.h"
#include "kernels/kernels.h"

size_t packed_q4_bytes(size_t n, size_t k, size_t panel) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (int8_blocks(k) * sizeof(float) + k / Q4_BLOCK * Q4_BLOCK_BYTES);
}

/* Packs the block of 32 weights of row j of a panel, with nibbles as signed numbers. Returns the
 * sum of the weights. */
static float pack_part_row(const unsigned char *stored, size_t panel, size_t j,
                           unsigned char *part) {
    unsigned char *nibbles = part + panel * 2 + j * 4;
    uint32_t sums = 0; /* of nibbles, in four lanes of a byte */
    memcpy(part + j * 2, stored, 2);
    for (size_t c = 0; c < Q4_BLOCK / 2; c += 4, nibbles += panel * 4) {
        uint32_t eight;
        memcpy(&eight, stored + 2 + c, sizeof eight);
        sums += (eight & 0x0F0F0F0F) + (eight >> 4 & 0x0F0F0F0F); /* at most 120 in the end */
        eight ^= 0x88888888;
        memcpy(nibbles, &eight, sizeof eight);
    }
    sums = (sums & 0x00FF00FF) + (sums >> 8 & 0x00FF00FF);
    const int sum = (int)((sums & 0xFFFF) + (sums >> 16)) - 8 * Q4_BLOCK;
    return float_of_half(load_u16(stored)) * (float)sum;
}

void pack_q4(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {
    const unsigned char *rows = blocks;
    unsigned char *block = packed;
    memset(packed, 0, packed_q4_bytes(n, k, panel));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            const size_t length = k - start < INT8_BLOCK ? k - start : INT8_BLOCK;
            const size_t parts = length / Q4_BLOCK;
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored =
                    rows + ((first + j) * k + start) / Q4_BLOCK * Q4_BLOCK_BYTES;
                unsigned char *part = block + panel * sizeof(float);
                float sum = 0;
                for (size_t p = 0; p < parts; p++) {
                    sum += pack_part_row(stored, panel, j, part);
                    stored += Q4_BLOCK_BYTES;
                    part += panel * Q4_BLOCK_BYTES;
                }
                memcpy(block + j * sizeof(float), &sum, sizeof sum);
            }
            block += panel * (sizeof(float) + parts * Q4_BLOCK_BYTES);
        }
}
