/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/neuron_matrices.h"

#include <string.h>

#include "base/byte_order.h"
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

/* Writes eight neighbouring columns of one-byte elements, in squares of eight by eight. */
static void spread_eight(const struct down_rows *d, const unsigned char *const columns[8],
                         unsigned char *out) {
    size_t r = 0;
    for (; r + 8 <= d->rows; r += 8) {
        uint64_t x[8];
        for (size_t c = 0; c < 8; c++)
            x[c] = load_u64(columns[c] + d->first + r);
        transpose_bytes(x);
        for (size_t i = 0; i < 8; i++, out += d->row_bytes)
            store_u64(out, x[i]);
    }
    for (; r < d->rows; r++, out += d->row_bytes)
        for (size_t c = 0; c < 8; c++)
            out[c] = columns[c][d->first + r];
}

/* Writes a column of four-bit elements. A column of the first half of a block, which sets the low
 * nibbles, must come before the column that sets the high nibbles of the same bytes. */
static void spread_nibbles(const struct down_rows *d, const unsigned char *column,
                           unsigned char *out, bool high) {
    for (size_t c = d->first; c < d->first + d->rows; c++, out += d->row_bytes) {
        const int nibble = column[c / 2] >> 4 * (c % 2) & 15;
        *out = (unsigned char)(high ? *out | nibble << 4 : nibble);
    }
}

/* Writes column j, whose elements are not of one byte, as element j of each row. */
static void spread(const struct down_rows *d, const struct block_format *format, size_t j,
                   const unsigned char *column) {
    unsigned char *out = d->out + neurons_element_byte(format, j);
    switch (neurons_element_bits(format)) {
    case 32:
        spread_as(d, column, out, 4);
        break;
    case 16:
        spread_as(d, column, out, 2);
        break;
    default:
        spread_nibbles(d, column, out, j % format->elements >= 16);
    }
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
    const size_t columns = neurons_element_bits(tensor->format) == 8 ? 8 : 1;
    for (size_t j = 0; j < tensor->dims[0]; j += columns) {
        const unsigned char *column[8];
        for (size_t c = 0; c < columns; c++)
            column[c] = neurons_find_part(&layer, j + c, tensor->part);
        if (columns == 8)
            spread_eight(&d, column, d.out + neurons_element_byte(tensor->format, j));
        else
            spread(&d, tensor->format, j, column[0]);
    }
    if (neurons_scale_bytes(tensor->format) > 0)
        copy_scales(&d, tensor->format, layer.at[DOWN_SCALES]);
    *bytes = buffer;
    return WISP_OK;
}
