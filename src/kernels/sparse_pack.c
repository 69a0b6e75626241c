/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/sparse.h"
#include "kernels/weights.h"

void pack_neuron_row(const float *row, size_t k, int8_t *packed, struct neuron *neuron) {
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
