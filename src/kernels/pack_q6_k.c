/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of Q6_K blocks into panels. src/quant/k_blocks.c describes the blocks. */
#include <string.h>

#include "base/half.h"
#include "kernels/kernels.h"

size_t packed_q6_k_bytes(size_t n, size_t k, size_t panel) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (int8_blocks(k) * (sizeof(float) + 2) + k / Q4_BLOCK * Q6_PART_BYTES);
}

/* Packs 32 codes of row j of a panel. They are sub-block `index` of 8 of a stored block. Returns
 * the sum of the weights without d. */
static int pack_part(const unsigned char *stored, int index, size_t panel, size_t j,
                     unsigned char *part) {
    const int half = index / 4, quarter = index % 4;
    const unsigned char *low = stored + 64 * half + 32 * (quarter & 1);
    const unsigned char *high = stored + 128 + 32 * half;
    const signed char *scales = (const signed char *)stored + 192 + 2 * index;
    unsigned char *nibbles = part + 2 * panel, *pairs = nibbles + 16 * panel;
    int sum = 0;
    for (size_t c = 0; c < 32; c++) {
        const size_t h = c / 16, g = c % 16 / 4, i = c % 4;
        const int nibble = low[c] >> 4 * (quarter / 2) & 15, pair = high[c] >> 2 * quarter & 3;
        nibbles[(g * panel + j) * 4 + i] |= (unsigned char)(nibble << 4 * h);
        pairs[(h * panel + j) * 4 + i] |= (unsigned char)(pair << 2 * g);
        sum += scales[h] * ((nibble | pair << 4) - 32);
    }
    part[j] = (unsigned char)(scales[0] + 128);
    part[panel + j] = (unsigned char)(scales[1] + 128);
    return sum;
}

void pack_q6_k(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {
    const unsigned char *rows = blocks;
    unsigned char *block = packed;
    memset(packed, 0, packed_q6_k_bytes(n, k, panel));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored =
                    rows + ((first + j) * k + start) / K_BLOCK * Q6_K_BLOCK_BYTES;
                unsigned char *halves = block + panel * sizeof(float), *part = halves + panel * 2;
                int sum = 0;
                memcpy(halves + j * 2, stored + 208, 2);
                for (size_t c = start; c < start + INT8_BLOCK;
                     c += 32, part += panel * Q6_PART_BYTES)
                    sum += pack_part(stored, (int)(c % K_BLOCK / 32), panel, j, part);
                const float scaled = float_of_half(load_u16(stored + 208)) * (float)sum;
                memcpy(block + j * sizeof(float), &scaled, sizeof scaled);
            }
            block += packed_q6_k_bytes(panel, INT8_BLOCK, panel);
        }
}
