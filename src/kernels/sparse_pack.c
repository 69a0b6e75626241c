/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "base/checked.h"
#include "kernels/kernels.h"
#include "kernels/sparse.h"
#include "kernels/weights.h"

/* simd128 is not a narrow set, and its modules have no room for this. */
#if !defined(__wasm__) || defined(__wasm_relaxed_simd__)
#define NARROW_ROWS
#endif

void pack_neuron_row(const struct sparse_kernels *kernels, const float *row, size_t k,
                     int8_t *packed, struct neuron *neuron) {
    float room[SPARSE_CHUNK];
    float part = 0; /* the magnitude that becomes 127 is part * factor */
    int32_t sum = 0;
#ifdef NARROW_ROWS
    const bool narrow = kernels->narrow;
#else
    const bool narrow = false;
#endif
    const float factor = narrow ? 4 : 1;
    for (size_t c = 0; c < k; c += SPARSE_CHUNK) {
        const size_t n = smaller(k - c, SPARSE_CHUNK);
        const float *w = pad_weights(row + c, n, room);
        const float needed =
            narrow ? narrow_quarter(w, round_up(n, WEIGHT_STEP)) : largest_magnitude(row + c, n);
        part = needed > part ? needed : part;
    }
    for (size_t c = 0; c < k; c += SPARSE_CHUNK) {
        unsigned char q[SPARSE_CHUNK] = {0};
        const size_t n = smaller(k - c, SPARSE_CHUNK);
        const float *w = pad_weights(row + c, n, room);
        sum += round_weights(w, round_up(n, WEIGHT_STEP), inverse_scale(part) / factor, 0, q, 4);
        for (size_t i = 0; i < SPARSE_CHUNK; i += 4)
            memcpy(packed + (narrow ? row_place(c + i, kernels->lanes) : c + i), q + i, 4);
    }
    neuron->scale = part / 127 * factor;
    neuron->sum = (float)sum;
}

float pack_neuron_column(const struct sparse_kernels *kernels, const float *column, size_t size,
                         uint8_t *packed) {
    const float largest = largest_magnitude(column, size), inverse = inverse_scale(largest);
    const size_t lanes = kernels->lanes;
    const int offset = kernels->signed_columns ? 0 : 128;
    for (size_t first = 0; first < size; first += SPARSE_CHUNK, packed += SPARSE_CHUNK) {
        const size_t n = smaller(size - first, SPARSE_CHUNK);
        float room[SPARSE_CHUNK];
        uint8_t bytes[SPARSE_CHUNK] = {0};
        const bool in_order = lanes == 4; /* column_place changes nothing */
        round_weights(pad_weights(column + first, n, room), round_up(n, WEIGHT_STEP), inverse,
                      offset, in_order ? packed : bytes, 4);
        /* Bytes go where column_place says, four at a time, since groups of four stay together. */
        uint8_t *to = packed;
        for (size_t group = 0; group < SPARSE_CHUNK && !in_order; group += 4 * lanes)
            for (size_t lane = 0; lane < lanes; lane += 4)
                for (size_t vector = 0; vector < 4; vector++, to += 4)
                    memcpy(to, bytes + group + vector * lanes + lane, 4);
        for (size_t c = n; c < SPARSE_CHUNK; c++)
            packed[column_place(c, lanes)] = 0;
    }
    return largest / 127;
}
