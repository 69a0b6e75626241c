/* SPDX-License-Identifier: Apache-2.0
 * Packs rows of blocks with weights of one and two bits into panels.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/ternary_layout.h"
#include "quant/codecs.h"

static size_t packed_bytes(size_t n, size_t k, size_t panel, size_t scaled) {
    return (n + panel - 1) / panel * panel * (k / scaled) * ternary_bytes(scaled, scaled);
}

size_t packed_ternary_bytes(size_t n, size_t k, size_t panel) {
    return packed_bytes(n, k, panel, K_BLOCK);
}

size_t packed_pq2_0_bytes(size_t n, size_t k, size_t panel) {
    return packed_bytes(n, k, panel, INT8_BLOCK);
}

size_t packed_q2_0_bytes(size_t n, size_t k, size_t panel) {
    return packed_bytes(n, k, panel, TERNARY_LEAST);
}

size_t packed_i2_s_bytes(size_t n, size_t k, size_t panel) {
    return (n + panel - 1) / panel * panel * ternary_bytes(0, k);
}

/* A type's layout of `scaled` weights: `bytes` bytes, with the scale at byte `scale`. */
struct layout {
    size_t scaled, bytes, scale;
    void (*codes)(const unsigned char *block, unsigned char codes[K_BLOCK]);
};

/* Packs `length` codes of row j of a panel. */
static void pack_part(const unsigned char *codes, size_t length, size_t panel, size_t j,
                      unsigned char *part) {
    int sum = -(int)length;
    for (size_t c = 0; c < length; c += 16)
        for (size_t i = 0; i < 4; i++) {
            const unsigned char *four = codes + c + i;
            sum += four[0] + four[4] + four[8] + four[12];
            part[panel * 2 + (c / 16 * panel + j) * 4 + i] =
                (unsigned char)(four[0] | four[4] << 2 | four[8] << 4 | four[12] << 6);
        }
    store_half((float)sum, part + j * 2);
}

static void pack_rows(const struct layout *layout, const unsigned char *rows, size_t n, size_t k,
                      size_t panel, unsigned char *block) {
    const size_t scaled = layout->scaled, length = ternary_part(scaled);
    memset(block, 0, packed_bytes(n, k, panel, scaled));
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += scaled) {
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const unsigned char *stored =
                    rows + ((first + j) * k + start) / scaled * layout->bytes;
                unsigned char codes[K_BLOCK], *part = block + panel * ternary_scale_bytes(scaled);
                layout->codes(stored, codes);
                memcpy(block + j * 2, stored + layout->scale, 2);
                for (size_t c = 0; c < scaled; c += length) {
                    pack_part(codes + c, length, panel, j, part);
                    part += panel * ternary_part_bytes(scaled);
                }
            }
            block += panel * ternary_bytes(scaled, scaled);
        }
}

/* Defines pack_NAME. */
#define PACK(NAME, SCALED, BYTES, SCALE)                                                           \
    void pack_##NAME(const void *blocks, size_t n, size_t k, size_t panel, void *packed) {         \
        static const struct layout layout = {SCALED, BYTES, SCALE, codes_of_##NAME};               \
        pack_rows(&layout, blocks, n, k, panel, packed);                                           \
    }
PACK(tq1_0, K_BLOCK, 54, 52)
PACK(tq2_0, K_BLOCK, 66, 64)
PACK(bitnet_t158, K_BLOCK, 66, 64)
PACK(q1_0, INT8_BLOCK, 18, 0)
PACK(pq2_0, INT8_BLOCK, 34, 0)
PACK(q2_0, TERNARY_LEAST, 18, 0)

void pack_i2_s(const void *rows, size_t n, size_t k, size_t panel, void *packed) {
    const float *row = rows;
    memset(packed, 0, packed_i2_s_bytes(n, k, panel));
    for (size_t i = 0; i < n; i++, row += k) {
        unsigned char *first =
            (unsigned char *)packed + i / panel * packed_i2_s_bytes(panel, k, panel);
        unsigned char *part = first + panel * ternary_scale_bytes(0);
        float scale = 0;
        for (size_t c = 0; c < k; c += INT8_BLOCK, part += panel * ternary_part_bytes(0)) {
            unsigned char codes[INT8_BLOCK];
            for (size_t j = 0; j < INT8_BLOCK; j++) {
                const float value = row[c + j];
                scale = value > scale ? value : -value > scale ? -value : scale;
                codes[j] = (unsigned char)(1 + (value > 0) - (value < 0));
            }
            pack_part(codes, INT8_BLOCK, panel, i % panel, part);
        }
        memcpy(first + i % panel * sizeof(float), &scale, sizeof scale);
    }
}
