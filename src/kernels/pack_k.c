/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of Q2_K, Q3_K, Q5_K and Q6_K blocks into panels. src/quant/k_blocks.c describes the
 * blocks. */
#include <string.h>

#include "base/half.h"
#include "kernels/k_layout.h"
#include "kernels/kernels.h"
#include "quant/codecs.h"

static size_t packed_bytes(size_t n, size_t k, size_t panel, int bits) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (int8_blocks(k) * k_header_bytes(bits) + k / K_PART * k_part_bytes(bits));
}

/* A part of a row: codes, the scale of each half, and the two bytes of scales and minima that are
 * packed. */
struct part {
    int codes[K_PART], scales[2];
    unsigned char bytes[2];
};

/* Reads part `index` of 8 of a stored block. */
static void read_q2_k(const unsigned char *block, int index, struct part *part) {
    for (int c = 0; c < K_PART; c++)
        part->codes[c] = block[16 + index / 4 * 32 + c] >> index % 4 * 2 & 3;
    for (int h = 0; h < 2; h++) {
        part->bytes[h] = block[2 * index + h];
        part->scales[h] = part->bytes[h] & 15;
    }
}

static void read_q3_k(const unsigned char *block, int index, struct part *part) {
    for (int c = 0; c < K_PART; c++)
        part->codes[c] =
            (block[32 + index / 4 * 32 + c] >> index % 4 * 2 & 3) | (block[c] >> index & 1) << 2;
    for (int h = 0; h < 2; h++) {
        part->scales[h] = q3_k_scale(block + 96, 2 * index + h);
        part->bytes[h] = (unsigned char)(part->scales[h] + 128);
    }
}

static void read_q5_k(const unsigned char *block, int index, struct part *part) {
    const struct scale_and_min codes = scale_and_min_at(block + 4, index);
    for (int c = 0; c < K_PART; c++)
        part->codes[c] = (block[48 + index / 2 * 32 + c] >> index % 2 * 4 & 15) |
                         (block[16 + c] >> index & 1) << 4;
    part->scales[0] = part->scales[1] = codes.scale;
    part->bytes[0] = (unsigned char)codes.scale;
    part->bytes[1] = (unsigned char)codes.min;
}

static void read_q6_k(const unsigned char *block, int index, struct part *part) {
    const int half = index / 4, quarter = index % 4;
    for (int c = 0; c < K_PART; c++)
        part->codes[c] = (block[64 * half + 32 * (quarter % 2) + c] >> quarter / 2 * 4 & 15) |
                         (block[128 + 32 * half + c] >> 2 * quarter & 3) << 4;
    for (int h = 0; h < 2; h++) {
        part->scales[h] = (signed char)block[192 + 2 * index + h];
        part->bytes[h] = (unsigned char)(part->scales[h] + 128);
    }
}

/* How a type stores K_BLOCK weights: in `bytes` bytes, with d and, where it has one, dmin after it
 * at byte `halves`. */
struct layout {
    int bits;
    size_t bytes, halves;
    void (*read)(const unsigned char *block, int index, struct part *part);
};

/* Packs a part to row j of a panel. Returns the sum of its weights without d, and without minima.
 */
static int pack_part(const struct part *part, int bits, size_t panel, size_t j,
                     unsigned char *packed) {
    unsigned char *nibbles = packed + 2 * panel;
    unsigned char *pairs = nibbles + (k_has_nibbles(bits) ? 16 * panel : 0);
    unsigned char *ones = pairs + (k_has_pairs(bits) ? 8 * panel : 0);
    int sum = 0;
    packed[j] = part->bytes[0];
    packed[panel + j] = part->bytes[1];
    for (size_t c = 0; c < K_PART; c++) {
        const size_t h = c / K_HALF, g = c % K_HALF / 4, i = c % 4;
        int code = part->codes[c];
        sum += part->scales[h] * (code - k_centre(bits));
        if (k_has_nibbles(bits)) {
            nibbles[(g * panel + j) * 4 + i] |= (unsigned char)((code & 15) << 4 * h);
            code >>= 4;
        }
        if (k_has_pairs(bits)) {
            pairs[(h * panel + j) * 4 + i] |= (unsigned char)((code & 3) << 2 * g);
            code >>= 2;
        }
        if (k_has_ones(bits))
            ones[j * 4 + i] |= (unsigned char)(code << (g + 4 * h));
    }
    return sum;
}

static void pack_rows(const struct layout *layout, const unsigned char *rows, size_t n, size_t k,
                      size_t panel, unsigned char *block) {
    const int bits = layout->bits;
    memset(block, 0, packed_bytes(n, k, panel, bits));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored =
                    rows + ((first + j) * k + start) / K_BLOCK * layout->bytes;
                unsigned char *halves = block + panel * sizeof(float);
                unsigned char *packed = block + panel * k_header_bytes(bits);
                int sum = 0;
                for (size_t c = start; c < start + INT8_BLOCK; c += K_PART) {
                    struct part part;
                    layout->read(stored, (int)(c % K_BLOCK / K_PART), &part);
                    sum += pack_part(&part, bits, panel, j, packed);
                    packed += panel * k_part_bytes(bits);
                }
                memcpy(halves + j * 2, stored + layout->halves, 2);
                if (k_has_min(bits))
                    memcpy(halves + (panel + j) * 2, stored + layout->halves + 2, 2);
                const float scaled = half_at(stored + layout->halves) * (float)sum;
                memcpy(block + j * sizeof(float), &scaled, sizeof scaled);
            }
            block += packed_bytes(panel, INT8_BLOCK, panel, bits);
        }
}

/* Defines pack_NAME and packed_NAME_bytes. */
#define PACK(NAME, BITS, BYTES, HALVES)                                                            \
    size_t packed_##NAME##_bytes(size_t n, size_t k, size_t panel) {                               \
        return packed_bytes(n, k, panel, BITS);                                                    \
    }                                                                                              \
    void pack_##NAME(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {         \
        static const struct layout layout = {BITS, BYTES, HALVES, read_##NAME};                    \
        pack_rows(&layout, blocks, n, k, panel, packed);                                           \
    }
PACK(q2_k, 2, 84, 80)
PACK(q3_k, 3, 110, 108)
PACK(q5_k, 5, 176, 0)
PACK(q6_k, 6, 210, 208)
