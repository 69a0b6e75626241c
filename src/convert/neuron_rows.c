/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/neuron_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "base/checked.h"
#include "base/memory.h"
#include "convert/row_converter.h"
#include "formats/neurons_read.h"

enum { MAX_MATRICES = 3, ROWS_AT_A_TIME = 32 };

struct row_layer {
    bool wanted; /* its neurons become rows */
    size_t index;
    struct neuron_shape shape;
    struct tensor matrix[MAX_MATRICES]; /* the input's matrices; the last is W_down */
    const int32_t *order;               /* row i holds neuron order[i]; NULL: neuron i */
    uint64_t hot;                       /* the first `hot` rows are hot */
};

/* ---- making rows ---------------------------------------------------------------------------- */

static const struct tensor *down_of(const struct row_layer *layer) {
    return &layer->matrix[layer->shape.matrices - 1];
}

static size_t down_row_bytes(const struct row_layer *layer) {
    uint64_t bytes = 0;
    block_row_bytes(layer->shape.format, layer->shape.intermediate_size, &bytes);
    return (size_t)bytes;
}

/* Converts the rows of one matrix to `out`. */
static wisp_status convert_matrix(const struct directory *dir, const struct row_layer *layer,
                                  const struct tensor *matrix, struct tensor_cache *source,
                                  unsigned char *out, wisp_error *error) {
    struct row_converter converter;
    uint64_t row_bytes = 0;
    block_row_bytes(layer->shape.format, matrix->dims[0], &row_bytes);
    wisp_status status = row_converter_open(&converter, dir, matrix, layer->shape.format, false,
                                            ROWS_AT_A_TIME, source, error);
    for (uint64_t first = 0; first < matrix->rows && status == WISP_OK; first += ROWS_AT_A_TIME) {
        const uint64_t left = matrix->rows - first,
                       n = left < ROWS_AT_A_TIME ? left : ROWS_AT_A_TIME;
        const void *converted;
        status = row_converter_read(&converter, first, n, &converted, error);
        if (status == WISP_OK)
            memcpy(out + first * row_bytes, converted, (size_t)(n * row_bytes));
    }
    row_converter_close(&converter);
    return status;
}

/* Converts all matrices of the layer into the cache, unless the cache holds them already: W_down,
 * then the others. Rows and columns are then picked from it. The input is read once, also if its
 * matrices are made of rows, of which each call without their cache reads all. */
static wisp_status hold_matrices(const struct directory *dir, const struct row_layer *layer,
                                 struct tensor_cache *cache, wisp_error *error) {
    const struct neuron_shape *s = &layer->shape;
    struct tensor_cache source = {0};
    uint64_t down = 0, part = 0, parts = 0, bytes = UINT64_MAX;
    size_t size;
    if (cache->owner == layer)
        return WISP_OK;
    tensor_cache_release(cache);
    if (!checked_multiply(s->hidden_size, down_row_bytes(layer), &down) ||
        !checked_multiply(s->intermediate_size, s->part_bytes, &part) ||
        !checked_multiply(part, s->matrices - 1, &parts) || !checked_add(down, parts, &bytes) ||
        !checked_size(bytes, &size) || !(cache->bytes = malloc(size)))
        return fail_memory(error, bytes);
    unsigned char *out = cache->bytes;
    wisp_status status = convert_matrix(dir, layer, down_of(layer), &source, out, error);
    out += down;
    for (uint64_t i = 0; i < s->matrices - 1 && status == WISP_OK; i++, out += part)
        status = convert_matrix(dir, layer, &layer->matrix[i], &source, out, error);
    tensor_cache_release(&source);
    if (status == WISP_OK)
        cache->owner = layer;
    return status;
}

/* Copies a column of `rows` elements of `element` bytes each. It is inline so that `element` is a
 * constant in each caller. */
static inline void gather_as(const unsigned char *from, size_t row_bytes, size_t rows,
                             unsigned char *column, size_t element) {
    for (size_t r = 0; r < rows; r++, from += row_bytes, column += element)
        memcpy(column, from, element);
}

/* Copies a column of four-bit elements, packing two into each byte. */
static void gather_nibbles(const unsigned char *from, size_t row_bytes, size_t rows,
                           unsigned char *column, int shift) {
    for (size_t r = 0; r < rows; r += 2, from += 2 * row_bytes)
        *column++ = (unsigned char)((*from >> shift & 15) | (from[row_bytes] >> shift & 15) << 4);
}

/* Copies column j of W_down, without scales, as it is in a neuron's row. */
static void gather_column(const struct row_layer *layer, const unsigned char *down, size_t j,
                          unsigned char *column) {
    const struct block_format *format = layer->shape.format;
    const size_t row_bytes = down_row_bytes(layer), rows = (size_t)layer->shape.hidden_size;
    const unsigned char *from = down + neurons_element_byte(format, j);
    switch (neurons_element_bits(format)) {
    case 32:
        gather_as(from, row_bytes, rows, column, 4);
        break;
    case 16:
        gather_as(from, row_bytes, rows, column, 2);
        break;
    case 8:
        gather_as(from, row_bytes, rows, column, 1);
        break;
    default:
        gather_nibbles(from, row_bytes, rows, column, j % format->elements < 16 ? 0 : 4);
    }
}

/* Makes HOT_ROWS or COLD_ROWS. tensor->part is the place of the tensor's first neuron. */
static wisp_status make_neurons(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    const struct row_layer *layer = tensor->maker;
    const struct neuron_shape *s = &layer->shape;
    const uint64_t start = tensor->part + first, parts = s->matrices - 1;
    const size_t part_bytes = (size_t)s->part_bytes;
    unsigned char *out = buffer;
    TRY(hold_matrices(dir, layer, cache, error));
    const unsigned char *down = cache->bytes;
    const unsigned char *others = down + (size_t)s->hidden_size * down_row_bytes(layer);
    for (uint64_t i = start; i < start + rows; i++, out += s->row_bytes) {
        const size_t j = layer->order ? (size_t)layer->order[i] : (size_t)i;
        for (uint64_t part = 0; part < parts; part++)
            memcpy(out + part * part_bytes, others + (part * s->intermediate_size + j) * part_bytes,
                   part_bytes);
        gather_column(layer, down, j, out + parts * part_bytes);
    }
    *bytes = buffer;
    return WISP_OK;
}

/* Makes DOWN_SCALES: the scales of the blocks of W_down. */
static wisp_status make_scales(const struct directory *dir, const struct tensor *tensor,
                               uint64_t first, uint64_t rows, struct tensor_cache *cache,
                               void *buffer, const void **bytes, wisp_error *error) {
    const struct row_layer *layer = tensor->maker;
    const struct block_format *format = layer->shape.format;
    const size_t scale_bytes = neurons_scale_bytes(format), row_bytes = down_row_bytes(layer);
    unsigned char *out = buffer;
    TRY(hold_matrices(dir, layer, cache, error));
    const unsigned char *down = cache->bytes;
    for (uint64_t r = first; r < first + rows; r++)
        for (size_t at = 0; at < row_bytes; at += format->bytes, out += scale_bytes)
            memcpy(out, down + r * row_bytes + at, scale_bytes);
    *bytes = buffer;
    return WISP_OK;
}

/* Makes DOWN_ROW_SCALES or DOWN_BASE, which tensor->part names: one value for each row of W_down,
 * equal to the value that sparse/neuron_load.c computes if a file has none. */
static wisp_status make_derived(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, struct tensor_cache *cache,
                                void *buffer, const void **bytes, wisp_error *error) {
    const struct row_layer *layer = tensor->maker;
    const struct neuron_shape *s = &layer->shape;
    const size_t hidden_size = (size_t)s->hidden_size;
    const size_t intermediate_size = (size_t)s->intermediate_size;
    const size_t row_bytes = down_row_bytes(layer);
    const bool base = tensor->part == DOWN_BASE;
    float *center = NULL, *bias = NULL, *out = buffer;
    char name[TENSOR_NAME_BYTES];
    (void)first, (void)rows; /* the tensor has one row */
    TRY(hold_matrices(dir, layer, cache, error));
    float *row = memory_allocate(intermediate_size * sizeof *row);
    wisp_status status = row ? WISP_OK : fail_memory(error, intermediate_size * sizeof *row);
    if (status == WISP_OK && base) {
        layer_tensor_name(name, layer->index, TENSOR_CENTER, "");
        status = directory_load_floats(dir, name, 1, intermediate_size, &center, error);
    }
    layer_tensor_name(name, layer->index, TENSOR_FFN_DOWN, TENSOR_BIAS);
    if (status == WISP_OK && base && directory_find_tensor(dir, name))
        status = directory_load_floats(dir, name, 1, hidden_size, &bias, error);
    for (size_t c = 0; c < hidden_size && status == WISP_OK; c++) {
        const unsigned char *stored = cache->bytes;
        s->format->dequantise(stored + c * row_bytes, intermediate_size, row);
        out[c] = base ? neurons_base(bias ? bias[c] : 0, row, center, intermediate_size)
                      : neurons_row_scale(row, intermediate_size);
    }
    if (status == WISP_OK)
        swap_file_numbers(out, hidden_size, sizeof *out);
    memory_free(row);
    memory_free(center);
    memory_free(bias);
    *bytes = buffer;
    return status;
}

/* ---- choosing layers ------------------------------------------------------------------------ */

struct arranger {
    struct neuron_arrangement *arrangement;
    struct directory *dir;
    const struct block_format *const *formats;
    uint64_t matrices;
    int64_t *owners; /* [dir->n_tensors]: layer * matrices + part, or NEURONS_NONE */
    uint64_t hidden_size, intermediate_size; /* equal in all layers with rows; 0 before the first */
    int32_t *types, *places;
    struct tensor *tensors;
    size_t n_tensors;
    wisp_error *error;
};

static const struct tensor *find_matrix(const struct arranger *a, size_t l, uint64_t part,
                                        char name[TENSOR_NAME_BYTES]) {
    layer_tensor_name(name, l, neurons_matrix_name(part, a->matrices), TENSOR_WEIGHT);
    return directory_find_tensor(a->dir, name);
}

static wisp_status check_matrix(const struct arranger *a, const struct tensor *matrix,
                                const struct neuron_shape *s, bool down, wisp_error *error) {
    const struct block_format *planned = a->formats[matrix - a->dir->tensors];
    const uint64_t dim0 = down ? s->intermediate_size : s->hidden_size,
                   dim1 = down ? s->hidden_size : s->intermediate_size;
    if (planned != s->format)
        return fail(error, WISP_ERROR_UNSUPPORTED, a->dir->file, matrix->name,
                    "of type %s, but the layer's ffn_up is of type %s: its neurons cannot be rows",
                    planned->name, s->format->name);
    if (matrix->n_dims != 2 || matrix->dims[0] != dim0 || matrix->dims[1] != dim1 ||
        matrix->rows != dim1)
        return fail(error, WISP_ERROR_FORMAT, a->dir->file, matrix->name,
                    "its shape in %u dimensions is [%llu, %llu]; expected [%llu, %llu]",
                    matrix->n_dims, (unsigned long long)matrix->rows,
                    (unsigned long long)matrix->dims[0], (unsigned long long)dim1,
                    (unsigned long long)dim0);
    return WISP_OK;
}

/* Checks that the layer's neurons can be rows, and keeps the tensors that they are made from. */
static wisp_status take_layer(struct arranger *a, size_t l, wisp_error *error) {
    struct row_layer *layer = &a->arrangement->layers[l];
    struct neuron_shape *s = &layer->shape;
    for (uint64_t part = 0; part < a->matrices; part++) {
        char name[TENSOR_NAME_BYTES];
        const struct tensor *matrix = find_matrix(a, l, part, name);
        if (!matrix)
            return fail(error, WISP_ERROR_NOT_FOUND, a->dir->file, name, "the tensor is missing");
        if (part == 0)
            *s = (struct neuron_shape){
                .format = a->formats[matrix - a->dir->tensors],
                .matrices = a->matrices,
                .hidden_size = a->hidden_size ? a->hidden_size : matrix->dims[0],
                .intermediate_size = a->intermediate_size ? a->intermediate_size : matrix->rows};
        if (!neurons_have_format(s->format))
            return fail(error, WISP_ERROR_UNSUPPORTED, a->dir->file, name,
                        "of type %s: its neurons cannot be rows", s->format->name);
        TRY(check_matrix(a, matrix, s, part == a->matrices - 1, error));
        layer->matrix[part] = *matrix;
    }
    neuron_shape_measure(s);
    layer->wanted = true;
    layer->index = l;
    layer->hot = s->intermediate_size;
    a->hidden_size = s->hidden_size;
    a->intermediate_size = s->intermediate_size;
    return WISP_OK;
}

/* ---- replacing tensors ---------------------------------------------------------------------- */

/* Adds one of the tensors that replace a layer's matrices. */
static wisp_status add_tensor(struct arranger *a, const struct row_layer *layer,
                              enum neuron_tensor which, struct tensor tensor) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, layer->index, neuron_tensor_parts[which], "");
    tensor.name = arena_copy_text(&a->dir->arena, name, strlen(name));
    tensor.source = down_of(layer)->source;
    tensor.maker = layer;
    if (!tensor.name)
        return fail_memory(a->error, sizeof name);
    TRY(directory_measure_tensor(a->dir, &tensor, a->error));
    a->tensors[a->n_tensors] = tensor;
    a->arrangement->formats[a->n_tensors++] = tensor.format;
    return WISP_OK;
}

/* Adds a tensor of the `rows` neurons from place `first` on; adds none if `rows` is 0. */
static wisp_status add_rows(struct arranger *a, const struct row_layer *layer,
                            enum neuron_tensor which, uint64_t first, uint64_t rows) {
    const struct block_format *format = neurons_stored_format(layer->shape.format);
    if (rows == 0)
        return WISP_OK;
    return add_tensor(a, layer, which,
                      (struct tensor){.format = format,
                                      .n_dims = 2,
                                      .dims = {layer->shape.row_bytes / format->bytes, rows},
                                      .make = make_neurons,
                                      .part = first});
}

/* Adds the tensors of scales and base that allow a reader to pack each column of W_down alone. */
static wisp_status add_scales(struct arranger *a, const struct row_layer *layer) {
    const struct neuron_shape *s = &layer->shape;
    char center[TENSOR_NAME_BYTES];
    if (neurons_scale_bytes(s->format) > 0)
        TRY(add_tensor(
            a, layer, DOWN_SCALES,
            (struct tensor){.format = block_format_by_id(BLOCK_F16),
                            .n_dims = 2,
                            .dims = {s->intermediate_size / s->format->elements, s->hidden_size},
                            .make = make_scales}));
    layer_tensor_name(center, layer->index, TENSOR_CENTER, "");
    const int last = directory_find_tensor(a->dir, center) ? DOWN_BASE : DOWN_ROW_SCALES;
    for (int which = DOWN_ROW_SCALES; which <= last; which++)
        TRY(add_tensor(a, layer, (enum neuron_tensor)which,
                       (struct tensor){.format = block_format_by_id(BLOCK_F32),
                                       .n_dims = 1,
                                       .dims = {s->hidden_size},
                                       .make = make_derived,
                                       .part = (uint64_t)which}));
    return WISP_OK;
}

/* Lists all tensors again. Hot rows replace W_up and scales replace W_down; the cold rows of all
 * layers come last. */
static wisp_status add_tensors(struct arranger *a) {
    const struct neuron_arrangement *arrangement = a->arrangement;
    for (size_t i = 0; i < a->dir->n_tensors; i++) {
        if (a->owners[i] == NEURONS_NONE) {
            arrangement->formats[a->n_tensors] = a->formats[i];
            a->tensors[a->n_tensors++] = a->dir->tensors[i];
            continue;
        }
        const struct row_layer *layer = &arrangement->layers[(size_t)a->owners[i] / a->matrices];
        const uint64_t part = (uint64_t)a->owners[i] % a->matrices;
        a->places[a->owners[i]] = (int32_t)i;
        if (part == 0)
            TRY(add_rows(a, layer, HOT_ROWS, 0, layer->hot));
        else if (part == a->matrices - 1)
            TRY(add_scales(a, layer));
    }
    for (size_t l = 0; l < arrangement->n_layers; l++) {
        const struct row_layer *layer = &arrangement->layers[l];
        if (layer->wanted)
            TRY(add_rows(a, layer, COLD_ROWS, layer->hot, a->intermediate_size - layer->hot));
    }
    return WISP_OK;
}

/* Allocates the arrays of the arranger, and marks the matrices of layers that become rows. */
static wisp_status reserve(struct arranger *a) {
    struct directory *dir = a->dir;
    const size_t layers = a->arrangement->n_layers;
    const size_t most = dir->n_tensors + layers * NEURON_TENSORS;
    const size_t places = layers * (size_t)a->matrices;
    struct arena *arena = &a->arrangement->arena;
    a->tensors = malloc(most * sizeof *a->tensors); /* `replace` gives it to the directory */
    if (!a->tensors)
        return fail_memory(a->error, most * sizeof *a->tensors);
    ARENA_TAKE(arena, a->owners, dir->n_tensors, a->error);
    ARENA_TAKE(arena, a->arrangement->formats, most, a->error);
    ARENA_TAKE(&dir->arena, a->types, layers, a->error);
    ARENA_TAKE(&dir->arena, a->places, places, a->error);
    for (size_t i = 0; i < dir->n_tensors; i++)
        a->owners[i] = NEURONS_NONE;
    for (size_t i = 0; i < places; i++)
        a->places[i] = NEURONS_NONE;
    for (size_t l = 0; l < layers; l++) {
        const struct row_layer *layer = &a->arrangement->layers[l];
        char name[TENSOR_NAME_BYTES];
        a->types[l] = layer->wanted ? (int32_t)layer->shape.format->id : (int32_t)NEURONS_NONE;
        for (uint64_t part = 0; layer->wanted && part < a->matrices; part++)
            a->owners[find_matrix(a, l, part, name) - dir->tensors] =
                (int64_t)(l * a->matrices + part);
    }
    return WISP_OK;
}

/* Replaces the directory's tensors and adds the keys of the layout. */
static wisp_status replace(struct arranger *a) {
    struct directory *dir = a->dir;
    const size_t n = a->arrangement->n_layers;
    const int32_t *order, *hot;
    TRY(neurons_read_order(dir, n, a->intermediate_size, &order, a->error));
    TRY(neurons_read_hot(dir, n, a->intermediate_size, &hot, a->error));
    for (size_t l = 0; l < n; l++) {
        struct row_layer *layer = &a->arrangement->layers[l];
        layer->order = order ? order + l * a->intermediate_size : NULL;
        layer->hot = hot ? (uint64_t)hot[l] : a->intermediate_size;
    }
    TRY(reserve(a));
    TRY(add_tensors(a));
    TRY(directory_put_numbers(dir, KEY_NEURONS_TYPES, VALUE_I32, a->types, n, a->error));
    TRY(directory_put_numbers(dir, KEY_NEURONS_PLACES, VALUE_I32, a->places, n * a->matrices,
                              a->error));
    free(dir->tensors);
    dir->tensors = a->tensors;
    dir->tensor_capacity = dir->n_tensors + n * NEURON_TENSORS;
    dir->n_tensors = a->n_tensors;
    a->tensors = NULL;
    return directory_finish(dir, a->error);
}

/* Returns the first tensor of experts, or NULL. */
static const struct tensor *find_experts(const struct directory *dir) {
    for (size_t i = 0; i < dir->n_tensors; i++)
        if (strstr(dir->tensors[i].name, "." TENSOR_UP_EXPERTS TENSOR_WEIGHT))
            return &dir->tensors[i];
    return NULL;
}

static wisp_status arrange(struct arranger *a, enum neuron_layout layout) {
    struct neuron_arrangement *arrangement = a->arrangement;
    const struct tensor *experts = find_experts(a->dir);
    char name[TENSOR_NAME_BYTES];
    bool any = false;
    if (experts && layout == NEURONS_ALL)
        return fail(a->error, WISP_ERROR_UNSUPPORTED, a->dir->file, experts->name,
                    "neurons of experts cannot be rows");
    if (experts)
        return WISP_OK;
    while (find_matrix(a, arrangement->n_layers, 0, name))
        arrangement->n_layers++;
    if (arrangement->n_layers == 0 && layout == NEURONS_ALL)
        return fail(a->error, WISP_ERROR_NOT_FOUND, a->dir->file, name, "the tensor is missing");
    if (layout == NEURONS_PLAIN || arrangement->n_layers == 0)
        return WISP_OK;
    ARENA_TAKE(&arrangement->arena, arrangement->layers, arrangement->n_layers, a->error);
    for (size_t l = 0; l < arrangement->n_layers; l++) {
        const bool are_rows = neurons_find_rows(a->dir, l) != NULL;
        if (layout == NEURONS_ALL)
            TRY(take_layer(a, l, a->error));
        else if (layout == NEURONS_WHERE_POSSIBLE || are_rows)
            take_layer(a, l, NULL); /* keeps the matrices of layers that cannot be rows */
        any = any || arrangement->layers[l].wanted;
    }
    return any ? replace(a) : WISP_OK;
}

/* Returns whether gates stay a matrix: those of a model that generates choose its neurons
 * (models/ffn_gate.c), so that they are read as a whole, and the neurons without them. */
static bool gates_stay(const struct directory *dir) {
    for (size_t i = 0; i < dir->n_metadata; i++)
        if (strstr(dir->metadata[i].key, ".pooling_type"))
            return false;
    return directory_find_tensor(dir, "output_norm.weight") != NULL;
}

wisp_status neuron_rows_arrange(struct neuron_arrangement *arrangement, struct directory *dir,
                                const struct block_format *const *formats,
                                enum neuron_layout layout, wisp_error *error) {
    struct arranger a = {
        .arrangement = arrangement, .dir = dir, .formats = formats, .error = error};
    char gate[TENSOR_NAME_BYTES];
    layer_tensor_name(gate, 0, TENSOR_FFN_GATE, TENSOR_WEIGHT);
    *arrangement = (struct neuron_arrangement){0};
    directory_drop_metadata(dir, KEY_NEURONS_PREFIX);
    TRY(directory_finish(dir, error));
    a.matrices = directory_find_tensor(dir, gate) && !gates_stay(dir) ? 3 : 2;
    const wisp_status status = arrange(&a, layout);
    free(a.tensors);
    return status;
}

void neuron_rows_release(struct neuron_arrangement *arrangement) {
    arena_release(&arrangement->arena);
    *arrangement = (struct neuron_arrangement){0};
}
