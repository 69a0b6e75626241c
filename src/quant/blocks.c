/* SPDX-License-Identifier: Apache-2.0
 * The table of block formats. */
#include "quant/blocks.h"

#include <strings.h>

#include "base/checked.h"
#include "quant/codecs.h"

/* Only the converter among the WebAssembly modules writes types. Modules that only embed leave out
 * types that only generating models have. */
#if defined(__wasm__) && !defined(WISP_CONVERTER)
#define WRITE(function) NULL
#else
#define WRITE(function) function
#endif
#if defined(__wasm__) && defined(WISP_EMBED_ONLY)
#define NOT_TO_EMBED(function) NULL
#else
#define NOT_TO_EMBED(function) function
#endif

/* The functions of a type: READ is for types that are read everywhere, READ_BUT_TO_EMBED for those
 * that modules which only embed do not read, ONLY_READ_BUT_TO_EMBED for those of them that are
 * never written, UNREAD for types that are neither read nor written. quantise_NAME has the bits of
 * ggml's reference; `best` may have less error. */
#define READ(name, best) dequantise_##name, WRITE(best), WRITE(quantise_##name)
#define READ_BUT_TO_EMBED(name)                                                                    \
    NOT_TO_EMBED(dequantise_##name), WRITE(quantise_##name), WRITE(quantise_##name)
#define ONLY_READ_BUT_TO_EMBED(name) NOT_TO_EMBED(dequantise_##name), NULL, NULL
#define UNREAD NULL, NULL, NULL

static const struct block_format formats[] = {
    {BLOCK_F32, "F32", 1, 4, READ(f32, quantise_f32)},
    {BLOCK_F16, "F16", 1, 2, READ(f16, quantise_f16)},
    {BLOCK_Q4_0, "Q4_0", 32, 18, READ(q4_0, quantise_q4_0_fitted)},
    {BLOCK_Q4_1, "Q4_1", 32, 20, READ(q4_1, quantise_q4_1)},
    {BLOCK_Q5_0, "Q5_0", 32, 22, READ(q5_0, quantise_q5_0)},
    {BLOCK_Q5_1, "Q5_1", 32, 24, READ(q5_1, quantise_q5_1)},
    {BLOCK_Q8_0, "Q8_0", 32, 34, READ(q8_0, quantise_q8_0)},
    {9, "Q8_1", 32, 40, UNREAD},
    {BLOCK_Q2_K, "Q2_K", 256, 84, READ_BUT_TO_EMBED(q2_k)},
    {BLOCK_Q3_K, "Q3_K", 256, 110, READ_BUT_TO_EMBED(q3_k)},
    {BLOCK_Q4_K, "Q4_K", 256, 144, READ(q4_k, quantise_q4_k)},
    {BLOCK_Q5_K, "Q5_K", 256, 176, READ(q5_k, quantise_q5_k)},
    {BLOCK_Q6_K, "Q6_K", 256, 210, READ(q6_k, quantise_q6_k)},
    {15, "Q8_K", 256, 292, UNREAD},
    {16, "IQ2_XXS", 256, 66, UNREAD},
    {17, "IQ2_XS", 256, 74, UNREAD},
    {18, "IQ3_XXS", 256, 98, UNREAD},
    {19, "IQ1_S", 256, 50, UNREAD},
    {BLOCK_IQ4_NL, "IQ4_NL", 32, 18, READ(iq4_nl, quantise_iq4_nl)},
    {21, "IQ3_S", 256, 110, UNREAD},
    {22, "IQ2_S", 256, 82, UNREAD},
    {BLOCK_IQ4_XS, "IQ4_XS", 256, 136, READ_BUT_TO_EMBED(iq4_xs)},
    {BLOCK_I8, "I8", 1, 1, UNREAD},
    {25, "I16", 1, 2, UNREAD},
    {26, "I32", 1, 4, UNREAD},
    {27, "I64", 1, 8, UNREAD},
    {28, "F64", 1, 8, UNREAD},
    {29, "IQ1_M", 256, 56, UNREAD},
    {BLOCK_BF16, "BF16", 1, 2, READ(bf16, quantise_bf16)},
    {BLOCK_TQ1_0, "TQ1_0", 256, 54, READ(tq1_0, quantise_tq1_0)},
    {BLOCK_TQ2_0, "TQ2_0", 256, 66, READ(tq2_0, quantise_tq2_0)},
    {BLOCK_MXFP4, "MXFP4", 32, 17, READ(mxfp4, quantise_mxfp4)},
    {BLOCK_T158, "BITNET_T158", 256, 66, READ(bitnet_t158, quantise_bitnet_t158)},
    {40, "NVFP4", 64, 36, UNREAD},
    {BLOCK_Q1_0, "Q1_0", 128, 18, ONLY_READ_BUT_TO_EMBED(q1_0)},
#if !defined(__wasm__) || !defined(WISP_EMBED_ONLY)
    {BLOCK_Q2_0, "Q2_0", 64, 18, ONLY_READ_BUT_TO_EMBED(q2_0)},
    {BLOCK_PQ2_0, "PQ2_0", 128, 34, ONLY_READ_BUT_TO_EMBED(pq2_0)},
    {BLOCK_I2_S, "I2_S", 128, 32, UNREAD}, /* formats/bitnet.h makes floats of it */
#endif
};

enum { I2_S_END = 32 }; /* bytes after the rows of I2_S: the scale, and what aligns them */

enum { FORMAT_COUNT = sizeof formats / sizeof *formats };

const struct block_format *block_format_by_id(uint32_t id) {
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (formats[i].id == id)
            return &formats[i];
    return NULL;
}

const struct block_format *block_format_fitting(uint32_t id, uint64_t n) {
    const struct block_format *format = block_format_by_id(id);
    return format && n % format->elements == 0 ? format : block_format_by_id(BLOCK_F32);
}

const struct block_format *block_format_by_name(const char *name) {
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (strcasecmp(formats[i].name, name) == 0)
            return &formats[i];
    return NULL;
}

bool block_row_bytes(const struct block_format *format, uint64_t n, uint64_t *bytes) {
    return n % format->elements == 0 &&
           checked_multiply(n / format->elements, format->bytes, bytes);
}

bool block_crosses_rows(const struct block_format *format) {
    return format->id == BLOCK_T158;
}

bool block_rows_depend(const struct block_format *format, uint64_t n) {
    const bool whole = n % format->elements == 0;
    return format->id == BLOCK_I2_S ? whole : block_crosses_rows(format) && !whole;
}

bool block_tensor_bytes(const struct block_format *format, uint64_t n, uint64_t rows,
                        uint64_t *bytes) {
    uint64_t elements;
    if (!block_crosses_rows(format) || n % format->elements == 0)
        return block_row_bytes(format, n, bytes) && checked_multiply(rows, *bytes, bytes) &&
               (format->id != BLOCK_I2_S || checked_add(*bytes, I2_S_END, bytes));
    return checked_multiply(rows, n, &elements) &&
           checked_multiply(elements / format->elements + (elements % format->elements > 0),
                            format->bytes, bytes);
}

uint64_t block_whole_rows(const struct block_format *format, uint64_t n, uint64_t least) {
    uint64_t step = 1; /* the size of a block is a power of two */
    while (block_crosses_rows(format) && step * n % format->elements != 0)
        step *= 2;
    return (least + step - 1) / step * step;
}
