/* SPDX-License-Identifier: Apache-2.0
 * Tensor element types by their GGML numbers, as GGUF files name them. A row is stored in blocks
 * of `elements` values in `bytes` bytes, without gaps.
 * Source of the layouts: the GGML quantisation formats (ggml-org/ggml, docs and gguf-py). */
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
    BLOCK_Q4_K = 12,
    BLOCK_Q5_K = 13,
    BLOCK_Q6_K = 14,
    BLOCK_I8 = 24, /* bytes that are no weights */
    BLOCK_BF16 = 30
};

struct block_format {
    uint32_t id; /* enum block_type, or a number that is known but not read */
    const char *name;
    uint32_t elements;
    uint32_t bytes;
    /* Expands n elements, whole blocks; NULL where the type is not read. */
    void (*dequantise)(const void *blocks, size_t n, float *out);
    /* Quantises n elements, whole blocks; NULL where the type is not written. */
    void (*quantise)(const float *values, size_t n, void *out);
};

/* NULL for a number that names no type. */
const struct block_format *block_format_by_id(uint32_t id);

/* By name, in any case ("q8_0"); NULL for a name that is not known. */
const struct block_format *block_format_by_name(const char *name);

/* The format of this number where rows of n elements are whole blocks of it, else F32. */
const struct block_format *block_format_fitting(uint32_t id, uint64_t n);

/* Bytes of a row of n elements; false where n is no multiple of the block or the size overflows. */
bool block_row_bytes(const struct block_format *format, uint64_t n, uint64_t *bytes);

void quantise_f32(const float *values, size_t n, void *out);
void quantise_f16(const float *values, size_t n, void *out);
void quantise_q8_0(const float *values, size_t n, void *out);
void quantise_q4_0(const float *values, size_t n, void *out);

#endif
