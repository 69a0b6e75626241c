/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of ternary blocks into panels.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "kernels/kernels.h"
#include "quant/codecs.h"

size_t packed_ternary_bytes(size_t n, size_t k, size_t panel) {
    return (n + panel - 1) / panel * panel * (k / K_BLOCK) * TERNARY_BYTES;
}

size_t packed_i2_s_bytes(size_t n, size_t k, size_t panel) {
    const size_t rows = (n + panel - 1) / panel * panel;
    return rows * (sizeof(float) + k / INT8_BLOCK * TERNARY_HALF_BYTES);
}

/* A type's layout of 256 weights: `bytes` bytes, with the scale at byte `scale`. */
struct layout {
    size_t bytes, scale;
    void (*codes)(const unsigned char *block, unsigned char codes[K_BLOCK]);
};

/* Packs 128 codes of row j of a panel. */
static void pack_half(const unsigned char *codes, size_t panel, size_t j, unsigned char *half) {
    int sum = -INT8_BLOCK;
    for (size_t c = 0; c < INT8_BLOCK; c += 16)
        for (size_t i = 0; i < 4; i++) {
            const unsigned char *four = codes + c + i;
            sum += four[0] + four[4] + four[8] + four[12];
            half[panel * 2 + (c / 16 * panel + j) * 4 + i] =
                (unsigned char)(four[0] | four[4] << 2 | four[8] << 4 | four[12] << 6);
        }
    store_half((float)sum, half + j * 2);
}

static void pack_rows(const struct layout *layout, const unsigned char *rows, size_t n, size_t k,
                      size_t panel, unsigned char *block) {
    memset(block, 0, packed_ternary_bytes(n, k, panel));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += K_BLOCK, block += panel * TERNARY_BYTES)
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored =
                    rows + ((first + j) * k + start) / K_BLOCK * layout->bytes;
                unsigned char codes[K_BLOCK];
                layout->codes(stored, codes);
                memcpy(block + j * 2, stored + layout->scale, 2);
                pack_half(codes, panel, j, block + panel * 2);
                pack_half(codes + INT8_BLOCK, panel, j, block + panel * (2 + TERNARY_HALF_BYTES));
            }
}

void pack_tq1_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {
    static const struct layout layout = {54, 52, codes_of_tq1_0};
    pack_rows(&layout, blocks, n, k, panel, packed);
}

void pack_tq2_0(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {
    static const struct layout layout = {66, 64, codes_of_tq2_0};
    pack_rows(&layout, blocks, n, k, panel, packed);
}

void pack_bitnet_t158(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {
    static const struct layout layout = {66, 64, codes_of_bitnet_t158};
    pack_rows(&layout, blocks, n, k, panel, packed);
}

void pack_i2_s(const void *rows, size_t n, size_t k, size_t panel, void *packed) {
    const float *row = rows;
    memset(packed, 0, packed_i2_s_bytes(n, k, panel));
    for (size_t i = 0; i < n; i++, row += k) {
        unsigned char *first =
            (unsigned char *)packed + i / panel * packed_i2_s_bytes(panel, k, panel);
        unsigned char *half = first + panel * sizeof(float);
        float scale = 0;
        for (size_t c = 0; c < k; c += INT8_BLOCK, half += panel * TERNARY_HALF_BYTES) {
            unsigned char codes[INT8_BLOCK];
            for (size_t j = 0; j < INT8_BLOCK; j++) {
                const float value = row[c + j];
                scale = value > scale ? value : -value > scale ? -value : scale;
                codes[j] = (unsigned char)(1 + (value > 0) - (value < 0));
            }
            pack_half(codes, panel, i % panel, half);
        }
        memcpy(first + i % panel * sizeof(float), &scale, sizeof scale);
    }
}
