/* SPDX-License-Identifier: Apache-2.0
 * Products with chosen rows and columns of weights, for feed-forward layers of which one token at a
 * time computes some neurons: rows of W_up by a token's inputs, and the sum of columns of W_down.
 * Weights have the codes, scales and offsets of their file, so that a neuron takes as many bytes as
 * there.
 *
 * Weights are stored neuron by neuron, which panels of dense products (kernels.h) do not: skipping
 * a neuron skips its bytes. Every set takes the same packed weights. */
#ifndef WISP_KERNELS_GATHER_H
#define WISP_KERNELS_GATHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GATHER_BLOCK = 32, /* weights that share a scale, and neurons that are in a group */
    GATHER_STRIP = 64, /* outputs that `columns` computes at a time */
    GATHER_SLACK = 32, /* bytes behind packed rows that `rows` may read */
    GATHER_LANES = 4   /* numbers of an input for each block */
};

/* How weights are stored. A weight is scale * code, where the code is less by 8 in Q4_0, or scale *
 * code + offset in Q4_1. */
enum gather_code { GATHER_Q4_0, GATHER_Q4_1, GATHER_Q8_0, GATHER_CODES };

static inline size_t gather_code_bits(enum gather_code code) {
    return code == GATHER_Q8_0 ? 8 : 4;
}

static inline bool gather_has_offsets(enum gather_code code) {
    return code == GATHER_Q4_1;
}

/* Returns the scales of a packed row of k weights: one for each block, and one more where their
 * number would be odd. */
static inline size_t gather_scales(size_t k) {
    return (k / GATHER_BLOCK + 1) & ~(size_t)1;
}

/* A packed row has its scales as 16-bit floats, then its offsets, if the code has them, then the
 * codes of each block: bytes or, of 4 bits, 16 bytes, of which byte i has code i in the low nibble
 * and code i + 16 in the high one. k is a multiple of GATHER_BLOCK. */
static inline size_t gather_row_bytes(enum gather_code code, size_t k) {
    return gather_scales(k) * (gather_has_offsets(code) ? 4 : 2) + k * gather_code_bits(code) / 8;
}

/* Returns the length of packed columns of `size` outputs. */
static inline size_t gather_column_length(size_t size) {
    return (size + GATHER_STRIP - 1) / GATHER_STRIP * GATHER_STRIP;
}

/* Returns the bytes of one packed column without scales. Codes are bytes or, of 4 bits, 32 bytes
 * for each strip, of which byte i has the code of output i in the low nibble and that of output i +
 * 32 in the high one. */
static inline size_t gather_column_bytes(enum gather_code code, size_t size) {
    return gather_column_length(size) * gather_code_bits(code) / 8;
}

/* A packed group of columns has their scales, one 16-bit float for each output, which all columns
 * of the group share, then the outputs' offsets, if the code has them, then GATHER_BLOCK columns.
 */
static inline size_t gather_group_bytes(enum gather_code code, size_t size) {
    return gather_column_length(size) * (gather_has_offsets(code) ? 4 : 2) +
           GATHER_BLOCK * gather_column_bytes(code, size);
}

/* The inputs of one token, quantised to -127..127 with one scale for each block. All arrays have
 * gather_scales(k) blocks, of which one that k does not reach has zeros. The last three have
 * GATHER_LANES numbers for each block. */
struct gather_input {
    int8_t *q;      /* [blocks, GATHER_BLOCK] */
    float *scale;   /* the block's scale, in each lane */
    float *sum;     /* the sum of the block's inputs in the first lane, 0 in others */
    int32_t *first; /* in the first lane what stands for the 8 that Q4_0 subtracts from each code:
                      -8 times the sum of the block's q; 0 in others, and with other codes */
};

/* The values of some neurons of a group: value[i] * scale is that of column index[i]. */
struct gather_active {
    float scale;
    int32_t total; /* sum of the values */
    uint8_t n, index[GATHER_BLOCK];
    int8_t value[GATHER_BLOCK];
};

struct gather_kernels {
    /* Computes y[i], for i < n, the sum over c < k of input c times weight c of row list[i]. Sums
     * of a block are exact. */
    void (*rows)(const struct gather_input *x, enum gather_code code, const unsigned char *rows,
                 const uint16_t *list, size_t n, size_t k, float *y);

    /* Adds to y[c], for `first` <= c < end, the weights c of the columns that `active` [groups]
     * names times their values. Sums within a group are exact; groups are added in order. `first`
     * is a multiple of GATHER_STRIP. */
    void (*columns)(const struct gather_active *active, size_t groups, enum gather_code code,
                    const unsigned char *packed, size_t size, size_t first, size_t end, float *y);
};

extern const struct gather_kernels gather_scalar;

/* Quantises x [k] for rows of this code. k is a multiple of GATHER_BLOCK. */
void gather_quantise(const float *x, size_t k, enum gather_code code,
                     const struct gather_input *input);

/* Quantises the values of group `group`: those of neurons list[i], for i < n, rising, that are in
 * it. Returns how many these are. */
size_t gather_activate(const float *values, const uint16_t *list, size_t n, size_t group,
                       struct gather_active *active);

/* Pack stored blocks of the file's type of the same name: a row of k weights; row `output` of
 * W_down, of `neurons` weights, of which each goes to its neuron's column. `packed` of the latter
 * has neurons / GATHER_BLOCK groups, and zeros before the first call. */
void gather_pack_row(enum gather_code code, const unsigned char *blocks, size_t k,
                     unsigned char *packed);
void gather_pack_output(enum gather_code code, const unsigned char *blocks, size_t neurons,
                        size_t size, size_t output, unsigned char *packed);

#endif
