/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the sparse feed-forward layer, one table per instruction set.
 *
 * A neuron is skipped or computed for each token by itself. `up` multiplies a neuron's row of W_up
 * by the activations of the tokens that want it, so that it is loaded once for many; `down` adds up
 * the columns of W_down of the neurons that are active for one token, four at a time, since four
 * bytes are what one lane of a dot instruction takes: they are interleaved in registers. All sums
 * of products are exact in 32-bit integers, so their order, and with it what else is in the list
 * with a value of 0, does not change a bit of the result.
 *
 * docs/sparse.md has what other units than single neurons would gain and lose. */
#ifndef WISP_KERNELS_SPARSE_H
#define WISP_KERNELS_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/activation.h"

enum {
    SPARSE_CHUNK = 64,    /* bytes that rows and columns are padded to a multiple of, with zeros */
    SPARSE_TOKENS = 63,   /* of a tile: bits of a word, of which one is left for nobody */
    DOWN_NEURONS = 4,     /* that `down` takes at a time */
    SPARSE_SLACK = 16,    /* entries past the end of a list that `compact` may write */
    NEURONS_MAX = 1 << 16 /* that a list can number */
};

static inline size_t sparse_row_bytes(size_t k) {
    return (k + SPARSE_CHUNK - 1) & ~(size_t)(SPARSE_CHUNK - 1);
}

/* The numbers that turn the sum of a neuron's row into the neuron's contribution. */
struct neuron {
    float bias;
    float scale;  /* of the row's int8 values */
    float sum;    /* of the row's int8 values */
    float column; /* scale of the column's int8 values; not looked at in a gate */
};

/* One token's values as bytes: x = scale * (q - zero). */
struct quantised_row {
    uint8_t *q; /* [sparse_row_bytes(k)]; int8_t where the set has signed_activations */
    float scale, zero;
};

/* Up to SPARSE_TOKENS tokens, and what `up` has computed of them so far. Tokens are multiplied a
 * few at a time: one more stands for those that are missing, and what it is given is not kept. */
struct neuron_tile {
    const uint8_t *q; /* [SPARSE_TOKENS + 1, sparse_row_bytes(k)], as `quantise` makes them */
    size_t k;
    size_t length;             /* of a token's part of the sums and lists: at least neurons */
    int32_t *sums, *gate_sums; /* [SPARSE_TOKENS + 1, length] */
    uint16_t *lists;           /* [SPARSE_TOKENS + 1, length] */
    size_t n[SPARSE_TOKENS + 1];
};

/* The sums of a token with the rows of a list of neurons, in the list's order. */
struct neuron_sums {
    const int32_t *up, *gate;             /* gate may be NULL where the activation is not gated */
    const struct neuron *neurons, *gates; /* of all neurons; gates likewise */
};

struct sparse_kernels {
    size_t lanes;       /* 32-bit lanes of a vector: says how columns are laid out */
    int signed_columns; /* bytes of W_down are -127..127 rather than 1..255 */

    /* x[c] * input_scale[c] for c < k, one scale for the row; as kernels.h's quantise. Bytes past k
     * are 0.
     */
    void (*quantise)(const float *x, const float *input_scale, size_t k, struct quantised_row *row);

    /* Bit i of mask [(n + 63) / 64] = logits[i] > thresholds[i], for i < n; the others 0. */
    void (*choose)(const float *logits, const float *thresholds, size_t n, uint64_t *mask);

    /* For each token whose bit of `wanted` is set, one more neuron: the sum over c < k of q[token,
     * c] times row[c] to the end of the token's sums, of gate_row (NULL where there is no gate)
     * to the end of its gate_sums, and the neuron's number to the end of its list. Rows as
     * pack_neuron_row lays them out. */
    void (*up)(struct neuron_tile *tile, const int8_t *row, const int8_t *gate_row, size_t neuron,
               uint64_t wanted);

    /* values[i] = (activation(y) - center) * column, of neuron list[i] (list NULL: i), where y =
     * bias + (row.scale * scale) * (sum - row.zero * the row's sum), and where the activation is
     * gated it is that of y and of the same of the gate. centers [neurons] may be NULL: 0. Returns
     * the largest magnitude. */
    float (*activate)(enum activation kind, struct neuron_sums sums, const float *centers,
                      const uint16_t *list, size_t n, const struct quantised_row *row,
                      float *values);

    /* values[i] = activation(y[i]) * scales[i] for i < n; returns the largest magnitude. Where the
     * activation is gated it is that of y[i] and gate[i]; else gate may be NULL. */
    float (*contribute)(enum activation kind, const float *y, const float *gate,
                        const float *scales, size_t n, float *values);

    /* Values to bytes -127 .. 127, as round(values / largest * 127), ties to even. Those that are
     * not 0 go to `bytes`, and their neurons, list[i] (list NULL: i), to `kept`; returns how many.
     * Both are filled up with 0 to a multiple of DOWN_NEURONS, and have room for SPARSE_SLACK
     * entries more than n. *total is the sum of all bytes. */
    size_t (*compact)(const float *values, float largest, const uint16_t *list, size_t n,
                      uint16_t *kept, int8_t *bytes, int32_t *total);

    /* sums[c] = the sum over i < n of bytes[i] times weight c of neuron list[i] (times that weight
     * + 128 where the set has no signed_columns), for c < sparse_row_bytes(size). n is a multiple
     * of DOWN_NEURONS. w [neurons, sparse_row_bytes(size)] as
     * pack_neuron_column lays out each column. */
    void (*down)(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n, size_t size,
                 int32_t *sums);

    /* y[c] = base[c] + scale * scales[c] * (sums[c] - shift) for c < size; base may be y. */
    void (*add_base)(const int32_t *sums, int32_t shift, float scale, const float *scales,
                     const float *base, size_t size, float *y);
};

extern const struct sparse_kernels sparse_scalar;

/* ---- packing -------------------------------------------------------------------------------- */

/* A row of k weights to int8 with one scale, packed [sparse_row_bytes(k)]; sets scale and sum. */
void pack_neuron_row(const float *row, size_t k, int8_t *packed, struct neuron *neuron);

/* Where byte c of a column is. Interleaving the bytes of four vectors works in each quarter lane of
 * four by itself: so the bytes stand where their sums come out in order. */
static inline size_t column_place(size_t c, size_t lanes) {
    const size_t vector = c % (4 * lanes) / lanes, lane = c % lanes;
    return c - c % (4 * lanes) + lane / 4 * 16 + 4 * vector + lane % 4;
}

/* A column of W_down, of `size` weights, to int8 with one scale, which is returned; packed
 * [sparse_row_bytes(size)], bytes past size are 0. */
float pack_neuron_column(const struct sparse_kernels *kernels, const float *column, size_t size,
                         uint8_t *packed);

#endif
