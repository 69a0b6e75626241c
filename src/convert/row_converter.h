/* SPDX-License-Identifier: Apache-2.0
 * Reads rows of a tensor and converts them to another format. */
#ifndef WISP_CONVERT_ROW_CONVERTER_H
#define WISP_CONVERT_ROW_CONVERTER_H

#include "formats/directory.h"

struct row_converter {
    const struct directory *dir;
    const struct tensor *tensor;
    const struct block_format *format;
    struct tensor_cache *cache;
    void *stored, *converted; /* rows as they are, and in `format` */
    float *values;            /* NULL where the formats are the same */
};

/* Makes room for `rows` rows at a time. `format` is the tensor's own, or, if that can be read, one
 * that can be written and whose block divides the row. `cache`, for directory_rows, may be NULL.
 * Must be closed, also after a failure. */
wisp_status row_converter_open(struct row_converter *converter, const struct directory *dir,
                               const struct tensor *tensor, const struct block_format *format,
                               uint64_t rows, struct tensor_cache *cache, wisp_error *error);

/* Points *bytes to rows [first, first + rows), until the next call. */
wisp_status row_converter_read(const struct row_converter *converter, uint64_t first, uint64_t rows,
                               const void **bytes, wisp_error *error);

void row_converter_close(struct row_converter *converter);

#endif
