/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of IQ4_NL, IQ4_XS and MXFP4 blocks into panels. src/quant/levels.c and iq4.c describe
 * the blocks.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "base/byte_order.h"
#include "kernels/kernels.h"
#include "kernels/level_layout.h"
#include "quant/codecs.h"

enum { IQ4_NL_BYTES = 18, IQ4_XS_BYTES = 136, MXFP4_BYTES = 17 };

const struct level_layout layout_iq4_nl = {iq4_levels, LEVEL_HALVES, 4, 18};
const struct level_layout layout_iq4_xs = {iq4_levels, LEVEL_BYTES, 6, 17};
const struct level_layout layout_mxfp4 = {mxfp4_doubled, LEVEL_BFLOATS, 4, 18};

size_t packed_level_bytes(const struct level_layout *layout, size_t n, size_t k, size_t panel) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (int8_blocks(k) * layout->header_bytes + k / Q4_BLOCK * layout->part_bytes);
}

/* Packs the scale of the weights from element c of a stored row to row j of a panel, whose block's
 * d has its place at `halves`. Returns the scale, and where the nibbles are. */
static float pack_scale(enum level_scales scales, const unsigned char *stored, size_t c, size_t j,
                        unsigned char *halves, unsigned char *part, const unsigned char **nibbles) {
    if (scales == LEVEL_BYTES) {
        const unsigned char *block = stored + c / K_BLOCK * IQ4_XS_BYTES;
        const size_t index = c % K_BLOCK / Q4_BLOCK;
        const int scale = iq4_xs_scale(block, (int)index);
        memcpy(halves + j * 2, block, 2);
        part[j] = (unsigned char)(scale + LEVEL_CENTRE);
        *nibbles = block + 8 + index * (Q4_BLOCK / 2);
        return half_at(block) * (float)scale;
    }
    const size_t bytes = scales == LEVEL_HALVES ? IQ4_NL_BYTES : MXFP4_BYTES;
    const unsigned char *block = stored + c / Q4_BLOCK * bytes;
    *nibbles = block + bytes - Q4_BLOCK / 2;
    if (scales == LEVEL_HALVES) {
        memcpy(part + j * 2, block, 2);
        return half_at(block);
    }
    const float scale = mxfp4_scale(block[0]);
    store_u16(part + j * 2, (uint16_t)(bits_of_float(scale) >> 16));
    return scale;
}

/* Packs 32 codes to row j of a panel. Returns the sum of their levels. */
static int pack_codes(const unsigned char *nibbles, const signed char *levels, size_t panel,
                      size_t j, unsigned char *packed) {
    int sum = 0;
    for (size_t c = 0; c < Q4_BLOCK / 2; c++) {
        sum += levels[nibbles[c] & 15] + levels[nibbles[c] >> 4];
        packed[(c / 4 * panel + j) * 4 + c % 4] = nibbles[c];
    }
    return sum;
}

/* Packs rows of which each has row_bytes. */
static void pack_levels(const struct level_layout *layout, const unsigned char *rows,
                        size_t row_bytes, size_t n, size_t k, size_t panel, unsigned char *block) {
    memset(block, 0, packed_level_bytes(layout, n, k, panel));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            const size_t end = k - start < INT8_BLOCK ? k : start + INT8_BLOCK;
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored = rows + (first + j) * row_bytes, *nibbles;
                unsigned char *part = block + panel * layout->header_bytes;
                float sum = 0;
                for (size_t c = start; c < end; c += Q4_BLOCK, part += panel * layout->part_bytes) {
                    unsigned char *codes = part + panel * (layout->part_bytes - Q4_BLOCK / 2);
                    const float scale = pack_scale(layout->scales, stored, c, j,
                                                   block + panel * sizeof sum, part, &nibbles);
                    sum += scale * (float)pack_codes(nibbles, layout->levels, panel, j, codes);
                }
                memcpy(block + j * sizeof sum, &sum, sizeof sum);
            }
            block += packed_level_bytes(layout, panel, end - start, panel);
        }
}

/* Defines pack_NAME and packed_NAME_bytes. ROW_BYTES are those of a stored row of k. */
#define PACK(NAME, ROW_BYTES)                                                                      \
    size_t packed_##NAME##_bytes(size_t n, size_t k, size_t panel) {                               \
        return packed_level_bytes(&layout_##NAME, n, k, panel);                                    \
    }                                                                                              \
    void pack_##NAME(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {         \
        pack_levels(&layout_##NAME, blocks, ROW_BYTES, n, k, panel, packed);                       \
    }
PACK(iq4_nl, k / Q4_BLOCK * IQ4_NL_BYTES)
PACK(iq4_xs, k / K_BLOCK * IQ4_XS_BYTES)
PACK(mxfp4, k / Q4_BLOCK * MXFP4_BYTES)
