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

/* One row's bytes; PART at a time, which is done for several at once. */
static void round_row(const float *row, const float *factors, size_t n, int8_t *bytes) {
    enum { PART = 256 };
    for (size_t first = 0; first < n; first += PART) {
        const size_t here = n - first < PART ? n - first : PART;
        float scaled[PART];
        for (size_t i = 0; i < here; i++)
            scaled[i] = row[first + i] * factors[first + i];
        round_weights(scaled, here, 1, bytes + first);
    }
}

void pack_neuron_columns(const struct sparse_kernels *kernels, const float *rows,
                         const float *factors, const int32_t *order, size_t neurons, size_t first,
                         size_t n, size_t size, int8_t *bytes, uint8_t *packed) {
    const size_t column = sparse_row_bytes(size);
    const uint8_t offset = kernels->signed_columns ? 0 : 0x80;
    for (size_t r = 0; r < n; r++)
        round_row(rows + r * neurons, factors, neurons, bytes + r * neurons);
    for (size_t i = 0; i < neurons; i++) {
        const int8_t *from = bytes + (order ? (size_t)order[i] : i);
        for (size_t r = 0; r < n; r++)
            packed[i * column + column_place(first + r, kernels->lanes)] =
                (uint8_t)from[r * neurons] ^ offset;
    }
}
