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
    const uint32_t offset = kernels->signed_columns ? 0 : 0x80808080;
    for (size_t first = 0; first < size; first += SPARSE_CHUNK) {
        const size_t n = size - first < SPARSE_CHUNK ? size - first : SPARSE_CHUNK;
        int8_t bytes[SPARSE_CHUNK];
        round_weights(column + first, n, inverse, bytes);
        if (n < SPARSE_CHUNK)
            memset(packed + first, 0, SPARSE_CHUNK);
        for (size_t c = 0; c + 4 <= n; c += 4) { /* four bytes stay side by side */
            uint32_t four;
            memcpy(&four, bytes + c, sizeof four);
            four ^= offset;
            memcpy(packed + column_place(first + c, kernels->lanes), &four, sizeof four);
        }
        for (size_t c = n / 4 * 4; c < n; c++)
            packed[column_place(first + c, kernels->lanes)] =
                (uint8_t)((uint8_t)bytes[c] ^ (offset & 0x80));
    }
    return largest / 127;
}
