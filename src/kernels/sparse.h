/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the sparse feed-forward layer, one table for each instruction set.
 *
 * Each token skips or computes each neuron. `up` multiplies the activations of one token by the
 * rows of W_up of the neurons that it computes, four at a time, so that the activations are loaded
 * once for four rows. `down` adds up, for one token, the columns of W_down of its active neurons.
 * It takes four neurons at a time and interleaves their columns in registers, since one lane of a
 * dot product instruction takes four bytes. All sums of products are exact, in 32-bit integers. So
 * neither their order nor additional neurons with a value of 0 change a bit of the result.
 *
 * docs/sparse.md compares single neurons with other units of sparsity. */
#ifndef WISP_KERNELS_SPARSE_H
#define WISP_KERNELS_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/activation.h"

enum {
    SPARSE_CHUNK = 64,    /* rows and columns are padded with zeros to a multiple of these bytes */
    UP_NEURONS = 4,       /* neurons that `up` takes at a time, */
    DOWN_NEURONS = 4,     /* and `down` */
    SPARSE_SLACK = 16,    /* entries that `compact` may write past the end of its lists */
    NEURONS_MAX = 1 << 16 /* neurons of a layer, whose numbers have 16 bits in lists */
};

/* Returns the bytes of a padded row of k int8 values. */
static inline size_t sparse_row_bytes(size_t k) {
    return (k + SPARSE_CHUNK - 1) & ~(size_t)(SPARSE_CHUNK - 1);
}

/* The numbers that turn the integer sum of a neuron's row into the neuron's contribution. */
struct neuron {
    float bias;
    float scale;  /* the scale of the row's int8 values */
    float sum;    /* the sum of the row's int8 values */
    float column; /* the scale of the column's int8 values; a gate has no column */
};

/* The quantised values of one token: x = scale * (q - zero). */
struct quantised_row {
    uint8_t *q; /* [sparse_row_bytes(k)]; int8_t if the set has signed_activations. In narrow
                   sets value c is at row_place(c) */
    float scale, zero;
};

/* The integer sums of one token with the rows of a list of neurons, in the order of the list. */
struct neuron_sums {
    const int32_t *up, *gate;             /* gate may be NULL if the activation is not gated */
    const struct neuron *neurons, *gates; /* [neurons of the layer]; gates may be NULL like gate */
};

struct sparse_kernels {
    size_t lanes; /* the number of 32-bit lanes of a vector; places depend on it */
    int narrow;   /* whether `up` takes narrow numbers (kernels.h), in the order of row_place */
    int signed_columns; /* whether bytes of W_down are -127..127 rather than 1..255 */

    /* Quantises x[c] * input_scale[c] for c < k as `quantise` of kernels.h does, or as
     * `quantise_narrow` if the set is narrow, but with one scale for the whole row. Other bytes
     * are 0. */
    void (*quantise)(const float *x, const float *input_scale, size_t k, struct quantised_row *row);

    /* Sets bit i of mask [(n + 63) / 64] to logits[i] > thresholds[i] for i < n, other bits to 0.
     */
    void (*choose)(const float *logits, const float *thresholds, size_t n, uint64_t *mask);

    /* Computes sums[i], for i < n, the sum over c < k of q[c] times value c of the row of neuron
     * list[i]. q is a row of `quantise`. rows [neurons, sparse_row_bytes(k)], packed by
     * pack_neuron_row. */
    void (*up)(const uint8_t *q, const int8_t *rows, const uint16_t *list, size_t n, size_t k,
               int32_t *sums);

    /* Computes values[i] = (activation(y) - center) * column for i < n, with the numbers of neuron
     * list[i], or i if list is NULL. y = bias + (row.scale * scale) * (sum - row.zero * the sum
     * of the neuron's row). A gated activation is that of y and of the same expression for the
     * gate. centers [neurons] may be NULL, which stands for zeros. Returns the largest magnitude of
     * the values, or NaN if one of them is NaN. */
    float (*activate)(enum activation kind, struct neuron_sums sums, const float *centers,
                      const uint16_t *list, size_t n, const struct quantised_row *row,
                      float *values);

    /* Computes values[i] = activation(y[i]) * scales[i] for i < n. A gated activation is that of
     * y[i] and gate[i]; for others gate may be NULL. Returns what `activate` returns. */
    float (*contribute)(enum activation kind, const float *y, const float *gate,
                        const float *scales, size_t n, float *values);

    /* Quantises n values to bytes, round(values / largest * 127), ties to even. `largest` is what
     * `activate` or `contribute` returned for the values. If it is infinite or NaN, all bytes
     * count as 0: the scale by which the layer multiplies their sums is infinite or NaN too, and
     * makes its whole output NaN. Bytes that are not 0 go to `bytes`, and their neurons, list[i] or
     * i if list is NULL, to `kept`. Returns their number. Both arrays are filled up with 0 to a
     * multiple of DOWN_NEURONS, and must have room for n + SPARSE_SLACK entries. *total is the sum
     * of all bytes. */
    size_t (*compact)(const float *values, float largest, const uint16_t *list, size_t n,
                      uint16_t *kept, int8_t *bytes, int32_t *total);

    /* Computes sums[c], the sum over i < n of bytes[i] times weight c of neuron list[i], for c <
     * sparse_row_bytes(size). If the set has no signed_columns, 128 is added to each weight. n
     * is a multiple of DOWN_NEURONS. w [neurons, sparse_row_bytes(size)], packed by
     * pack_neuron_column. */
    void (*down)(const int8_t *bytes, const uint8_t *w, const uint16_t *list, size_t n, size_t size,
                 int32_t *sums);

    /* Computes y[c] = base[c] + scale * scales[c] * (sums[c] - shift) for c < size. base may be y.
     */
    void (*add_base)(const int32_t *sums, int32_t shift, float scale, const float *scales,
                     const float *base, size_t size, float *y);
};

extern const struct sparse_kernels sparse_scalar;

/* ---- packing -------------------------------------------------------------------------------- */

/* Returns the place of value c in rows of narrow sets. `up` adds up the products of two vectors of
 * 4 * lanes bytes each. Of each 8 values, the first four are in one of these vectors and the last
 * four in the other, so that groups of four are those of pack_narrow. */
static inline size_t row_place(size_t c, size_t lanes) {
    const size_t i = c % (8 * lanes);
    return c - i + i / 4 % 2 * (4 * lanes) + i / 8 * 4 + i % 4;
}

/* Quantises a row of k weights to int8 with one scale, to packed [sparse_row_bytes(k)]: for narrow
 * sets as pack_narrow does, in the order of row_place. Sets the neuron's scale and sum. */
void pack_neuron_row(const struct sparse_kernels *kernels, const float *row, size_t k,
                     int8_t *packed, struct neuron *neuron);

/* Returns the place of weight c in a packed column. `down` interleaves the bytes of four columns
 * within 128-bit parts of vectors. Weights are placed such that the sums come out in their order.
 */
static inline size_t column_place(size_t c, size_t lanes) {
    const size_t vector = c % (4 * lanes) / lanes, lane = c % lanes;
    return c - c % (4 * lanes) + lane / 4 * 16 + 4 * vector + lane % 4;
}

/* Quantises a column of W_down, of `size` weights, to int8 with one scale, to packed
 * [sparse_row_bytes(size)]. Bytes past the last weight are 0. Returns the scale. */
float pack_neuron_column(const struct sparse_kernels *kernels, const float *column, size_t size,
                         uint8_t *packed);

#endif
