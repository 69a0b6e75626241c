/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/columns.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/schema.h"
#include "kernels/weights.h"
#include "layers/linear.h"

/* All of W_down as floats would be four times what is kept, so it is read a few rows at a time, and
 * twice: for the columns' scales, and to be packed by them. */
enum { ROWS_AT_A_TIME = 32 };

struct load {
    const struct columns_source *source;
    const struct sparse_kernels *kernels;
    struct columns *columns;
    const struct tensor *tensor;
    void *stored;   /* some rows */
    float *rows;    /* [ROWS_AT_A_TIME, wide] */
    int8_t *bytes;  /* [ROWS_AT_A_TIME, wide] */
    float *factors; /* [wide]: what the columns are multiplied by; at first their largest */
    wisp_error *error;
};

/* All rows, n of them at a time, which stand in l->rows. */
static wisp_status each_part(const struct load *l,
                             void (*take)(const struct load *l, size_t first, size_t n)) {
    const size_t hidden = l->source->hidden;
    for (size_t first = 0; first < hidden; first += ROWS_AT_A_TIME) {
        const size_t n = smaller(hidden - first, ROWS_AT_A_TIME);
        TRY(directory_floats(l->source->dir, l->tensor, first, n, l->stored, l->rows, l->error));
        take(l, first, n);
    }
    return WISP_OK;
}

/* A column has one scale for all its rows: rows whose weights are larger than most would leave few
 * of its steps to the others. By half of the way, in logarithms, they are brought to one size. */
static float row_scale(const float *row, size_t n) {
    const float largest = largest_magnitude(row, n);
    return largest > 0 ? sqrtf(largest) : 1;
}

/* The row's scale, what it adds to the largest of each column, and base += W_down center. */
static void measure_row(const struct load *l, size_t c, const float *row) {
    const size_t wide = l->source->wide;
    const float *center = l->source->center;
    const float scale = row_scale(row, wide), inverse = 1 / scale;
    double sum = (double)l->columns->base[c];
    l->columns->row_scales[c] = scale;
    for (size_t i = 0; i < wide; i++) {
        const float size = fabsf(row[i] * inverse);
        l->factors[i] = size > l->factors[i] ? size : l->factors[i];
    }
    for (size_t i = 0; center && i < wide; i++)
        sum += (double)row[i] * (double)center[i];
    l->columns->base[c] = (float)sum;
}

static void measure_part(const struct load *l, size_t first, size_t n) {
    for (size_t i = 0; i < n; i++)
        measure_row(l, first + i, l->rows + i * l->source->wide);
}

/* From the largest of each column to its scale, and to what it is multiplied by. */
static void find_factors(const struct load *l) {
    const size_t wide = l->source->wide;
    for (size_t i = 0; i < wide; i++) {
        const size_t neuron = l->source->order ? (size_t)l->source->order[i] : i;
        l->columns->scale[i] = l->factors[neuron] / 127;
    }
    for (size_t i = 0; i < wide; i++)
        l->factors[i] = inverse_scale(l->factors[i]);
}

static void scale_row(float *row, size_t n, float by) {
    for (size_t i = 0; i < n; i++)
        row[i] *= by;
}

static void pack_part(const struct load *l, size_t first, size_t n) {
    const size_t wide = l->source->wide;
    for (size_t i = 0; i < n; i++)
        scale_row(l->rows + i * wide, wide, 1 / l->columns->row_scales[first + i]);
    pack_neuron_columns(l->kernels, l->rows, l->factors, l->source->order, wide, first, n,
                        l->source->hidden, l->bytes, l->columns->w);
}

/* Zeroed memory that counts as the layer's. */
static void *hold(struct columns *columns, size_t bytes) {
    void *held = memory_allocate(bytes);
    if (held)
        memset(held, 0, bytes);
    columns->bytes += bytes;
    return held;
}

static wisp_status load_all(struct load *l) {
    const struct columns_source *source = l->source;
    const size_t hidden = source->hidden, wide = source->wide;
    struct columns *columns = l->columns;
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, source->index, TENSOR_FFN_DOWN, TENSOR_WEIGHT);
    TRY(directory_require_tensor(source->dir, name, wide, hidden, &l->tensor, l->error));
    columns->w = hold(columns, wide * sparse_row_bytes(hidden));
    columns->scale = hold(columns, wide * sizeof *columns->scale);
    columns->row_scales = hold(columns, hidden * sizeof *columns->row_scales);
    columns->base = hold(columns, hidden * sizeof *columns->base);
    l->stored = memory_allocate(ROWS_AT_A_TIME * (size_t)l->tensor->row_bytes);
    l->rows = memory_allocate(ROWS_AT_A_TIME * wide * sizeof *l->rows);
    l->bytes = memory_allocate(ROWS_AT_A_TIME * wide);
    l->factors = memory_allocate(wide * sizeof *l->factors);
    if (!columns->w || !columns->scale || !columns->row_scales || !columns->base || !l->stored ||
        !l->rows || !l->bytes || !l->factors)
        return fail_memory(l->error, wide * sparse_row_bytes(hidden));
    memset(l->factors, 0, wide * sizeof *l->factors);
    const struct linear_source bias = {
        .dir = source->dir, .unbiased = source->unbiased, .n = hidden};
    layer_tensor_name(name, source->index, TENSOR_FFN_DOWN, TENSOR_BIAS);
    TRY(linear_bias(&bias, name, columns->base, l->error));
    TRY(each_part(l, measure_part));
    find_factors(l);
    return each_part(l, pack_part);
}

wisp_status columns_load(struct columns *columns, const struct columns_source *source,
                         const struct sparse_kernels *kernels, wisp_error *error) {
    *columns = (struct columns){0};
    struct load l = {.source = source, .kernels = kernels, .columns = columns, .error = error};
    const wisp_status status = load_all(&l);
    memory_free(l.stored);
    memory_free(l.rows);
    memory_free(l.bytes);
    memory_free(l.factors);
    return status;
}

void columns_release(struct columns *columns) {
    memory_free(columns->w);
    memory_free(columns->scale);
    memory_free(columns->row_scales);
    memory_free(columns->base);
    *columns = (struct columns){0};
}
