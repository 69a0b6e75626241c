/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/transpose.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"

void pack_neuron_row(const float *row, size_t k, int8_t *packed, struct neuron *neuron) {
    const float largest = largest_magnitude(row, k);
    memset(packed, 0, sparse_row_bytes(k));
    neuron->scale = largest / 127;
    neuron->sum = (float)round_weights(row, k, inverse_scale(largest), packed);
}

/* One row's bytes, in order; PART at a time, which is done for several at once. */
static void round_row(const float *row, const float *factors, const int32_t *order, size_t n,
                      int8_t *bytes) {
    enum { PART = 256 };
    for (size_t first = 0; first < n; first += PART) {
        const size_t here = n - first < PART ? n - first : PART;
        float scaled[PART];
        if (order)
            for (size_t i = 0; i < here; i++)
                scaled[i] = row[order[first + i]] * factors[order[first + i]];
        else
            for (size_t i = 0; i < here; i++)
                scaled[i] = row[first + i] * factors[first + i];
        round_weights(scaled, here, 1, bytes + first);
    }
}

/* Where the columns' bytes come from and go to. */
struct column_bytes {
    const int8_t *rows; /* [n, neurons] */
    size_t neurons;
    uint8_t *packed; /* [neurons, column] */
    size_t column, first, lanes;
    uint8_t offset;
};

/* 8 rows of 8 neurons; rows stand four by four, as column_place has it. */
static void turn_square(const struct column_bytes *b, size_t neuron, size_t row) {
    const uint64_t offset = b->offset * UINT64_C(0x0101010101010101);
    const size_t at = column_place(b->first + row, b->lanes);
    const size_t then = column_place(b->first + row + 4, b->lanes);
    uint64_t words[8];
    for (size_t r = 0; r < 8; r++)
        memcpy(&words[r], b->rows + (row + r) * b->neurons + neuron, sizeof *words);
    transpose_bytes(words);
    for (size_t i = 0; i < 8; i++) {
        uint8_t eight[8], *column = b->packed + (neuron + i) * b->column;
        words[i] ^= offset;
        memcpy(eight, &words[i], sizeof eight);
        memcpy(column + at, eight, 4);
        memcpy(column + then, eight + 4, 4);
    }
}

static void turn_byte(const struct column_bytes *b, size_t neuron, size_t row) {
    b->packed[neuron * b->column + column_place(b->first + row, b->lanes)] =
        (uint8_t)b->rows[row * b->neurons + neuron] ^ b->offset;
}

void pack_neuron_columns(const struct sparse_kernels *kernels, const float *rows,
                         const float *factors, const int32_t *order, size_t neurons, size_t first,
                         size_t n, size_t size, int8_t *bytes, uint8_t *packed) {
    const struct column_bytes b = {.rows = bytes,
                                   .neurons = neurons,
                                   .packed = packed,
                                   .column = sparse_row_bytes(size),
                                   .first = first,
                                   .lanes = kernels->lanes,
                                   .offset = kernels->signed_columns ? 0 : 0x80};
    const size_t squares = first % 4 == 0 ? n / 8 * 8 : 0, whole = neurons / 8 * 8;
    for (size_t r = 0; r < n; r++)
        round_row(rows + r * neurons, factors, order, neurons, bytes + r * neurons);
    for (size_t i = 0; i < whole; i += 8)
        for (size_t r = 0; r < squares; r += 8)
            turn_square(&b, i, r);
    for (size_t i = 0; i < neurons; i++)
        for (size_t r = i < whole ? squares : 0; r < n; r++)
            turn_byte(&b, i, r);
}
