/* SPDX-License-Identifier: Apache-2.0
 * Types of tensor elements, by their GGML numbers, which GGUF files use. A row is a sequence of
 * blocks without gaps, each of `elements` elements in `bytes` bytes. Source of the layouts: the
 * GGML quantisation formats (ggml-org/ggml, docs and gguf-py). */
#ifndef WISP_QUANT_BLOCKS_H
#define WISP_QUANT_BLOCKS_H

#include "base/status.h"

enum block_type {
    BLOCK_F32 = 0,
    BLOCK_F16 = 1,
    BLOCK_Q4_0 = 2,
    BLOCK_Q4_1 = 3,
    BLOCK_Q5_0 = 6,
    BLOCK_Q5_1 = 7,
    BLOCK_Q8_0 = 8,
    BLOCK_Q2_K = 10,
    BLOCK_Q3_K = 11,
    BLOCK_Q4_K = 12,
    BLOCK_Q5_K = 13,
    BLOCK_Q6_K = 14,
    BLOCK_IQ4_NL = 20,
    BLOCK_IQ4_XS = 23,
    BLOCK_I8 = 24, /* bytes that are not weights */
    BLOCK_BF16 = 30,
    BLOCK_TQ1_0 = 34,
    BLOCK_TQ2_0 = 35,
    BLOCK_I2_S = 36, /* BitNet's, which ggml does not have */
    BLOCK_MXFP4 = 39,
    BLOCK_Q1_0 = 41,
    BLOCK_Q2_0 = 42,
    BLOCK_PQ2_0 = 142, /* PrismML's, which ggml does not have */
    /* PT-BitNet's ternary type, whose number in a file is BF16's. The metadata tells which of both
     * is meant (formats/bitnet.h). */
    BLOCK_T158 = 0x10000 | BLOCK_BF16
};

struct block_format {
    uint32_t id; /* an enum block_type, or the number of a type that wisp cannot read. Files have
                    its lower 16 bits */
    const char *name;
    uint32_t elements; /* the number of elements in a block */
    uint32_t bytes;    /* the size of a block */
    /* Expands n elements, which are whole blocks, to floats. NULL if wisp cannot read the type.
     */
    void (*dequantise)(const void *blocks, size_t n, float *out);
    /* Quantises n elements, which are whole blocks, as exactly as wisp can. NULL if wisp cannot
     * write the type. */
    void (*quantise)(const float *values, size_t n, void *out);
    /* Quantises to the bits of ggml's reference quantiser, for finite values whose scale is a
     * normal float and finite as a half. Differs from `quantise` for Q4_0 only. */
    void (*quantise_as_reference)(const float *values, size_t n, void *out);
};

/* All formats, with the functions that this product has (src/products). A row without a name ends
 * them. */
extern const struct block_format block_formats[];

/* Returns the format of a number, or NULL if GGML has no such type. */
const struct block_format *block_format_by_id(uint32_t id);

/* Returns the format of a name in upper or lower case, such as "q8_0", or NULL. */
const struct block_format *block_format_by_name(const char *name);

/* Returns the format of a number if rows of n elements are whole blocks of it, and else F32. */
const struct block_format *block_format_fitting(uint32_t id, uint64_t n);

/* Computes the bytes of a row of n elements. Returns false if n is not a multiple of the block's
 * elements, or if the size overflows. */
bool block_row_bytes(const struct block_format *format, uint64_t n, uint64_t *bytes);

/* Returns whether the blocks of a format follow one another without regard to the ends of rows. In
 * other formats each row begins with a new block. */
bool block_crosses_rows(const struct block_format *format);

/* Returns whether the values of a row of n elements depend on bytes outside of the row: on a block
 * that it shares with its neighbours or, in I2_S, on the scale that follows the last row. */
bool block_rows_depend(const struct block_format *format, uint64_t n);

/* Computes the bytes of a tensor of `rows` rows of n elements. Returns false if block_row_bytes
 * does for a format whose blocks begin with rows, or if the size overflows. */
bool block_tensor_bytes(const struct block_format *format, uint64_t n, uint64_t rows,
                        uint64_t *bytes);

/* Returns the least number of rows of n elements, not below `least`, that are whole blocks
 * together. */
uint64_t block_whole_rows(const struct block_format *format, uint64_t n, uint64_t least);

#endif
