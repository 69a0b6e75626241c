/* SPDX-License-Identifier: Apache-2.0
 * Reads rows of a tensor and converts them to another format. */
#ifndef WISP_CONVERT_ROW_CONVERTER_H
#define WISP_CONVERT_ROW_CONVERTER_H

#include "formats/directory.h"
#include "quant/t158.h"

/* Sums over the values that were converted, and over the values that a reader gets back. */
struct conversion_loss {
    uint64_t values;
    double squares, squares_back, products;
    double differences;        /* the sum of squared differences */
    struct t158_stats ternary; /* of BITNET_T158 */
};

struct row_converter {
    const struct directory *dir;
    const struct tensor *tensor;
    const struct block_format *format;
    struct tensor_cache *cache;
    void *stored;    /* rows in the tensor's own format */
    float *values;   /* the rows as floats; NULL if the formats are equal */
    void *converted; /* the rows in `format`; NULL if the formats are equal */
    /* Quantises as ggml's reference does. Rows are then read back: values that do not become finite
     * are an error, and the loss is added up. */
    bool as_reference;
    const struct t158_options *ternary; /* options of BITNET_T158, which the caller sets after
                                           opening; NULL: t158_defaults */
    float *back;
    struct conversion_loss loss;
};

/* Opens a converter for at most `rows` rows at a time. `format` is the tensor's own, or another one
 * that has `quantise` and whose block divides the row or crosses rows; the tensor's own then has
 * `dequantise`. `as_reference` is as in the struct. `cache`, for directory_rows, may be NULL. Fails
 * if memory is short. The caller closes the converter, also after a failure. */
wisp_status row_converter_open(struct row_converter *converter, const struct directory *dir,
                               const struct tensor *tensor, const struct block_format *format,
                               bool as_reference, uint64_t rows, struct tensor_cache *cache,
                               wisp_error *error);

/* Points *bytes to rows [first, first + rows) in `format`, which last until the next call. If
 * blocks cross rows, row `first` must begin with a block. Fails if the rows cannot be read or
 * hold a value that exceeds the range of the format. */
wisp_status row_converter_read(struct row_converter *converter, uint64_t first, uint64_t rows,
                               const void **bytes, wisp_error *error);

void row_converter_close(struct row_converter *converter);

#endif
