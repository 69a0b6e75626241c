/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"

/* simd128 is no narrow set, and its modules have no room for this. */
#if !defined(__wasm__) || defined(__wasm_relaxed_simd__)
#define NARROW_ROWS
#endif

#ifdef NARROW_ROWS
static void pack_narrow_row(const float *row, size_t k, size_t lanes, int8_t *packed,
                            struct neuron *neuron) {
    enum { CHUNK = NARROW_BLOCK };
    const float largest = largest_magnitude(row, k);
    float quarter = 0; /* of the magnitude that becomes 127 */
    int32_t sum = 0;
    for (size_t c = 0; c < k; c += CHUNK) {
        const float needed = narrow_quarter(row + c, k - c < CHUNK ? k - c : CHUNK, largest);
        quarter = needed > quarter ? needed : quarter;
    }
    for (size_t c = 0; c < k; c += CHUNK) {
        int8_t q[CHUNK] = {0};
        sum += round_weights(row + c, k - c < CHUNK ? k - c : CHUNK, inverse_scale(quarter) / 4, q);
        for (size_t i = 0; i < CHUNK; i += 4)
            memcpy(packed + row_place(c + i, lanes), q + i, 4);
    }
    neuron->scale = quarter / 127 * 4;
    neuron->sum = (float)sum;
}
#endif

void pack_neuron_row(const struct sparse_kernels *kernels, const float *row, size_t k,
                     int8_t *packed, struct neuron *neuron) {
#ifdef NARROW_ROWS
    if (kernels->narrow) {
        pack_narrow_row(row, k, kernels->lanes, packed, neuron);
        return;
    }
#else
    (void)kernels;
#endif
    const float largest = largest_magnitude(row, k);
    memset(packed, 0, sparse_row_bytes(k));
    neuron->scale = largest / 127;
    neuron->sum = (float)round_weights(row, k, inverse_scale(largest), packed);
}

float pack_neuron_column(const struct sparse_kernels *kernels, const float *column, size_t size,
                         uint8_t *packed) {
    const float largest = largest_magnitude(column, size), inverse = inverse_scale(largest);
    const size_t lanes = kernels->lanes;
    const uint32_t offset = kernels->signed_columns ? 0 : 0x80808080;
    for (size_t first = 0; first < size; first += SPARSE_CHUNK, packed += SPARSE_CHUNK) {
        const size_t n = size - first < SPARSE_CHUNK ? size - first : SPARSE_CHUNK;
        int8_t bytes[SPARSE_CHUNK] = {0};
        round_weights(column + first, n, inverse, bytes);
        /* Bytes go where column_place says, four at a time, since groups of four stay together. */
        uint8_t *to = packed;
        for (size_t group = 0; group < SPARSE_CHUNK; group += 4 * lanes)
            for (size_t lane = 0; lane < lanes; lane += 4)
                for (size_t vector = 0; vector < 4; vector++, to += 4) {
                    uint32_t four;
                    memcpy(&four, bytes + group + vector * lanes + lane, sizeof four);
                    four ^= offset;
                    memcpy(to, &four, sizeof four);
                }
        for (size_t c = n; c < SPARSE_CHUNK; c++)
            packed[column_place(c, lanes)] = 0;
    }
    return largest / 127;
}
