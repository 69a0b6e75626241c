/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of Q2_K, Q3_K, Q5_K, Q6_K, Q5_0 and Q5_1 blocks into panels. src/quant/k_blocks.c and
 * q_blocks.c describe the blocks.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "base/half.h"
#include "kernels/k_layout.h"
#include "kernels/kernels.h"
#include "quant/codecs.h"

static size_t packed_bytes(size_t n, size_t k, size_t panel, int bits, enum k_scales scales) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (int8_blocks(k) * k_header_bytes(bits, scales) +
                   k / K_PART * k_part_bytes(bits, scales));
}

/* A part of a row: codes, the scale of each half, and the two bytes of scales and minima that are
 * packed unless floats are. */
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

/* Reads a block of Q5_0 or Q5_1, whose fifth bits begin at `high`. */
static void read_five_bits(const unsigned char *high, struct part *part) {
    for (int c = 0; c < K_PART; c++)
        part->codes[c] = five_bits(high + 4, load_u32(high), c);
    part->scales[0] = part->scales[1] = 1;
}

static void read_q5_0(const unsigned char *block, int index, struct part *part) {
    (void)index;
    read_five_bits(block + 2, part);
}

static void read_q5_1(const unsigned char *block, int index, struct part *part) {
    (void)index;
    read_five_bits(block + 4, part);
}

/* How a type stores `elements` weights: in `bytes` bytes, with d and, if it has one, dmin or m
 * after it at byte `halves`. */
struct layout {
    int bits;
    enum k_scales scales;
    size_t elements, bytes, halves;
    void (*read)(const unsigned char *block, int index, struct part *part);
};

/* Packs the code of weight 16 h + 4 g + i of a part to the bytes [panel][4] of row j. */
static void pack_code(int code, int bits, size_t panel, size_t h, size_t g, unsigned char *four) {
    unsigned char *own = four + (bits == 6 ? 3 * h + g : bits == 5 ? g : h) * panel * 4;
    unsigned char *ones = four + panel * (bits == 5 ? 16 : 8);
    if (bits == 6 && g == 3) {
        for (size_t p = 0; p < 3; p++)
            four[(3 * h + p) * panel * 4] |= (unsigned char)((code >> 2 * p & 3) << 6);
        return;
    }
    if (bits == 6)
        *own |= (unsigned char)code;
    else
        *own |= (unsigned char)(bits == 5 ? (code & 15) << 4 * h : (code & 3) << 2 * g);
    if (bits == 5 || bits == 3)
        *ones |= (unsigned char)(code >> (bits - 1) << (g + 4 * h));
}

/* Packs the codes of a part to row j of a panel. Returns the sum of its weights without d, and
 * without minima. */
static int pack_codes(const struct part *part, int bits, size_t panel, size_t j,
                      unsigned char *codes) {
    int sum = 0;
    for (size_t c = 0; c < K_PART; c++) {
        const size_t h = c / K_HALF;
        sum += part->scales[h] * (part->codes[c] - k_centre(bits));
        pack_code(part->codes[c], bits, panel, h, c % K_HALF / 4, codes + j * 4 + c % 4);
    }
    return sum;
}

/* Packs d and the minimum of row j of a panel, 16-bit floats that are one after the other. */
static void pack_halves_of(const unsigned char *halves, bool has_min, size_t panel, size_t j,
                           unsigned char *packed) {
    memcpy(packed + j * 2, halves, 2);
    if (has_min)
        memcpy(packed + (panel + j) * 2, halves + 2, 2);
}

/* Packs an INT8_BLOCK, or the `length` weights that a row has left, to row j of a panel. They begin
 * at the index `start` of the rows. */
static void pack_block(const struct layout *layout, const unsigned char *rows, size_t start,
                       size_t length, size_t panel, size_t j, unsigned char *block) {
    const int bits = layout->bits;
    const enum k_scales scales = layout->scales;
    const bool parts_scaled = scales != K_SCALES;
    const bool has_min = parts_scaled ? scales == K_SCALES_D_AND_M : k_has_min(bits);
    unsigned char *packed = block + panel * k_header_bytes(bits, scales);
    int whole = 0;
    float sum = 0;
    for (size_t c = start; c < start + length; c += K_PART) {
        const unsigned char *stored = rows + c / layout->elements * layout->bytes;
        const unsigned char *halves = stored + layout->halves;
        struct part part;
        layout->read(stored, (int)(c % layout->elements / K_PART), &part);
        whole += pack_codes(&part, bits, panel, j, packed + panel * k_scale_bytes(scales));
        for (size_t i = 0; i < 2 && !parts_scaled; i++)
            packed[i * panel + j] = part.bytes[i];
        pack_halves_of(halves, has_min, panel, j,
                       parts_scaled ? packed : block + panel * sizeof(float));
        if (parts_scaled || c + K_PART == start + length) {
            sum += half_at(halves) * (float)whole;
            whole = 0;
        }
        packed += panel * k_part_bytes(bits, scales);
    }
    memcpy(block + j * sizeof(float), &sum, sizeof sum);
}

static void pack_rows(const struct layout *layout, const unsigned char *rows, size_t n, size_t k,
                      size_t panel, unsigned char *block) {
    memset(block, 0, packed_bytes(n, k, panel, layout->bits, layout->scales));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += INT8_BLOCK) {
            const size_t length = k - start < INT8_BLOCK ? k - start : INT8_BLOCK;
            for (size_t j = 0; j < panel && first + j < n; j++)
                pack_block(layout, rows, (first + j) * k + start, length, panel, j, block);
            block += packed_bytes(panel, length, panel, layout->bits, layout->scales);
        }
}

/* Defines pack_NAME and packed_NAME_bytes. */
#define PACK(NAME, BITS, SCALES, ELEMENTS, BYTES, HALVES)                                          \
    size_t packed_##NAME##_bytes(size_t n, size_t k, size_t panel) {                               \
        return packed_bytes(n, k, panel, BITS, SCALES);                                            \
    }                                                                                              \
    void pack_##NAME(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {         \
        static const struct layout layout = {BITS, SCALES, ELEMENTS, BYTES, HALVES, read_##NAME};  \
        pack_rows(&layout, blocks, n, k, panel, packed);                                           \
    }
PACK(q2_k, 2, K_SCALES, K_BLOCK, 84, 80)
PACK(q3_k, 3, K_SCALES, K_BLOCK, 110, 108)
PACK(q5_k, 5, K_SCALES, K_BLOCK, 176, 0)
PACK(q6_k, 6, K_SCALES, K_BLOCK, 210, 208)
PACK(q5_0, 5, K_SCALES_D, K_PART, 22, 0)
PACK(q5_1, 5, K_SCALES_D_AND_M, K_PART, 24, 0)
