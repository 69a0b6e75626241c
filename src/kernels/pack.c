/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/checked.h"
#include "kernels/kernels.h"
#include "kernels/weights.h"

size_t packed_f32_floats(size_t n, size_t k, size_t panel) {
    return (n + panel - 1) / panel * panel * k;
}

void pack_f32(const float *w, size_t ldw, size_t n, size_t k, size_t panel, float *packed) {
    for (size_t first = 0; first < n; first += panel, packed += panel * k)
        for (size_t j = 0; j < panel; j++)
            for (size_t c = 0; c < k; c++)
                packed[c * panel + j] = first + j < n ? w[(first + j) * ldw + c] : 0;
}

void pack_f32_transposed(const float *wt, size_t ldw, size_t n, size_t k, size_t panel,
                         float *packed) {
    for (size_t first = 0; first < n; first += panel) {
        const size_t rows = n - first < panel ? n - first : panel;
        for (size_t c = 0; c < k; c++, packed += panel) {
            memcpy(packed, wt + c * ldw + first, rows * sizeof *packed);
            memset(packed + rows, 0, (panel - rows) * sizeof *packed);
        }
    }
}

void pack_halves(const void *rows, size_t n, size_t k, size_t panel, void *packed) {
    const unsigned char *from = rows;
    unsigned char *to = packed;
    memset(packed, 0, packed_f32_floats(n, k, panel) * 2);
    for (size_t first = 0; first < n; first += panel, to += panel * k * 2)
        for (size_t j = 0; j < panel && first + j < n; j++, from += k * 2)
            for (size_t c = 0; c < k; c++)
                memcpy(to + (c * panel + j) * 2, from + c * 2, 2);
}

/* Returns the bytes of one block of a panel, with `length` values (a multiple of 4) in each row. */
static size_t block_bytes(size_t panel, size_t length) {
    return panel * (2 * sizeof(float) + length);
}

/* Returns the bytes of n packed rows of k weights with `blocks` blocks each. */
static size_t packed_bytes(size_t n, size_t k, size_t blocks, size_t panel) {
    const size_t panels = (n + panel - 1) / panel;
    return panels * panel * (blocks * 2 * sizeof(float) + int8_row_bytes(k));
}

size_t packed_int8_bytes(size_t n, size_t k, size_t panel) {
    return packed_bytes(n, k, int8_blocks(k), panel);
}

size_t packed_narrow_bytes(size_t n, size_t k, size_t panel) {
    return packed_bytes(n, k, narrow_blocks(k), panel);
}

/* Quantises `length` values of row j of a panel and stores them in the block, padded with zeros to
 * a multiple of 4. */
static void pack_block_row(const float *w, size_t length, bool narrow, size_t panel, size_t j,
                           unsigned char *block) {
    float room[INT8_BLOCK];
    unsigned char q[INT8_BLOCK], *values = block + panel * 2 * sizeof(float) + 4 * j;
    const float *padded = pad_weights(w, length, room);
    const bool whole = padded == w; /* else the panel has no room for the bytes of the padding */
    const size_t n = round_up(length, WEIGHT_STEP);
    /* The magnitude that becomes 127 is part * factor. */
    const float part = narrow ? narrow_quarter(padded, n) : largest_magnitude(padded, n);
    const float factor = narrow ? 4 : 1, scale = part / 127 * factor;
    const float sum = (float)round_weights(padded, n, inverse_scale(part) / factor, 0,
                                           whole ? values : q, whole ? 4 * panel : 4);
    for (size_t c = 0; c < length && !whole; c += 4)
        memcpy(values + c * panel, q + c, 4);
    memcpy(block + j * sizeof(float), &scale, sizeof scale);
    memcpy(block + (panel + j) * sizeof(float), &sum, sizeof sum);
}

static void pack_blocks(const float *w, size_t ldw, size_t n, size_t k, bool narrow, size_t panel,
                        unsigned char *block) {
    const size_t most = narrow ? NARROW_BLOCK : INT8_BLOCK;
    for (size_t first = 0; first < n; first += panel)
        for (size_t start = 0; start < k; start += most) {
            const size_t length = k - start < most ? k - start : most;
            const size_t bytes = block_bytes(panel, int8_row_bytes(length));
            if (n - first < panel)
                memset(block, 0, bytes);
            for (size_t j = 0; j < panel && first + j < n; j++) {
                const float *row = w + (first + j) * ldw + start;
                pack_block_row(row, length, narrow, panel, j, block);
            }
            block += bytes;
        }
}

void pack_int8(const float *w, size_t ldw, size_t n, size_t k, size_t panel, void *packed) {
    pack_blocks(w, ldw, n, k, false, panel, packed);
}

void pack_narrow(const float *w, size_t ldw, size_t n, size_t k, size_t panel, void *packed) {
    pack_blocks(w, ldw, n, k, true, panel, packed);
}
