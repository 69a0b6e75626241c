/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/neurons.h"

#include <math.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/half.h"
#include "kernels/weights.h"

const char *const neuron_tensor_parts[NEURON_TENSORS] = {[HOT_ROWS] = TENSOR_NEURONS_HOT,
                                                         [COLD_ROWS] = TENSOR_NEURONS_COLD,
                                                         [DOWN_SCALES] = TENSOR_DOWN_SCALES,
                                                         [DOWN_ROW_SCALES] = TENSOR_DOWN_ROW_SCALES,
                                                         [DOWN_BASE] = TENSOR_DOWN_BASE};

/* ---- shapes --------------------------------------------------------------------------------- */

bool neurons_have_format(const struct block_format *format) {
    switch (format->id) {
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16:
    case BLOCK_Q8_0:
    case BLOCK_Q4_0:
        return true;
    default:
        return false;
    }
}

const struct block_format *neurons_stored_format(const struct block_format *format) {
    return format->elements > 1 ? block_format_by_id(BLOCK_I8) : format;
}

void neuron_shape_measure(struct neuron_shape *s) {
    block_row_bytes(s->format, s->hidden_size, &s->part_bytes);
    s->row_bytes =
        (s->matrices - 1) * s->part_bytes + s->hidden_size * neurons_element_bits(s->format) / 8;
}

const char *neurons_matrix_name(uint64_t part, uint64_t matrices) {
    return part == 0 ? TENSOR_FFN_UP : part == matrices - 1 ? TENSOR_FFN_DOWN : TENSOR_FFN_GATE;
}

/* ---- values that depend on all of W_down ---------------------------------------------------- */

float neurons_row_scale(const float *row, size_t n) {
    const float largest = largest_magnitude(row, n);
    return largest > 0 ? sqrtf(largest) : 1;
}

float neurons_base(float bias, const float *row, const float *center, size_t n) {
    double sum = (double)bias;
    for (size_t i = 0; i < n; i++)
        sum += (double)row[i] * (double)center[i];
    return (float)sum;
}

/* ---- rows in memory ------------------------------------------------------------------------- */

/* The tensors from which matrices are made: HOT_ROWS, COLD_ROWS and DOWN_SCALES. */
enum { MATRIX_TENSORS = DOWN_SCALES + 1 };

/* Returns the bytes of a tensor that are read: none of the cold rows if the directory says so.
 */
static uint64_t bytes_read(const struct directory *dir, const struct neuron_rows *rows,
                           int tensor) {
    return tensor == COLD_ROWS && dir->residency.lacks_rows ? 0 : rows->stored[tensor].bytes;
}

/* Reads these tensors into the cache, one behind the other. */
static wisp_status fill_cache(const struct directory *dir, const struct neuron_rows *rows,
                              struct tensor_cache *cache, wisp_error *error) {
    uint64_t bytes = 0;
    size_t size;
    for (int i = 0; i < MATRIX_TENSORS; i++)
        bytes += bytes_read(dir, rows, i);
    tensor_cache_release(cache);
    unsigned char *to = checked_size(bytes, &size) ? malloc(size) : NULL;
    if (!to)
        return fail_memory(error, bytes);
    cache->bytes = to;
    for (int i = 0; i < MATRIX_TENSORS; i++) {
        const struct tensor *tensor = &rows->stored[i];
        const void *read;
        if (bytes_read(dir, rows, i) > 0)
            TRY(directory_rows(dir, tensor, 0, tensor->rows, NULL, to, &read, error));
        to += bytes_read(dir, rows, i);
    }
    cache->owner = rows;
    return WISP_OK;
}

wisp_status neurons_find_bytes(const struct directory *dir, const struct neuron_rows *rows,
                               struct tensor_cache *cache, struct neuron_bytes *found,
                               wisp_error *error) {
    const unsigned char *data = dir->sources[rows->source].data;
    found->rows = rows;
    if (data) {
        for (int i = 0; i < MATRIX_TENSORS; i++)
            found->at[i] = data + rows->stored[i].offset;
        return WISP_OK;
    }
    if (cache->owner != rows)
        TRY(fill_cache(dir, rows, cache, error));
    data = cache->bytes;
    for (int i = 0; i < MATRIX_TENSORS; i++) {
        found->at[i] = data;
        data += bytes_read(dir, rows, i);
    }
    return WISP_OK;
}

const unsigned char *neurons_find_part(const struct neuron_bytes *bytes, uint64_t j,
                                       uint64_t part) {
    const struct neuron_rows *rows = bytes->rows;
    const struct neuron_shape *s = &rows->shape;
    const uint64_t place = rows->place ? rows->place[j] : j, hot = rows->stored[HOT_ROWS].rows;
    const unsigned char *row = place < hot ? bytes->at[HOT_ROWS] + place * s->row_bytes
                                           : bytes->at[COLD_ROWS] + (place - hot) * s->row_bytes;
    return row + part * s->part_bytes;
}

void neurons_read_scales(const struct neuron_shape *shape, const unsigned char *stored, uint64_t j,
                         float *scales) {
    const size_t bytes = neurons_scale_bytes(shape->format), block = shape->format->elements;
    const size_t row_bytes = (size_t)shape->intermediate_size / block * bytes;
    stored += (size_t)j / block * bytes;
    for (size_t c = 0; bytes > 0 && c < shape->hidden_size; c++, stored += row_bytes)
        scales[c] = float_of_half(load_u16(stored));
}

void neurons_read_column(const struct neuron_shape *shape, const unsigned char *stored,
                         const float *scales, float *column) {
    const size_t n = (size_t)shape->hidden_size;
    switch (neurons_element_bits(shape->format)) {
    case 8:
        for (size_t c = 0; c < n; c++)
            column[c] = scales[c] * (float)(int8_t)stored[c];
        break;
    case 4:
        for (size_t c = 0; c < n; c++)
            column[c] = scales[c] * (float)((stored[c / 2] >> 4 * (c % 2) & 15) - 8);
        break;
    default:
        shape->format->dequantise(stored, n, column);
    }
}
