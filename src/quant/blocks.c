/* SPDX-License-Identifier: Apache-2.0
 * The table of block formats.
 * Compiled for size in WebAssembly. */
#include "quant/blocks.h"

#include <strings.h>

#include "base/checked.h"

enum { I2_S_END = 32 }; /* bytes after the rows of I2_S: the scale, and what aligns them */

const struct block_format *block_format_by_id(uint32_t id) {
    for (size_t i = 0; block_formats[i].name; i++)
        if (block_formats[i].id == id)
            return &block_formats[i];
    return NULL;
}

const struct block_format *block_format_fitting(uint32_t id, uint64_t n) {
    const struct block_format *format = block_format_by_id(id);
    return format && n % format->elements == 0 ? format : block_format_by_id(BLOCK_F32);
}

const struct block_format *block_format_by_name(const char *name) {
    for (size_t i = 0; block_formats[i].name; i++)
        if (strcasecmp(block_formats[i].name, name) == 0)
            return &block_formats[i];
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
