/* SPDX-License-Identifier: Apache-2.0
 * Kernels of the sparse feed-forward layer, one table per instruction set.
 *
 * What is skipped or computed is a quad: four neurons that tend to be active together. `up`
 * multiplies a quad's rows by the activations of the tokens that want it, so that they are loaded
 * once for many; `down` adds up the columns of the quads that are active for one token. All sums of
 * products are exact in 32-bit integers, so their order, and with it what else is in the list with
 * a value of 0, does not change a bit of the result.
 *
 * Quads rather than neurons: four rows fill a vector of any width without a shuffle, and four
 * bytes are what one lane of a dot instruction takes. docs/sparse.md has the measurements. */
#ifndef WISP_KERNELS_SPARSE_H
#define WISP_KERNELS_SPARSE_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/activation.h"

enum {
    QUAD = 4,
    QUAD_CHUNK = 16,      /* values of one row that stand together; rows are padded to a multiple */
    QUAD_LIST_SLACK = 16, /* entries past a list's end that `choose` may write */
    QUAD_MAX = 1 << 16    /* quads that a list can number */
};

static inline size_t quad_row_bytes(size_t k) {
    return (k + QUAD_CHUNK - 1) & ~(size_t)(QUAD_CHUNK - 1);
}

/* Weight c of row i of rows packed by pack_quad_rows, one quad after the other. */
static inline int8_t quad_weight(const int8_t *packed, size_t k, size_t i, size_t c) {
    const int8_t *quad = packed + i / QUAD * QUAD * quad_row_bytes(k);
    return quad[(c / QUAD_CHUNK * QUAD + i % QUAD) * QUAD_CHUNK + c % QUAD_CHUNK];
}

/* For each quad 3 times 4 floats, one for each neuron: what turns its sums into floats. */
struct quad_parameters {
    float bias[QUAD];
    float scale[QUAD]; /* of the row's int8 values */
    float sum[QUAD];   /* of the row's int8 values */
};

/* W_down's columns, and what turns a neuron's activation into its contribution. */
struct quad_columns {
    uint8_t *w;    /* as pack_quad_columns lays them out */
    float *scale;  /* [4 quads]: of the column's int8 values */
    float *center; /* [4 quads]: what the activation is where the neuron is not computed; NULL
                      where all are */
};

/* The sums of some quads' rows, four each, and all quads' parameters. */
struct quad_sums {
    const int32_t *sums;
    const struct quad_parameters *parameters;
};

/* One token's values as bytes: x = scale * (q - zero). */
struct quantised_row {
    uint8_t *q; /* [quad_row_bytes(k)]; int8_t where the set has signed_activations */
    float scale, zero;
};

/* A token that wants a quad, and where its sums go. */
struct quad_use {
    uint32_t token, place;
};

struct sparse_kernels {
    /* x[c] * by[c] (by may be NULL: 1) for c < k, one scale for the row; as kernels.h's quantise.
     * Bytes past k are 0. */
    void (*quantise)(const float *x, const float *by, size_t k, struct quantised_row *row);

    /* For each use of one quad: sums[4 place + j] = the sum over c of q[token, c] times the weight
     * c of neuron j, for c < k. q [tokens, quad_row_bytes(k)]; w as pack_quad_rows lays it out. */
    void (*up)(const uint8_t *q, const int8_t *w, const struct quad_use *uses, size_t n, size_t k,
               int32_t *sums);

    /* n whole numbers of a magnitude of at most 2^24 from floats to integers, which may take their
     * place. */
    void (*to_integers)(const float *values, size_t n, int32_t *integers);

    /* y[4 i + j] = bias + (row.scale * scale) * (sum - row.zero * sum of weights), by the
     * parameters of the quads; `quads` may be NULL. */
    void (*finish)(const int32_t *sums, const struct quad_parameters *parameters,
                   const uint16_t *quads, size_t n, const struct quantised_row *row, float *y);

    /* The quads of n whose logit is above their threshold, in order; returns how many. The list
     * has room for QUAD_LIST_SLACK more than n. */
    size_t (*choose)(const float *logits, const float *thresholds, size_t n, uint16_t *quads);

    /* values[4 i + j] = (activation(y) - center) * the column's scale, y as `finish` has it of
     * `up`; returns the largest magnitude among them. Where the activation is gated it is that of y
     * and of the same of `gate`, which is else not looked at. */
    float (*activate)(enum activation kind, struct quad_sums up, struct quad_sums gate,
                      const struct quad_columns *columns, const uint16_t *quads, size_t n,
                      const struct quantised_row *row, float *values);

    /* values[i] = activation(y[i]) * scales[i] for i < n; returns the largest magnitude. Where the
     * activation is gated it is that of y[i] and gate[i]; else gate may be NULL. */
    float (*contribute)(enum activation kind, const float *y, const float *gate,
                        const float *scales, size_t n, float *values);

    /* Values to bytes -127 .. 127, as round(values / largest * 127), ties to even. Quads whose four
     * bytes are 0 are left out of `kept` and `bytes`; returns how many are left. *total is the sum
     * of all bytes. `kept` may be `quads`, which may be NULL as above. */
    size_t (*compact)(const float *values, float largest, const uint16_t *quads, size_t n,
                      uint16_t *kept, int8_t *bytes, int32_t *total);

    /* sums[c] = the sum over i < n and j < 4 of bytes[4 i + j] times weight c of neuron j of quad
     * quads[i] (times that weight + 128 where the set has no signed_activations), for c <
     * quad_row_bytes(size). w as pack_quad_columns lays it out. */
    void (*down)(const int8_t *bytes, const uint8_t *w, const uint16_t *quads, size_t n,
                 size_t size, int32_t *sums);

    /* y[c] = base[c] + scale * scales[c] * (sums[c] - shift) for c < size; base may be y. */
    void (*add_base)(const int32_t *sums, int32_t shift, float scale, const float *scales,
                     const float *base, size_t size, float *y);
};

extern const struct sparse_kernels sparse_scalar;

/* ---- packing -------------------------------------------------------------------------------- */

/* Rows of weights w [4, k], of neurons that make a quad, to int8 with one scale a row: packed
 * [quad_row_bytes(k) / 16][4][16]; sets scale and sum of *parameters. */
void pack_quad_rows(const float *const rows[QUAD], size_t k, int8_t *packed,
                    struct quad_parameters *parameters);

/* Row c of the columns of `quads` quads, each of `size` rows, to packed
 * [quads][quad_row_bytes(size)][4]: row [4 quads] times factors [4 quads], whole numbers of at most
 * 127 once they are rounded. Bytes are offset by 128 unless `is_signed`. */
void pack_quad_columns(const float *row, const float *factors, size_t quads, size_t c, size_t size,
                       int is_signed, uint8_t *packed);

#endif
