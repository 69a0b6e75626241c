/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/neuron_matrices.h"

#include <string.h>

#include "base/byte_order.h"
#include "base/product.h"
#include "base/transpose.h"
#include "formats/neurons.h"

/* Fails if only the hot rows are there, which are not a whole matrix. */
static wisp_status require_all_rows(const struct directory *dir, const struct tensor *tensor,
                                    wisp_error *error) {
    return dir->residency.lacks_neurons
               ? fail(error, WISP_ERROR_UNSUPPORTED, dir->sources[tensor->source].name,
                      tensor->name, "the model was opened without its cold neurons")
               : WISP_OK;
}

wisp_status neuron_matrices_up(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error) {
    const size_t row_bytes = (size_t)tensor->row_bytes;
    struct neuron_bytes layer;
    unsigned char *out = buffer;
    TRY(require_all_rows(dir, tensor, error));
    TRY(neurons_find_bytes(dir, tensor->maker, cache, &layer, error));
    *bytes = buffer;
    if (rows == 1 && dir->sources[tensor->source].data) {
        *bytes = neurons_find_part(&layer, first, tensor->part);
        return WISP_OK;
    }
    for (uint64_t i = 0; i < rows; i++, out += row_bytes)
        memcpy(out, neurons_find_part(&layer, first + i, tensor->part), row_bytes);
    return WISP_OK;
}

/* The rows [first, first + rows) of W_down that a call makes in `out`. */
struct down_rows {
    size_t first, rows, row_bytes;
    unsigned char *out;
};

/* Writes a column's elements of `element` bytes each to the rows. It is inline so that `element` is
 * a constant in each caller. */
static inline void spread_as(const struct down_rows *d, const unsigned char *column,
                             unsigned char *out, size_t element) {
    column += d->first * element;
    for (size_t r = 0; r < d->rows; r++, out += d->row_bytes, column += element)
        memcpy(out, column, element);
}

/* Eight neighbouring columns, of one-byte elements, or of four bits: then `high` has those columns
 * whose elements are the high nibbles of the same bytes. */
struct eight_columns {
    const unsigned char *low[8], *high[8]; /* high[0] is NULL for one-byte elements */
};

static unsigned nibble_of(const unsigned char *column, size_t row) {
    return column[row / 2] >> 4 * (row % 2) & 15u;
}

/* Returns the four-bit elements of eight rows from an even one on, each in a byte. */
static uint64_t eight_nibbles(const unsigned char *column, size_t row) {
    uint64_t x = load_u32(column + row / 2);
    x = (x | x << 16) & 0x0000FFFF0000FFFF;
    x = (x | x << 8) & 0x00FF00FF00FF00FF;
    return (x | x << 4) & 0x0F0F0F0F0F0F0F0F;
}

static void spread_row(const struct eight_columns *columns, size_t row, unsigned char *out) {
    for (size_t c = 0; c < 8; c++)
        out[c] = columns->high[0] ? (unsigned char)(nibble_of(columns->low[c], row) |
                                                    nibble_of(columns->high[c], row) << 4)
                                  : columns->low[c][row];
}

/* Writes eight columns to the rows, in squares of eight by eight. Modules write nibbles row by row,
 * which is less code. */
static void spread_eight(const struct down_rows *d, const struct eight_columns *columns,
                         unsigned char *out) {
    const size_t end = d->first + d->rows;
    size_t row = d->first;
    const bool by_rows = IS_MODULE && columns->high[0];
    for (; row < end && row % 2 == 1; row++, out += d->row_bytes)
        spread_row(columns, row, out);
    for (; row + 8 <= end && !by_rows; row += 8) {
        uint64_t x[8];
        for (size_t c = 0; c < 8; c++)
            x[c] = !IS_MODULE && columns->high[0] ? eight_nibbles(columns->low[c], row) |
                                                        eight_nibbles(columns->high[c], row) << 4
                                                  : load_u64(columns->low[c] + row);
        transpose_bytes(x);
        for (size_t i = 0; i < 8; i++, out += d->row_bytes)
            store_u64(out, x[i]);
    }
    for (; row < end; row++, out += d->row_bytes)
        spread_row(columns, row, out);
}

/* Writes the columns from j on that go together, as elements of each row, and returns the next one
 * to write. */
static size_t spread(const struct down_rows *d, const struct neuron_bytes *layer,
                     const struct tensor *tensor, size_t j) {
    enum { HALF = 16 }; /* of a block of four-bit elements: its low nibbles */
    unsigned char *out = d->out + neurons_element_byte(tensor->format, j);
    const size_t bits = neurons_element_bits(tensor->format);
    struct eight_columns columns = {0};
    if (bits > 8) {
        const unsigned char *column = neurons_find_part(layer, j, tensor->part);
        if (bits == 32)
            spread_as(d, column, out, 4);
        else
            spread_as(d, column, out, 2);
        return j + 1;
    }
    for (size_t c = 0; c < 8; c++) {
        columns.low[c] = neurons_find_part(layer, j + c, tensor->part);
        if (bits == 4)
            columns.high[c] = neurons_find_part(layer, j + HALF + c, tensor->part);
    }
    spread_eight(d, &columns, out);
    return j + 8 + (bits == 4 && (j + 8) % HALF == 0 ? HALF : 0);
}

/* Copies the scale of each block of the rows. */
static void copy_scales(const struct down_rows *d, const struct block_format *format,
                        const unsigned char *scales) {
    const size_t bytes = neurons_scale_bytes(format), blocks = d->row_bytes / format->bytes;
    scales += d->first * blocks * bytes;
    for (size_t r = 0; r < d->rows; r++)
        for (size_t b = 0; b < blocks; b++, scales += bytes)
            memcpy(d->out + r * d->row_bytes + b * format->bytes, scales, bytes);
}

wisp_status neuron_matrices_down(const struct directory *dir, const struct tensor *tensor,
                                 uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                 void *buffer, const void **bytes, wisp_error *error) {
    const struct down_rows d = {.first = (size_t)first,
                                .rows = (size_t)rows,
                                .row_bytes = (size_t)tensor->row_bytes,
                                .out = buffer};
    struct neuron_bytes layer;
    TRY(require_all_rows(dir, tensor, error));
    TRY(neurons_find_bytes(dir, tensor->maker, cache, &layer, error));
    for (size_t j = 0; j < tensor->dims[0];)
        j = spread(&d, &layer, tensor, j);
    if (neurons_scale_bytes(tensor->format) > 0)
        copy_scales(&d, tensor->format, layer.at[DOWN_SCALES]);
    *bytes = buffer;
    return WISP_OK;
}
