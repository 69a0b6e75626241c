/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/neurons_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "formats/neuron_matrices.h"

enum { NAME_BYTES = 64 };

/* ---- keys ----------------------------------------------------------------------------------- */

/* Finds the array of i32 with this key; sets *numbers to NULL if the file has none. The array
 * is in the directory's arena, which aligns it. */
static wisp_status find_numbers(const struct directory *dir, const char *key,
                                const int32_t **numbers, uint64_t *count, wisp_error *error) {
    const struct metadata *array = directory_find_metadata(dir, key);
    *numbers = NULL;
    if (!array)
        return WISP_OK;
    if (array->type != VALUE_ARRAY || array->element != VALUE_I32)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key, "expected an array of i32");
    *numbers = array->as.numbers;
    *count = array->count;
    return WISP_OK;
}

/* Finds an array of `wanted` i32 as find_numbers does; fails if it has another length. */
static wisp_status find_array(const struct directory *dir, const char *key, uint64_t wanted,
                              const int32_t **numbers, wisp_error *error) {
    uint64_t count = wanted;
    TRY(find_numbers(dir, key, numbers, &count, error));
    if (count != wanted)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                    "an array of %llu; expected %llu numbers", (unsigned long long)count,
                    (unsigned long long)wanted);
    return WISP_OK;
}

wisp_status neurons_read_order(const struct directory *dir, uint64_t layers,
                               uint64_t intermediate_size, const int32_t **order,
                               wisp_error *error) {
    uint64_t n;
    size_t size;
    if (!checked_multiply(layers, intermediate_size, &n) || !checked_size(intermediate_size, &size))
        return fail_memory(error, UINT64_MAX);
    TRY(find_array(dir, KEY_SPARSE_ORDER, n, order, error));
    if (!*order)
        return WISP_OK;
    bool *seen = malloc(size);
    wisp_status status = seen ? WISP_OK : fail_memory(error, intermediate_size);
    for (uint64_t i = 0; i < n && status == WISP_OK; i++) {
        const int32_t neuron = (*order)[i];
        if (i % intermediate_size == 0)
            memset(seen, 0, size);
        if (neuron < 0 || (uint64_t)neuron >= intermediate_size || seen[neuron])
            status = fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_ORDER,
                          "entry %llu is %d: not an order of %llu neurons", (unsigned long long)i,
                          (int)neuron, (unsigned long long)intermediate_size);
        else
            seen[neuron] = true;
    }
    free(seen);
    return status;
}

wisp_status neurons_read_hot(const struct directory *dir, uint64_t layers,
                             uint64_t intermediate_size, const int32_t **hot, wisp_error *error) {
    TRY(find_array(dir, KEY_SPARSE_HOT, layers, hot, error));
    for (uint64_t l = 0; *hot && l < layers; l++)
        if ((*hot)[l] < 0 || (uint64_t)(*hot)[l] > intermediate_size)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_HOT,
                        "entry %llu is %d, but a layer has %llu neurons", (unsigned long long)l,
                        (int)(*hot)[l], (unsigned long long)intermediate_size);
    return WISP_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reader {
    struct directory *dir;
    uint64_t layers, matrices;
    const int32_t *types;                    /* [layers] */
    const int32_t *places;                   /* [layers, matrices] */
    const int32_t *order, *hot;              /* may be NULL */
    uint64_t hidden_size, intermediate_size; /* equal in all layers; 0 before the first is read */
    bool *taken;                             /* [dir->n_tensors]: the tensor belongs to rows */
    struct tensor *tensors;                  /* [capacity]: the tensors of the plain model */
    size_t capacity, n_taken;
    wisp_error *error;
};

/* Takes one of the layer's tensors, if the file has it, and checks its type. */
static wisp_status take_stored(struct reader *r, uint64_t l, enum neuron_tensor which,
                               struct neuron_rows *rows) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, (size_t)l, neuron_tensor_parts[which], "");
    const struct tensor *tensor = directory_find_tensor(r->dir, name);
    const struct block_format *format = which >= DOWN_ROW_SCALES ? block_format_by_id(BLOCK_F32)
                                        : which == DOWN_SCALES
                                            ? block_format_by_id(BLOCK_F16)
                                            : neurons_stored_format(rows->shape.format);
    if (!tensor)
        return WISP_OK;
    if (tensor->format != format)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, tensor->name,
                    "of type %s; expected %s", tensor->format->name, format->name);
    if (tensor->rows != tensor->dims[1])
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, tensor->name,
                    "%u dimensions; expected 2", tensor->n_dims);
    r->taken[tensor - r->dir->tensors] = true;
    r->n_taken++;
    rows->stored[which] = *tensor;
    if (which <= COLD_ROWS)
        rows->source = tensor->source;
    return WISP_OK;
}

static wisp_status fail_missing(const struct reader *r, uint64_t l, const char *part) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, (size_t)l, part, "");
    return fail(r->error, WISP_ERROR_NOT_FOUND, r->dir->file, name, "the tensor is missing");
}

/* Derives the layer's sizes from the bytes of a row, and checks that all layers have equal sizes.
 */
static wisp_status find_shape(struct reader *r, const struct neuron_rows *rows,
                              struct neuron_shape *s) {
    const struct tensor *hot = &rows->stored[HOT_ROWS], *cold = &rows->stored[COLD_ROWS];
    const struct tensor *any = hot->bytes > 0 ? hot : cold;
    const struct block_format *f = s->format;
    const uint64_t block = s->matrices * f->bytes - neurons_scale_bytes(f);
    s->intermediate_size = hot->rows + cold->rows;
    s->hidden_size = any->row_bytes / block * f->elements;
    if (r->hidden_size == 0) {
        r->hidden_size = s->hidden_size;
        r->intermediate_size = s->intermediate_size;
    }
    if (any->row_bytes % block != 0 || s->hidden_size != r->hidden_size ||
        s->intermediate_size != r->intermediate_size ||
        (cold->bytes > 0 && cold->row_bytes != any->row_bytes))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, any->name,
                    "%llu neurons with rows of %llu and %llu bytes; expected %llu of %llu values "
                    "in each of %llu matrices",
                    (unsigned long long)s->intermediate_size, (unsigned long long)hot->row_bytes,
                    (unsigned long long)cold->row_bytes, (unsigned long long)r->intermediate_size,
                    (unsigned long long)r->hidden_size, (unsigned long long)s->matrices);
    neuron_shape_measure(s);
    return WISP_OK;
}

/* Checks that the metadata and the tensors agree on the number of hot neurons. */
static wisp_status check_hot(const struct reader *r, uint64_t l, const struct neuron_rows *rows) {
    const uint64_t n = rows->stored[HOT_ROWS].rows;
    if (r->hot && (r->hot[l] < 0 || (uint64_t)r->hot[l] != n))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, KEY_SPARSE_HOT,
                    "entry %llu is %d, but the file has %llu hot neurons", (unsigned long long)l,
                    (int)r->hot[l], (unsigned long long)n);
    return WISP_OK;
}

/* Takes a tensor of n x row_length values, if the file has it. */
static wisp_status take_values(struct reader *r, uint64_t l, enum neuron_tensor which,
                               struct neuron_rows *rows, uint64_t n, uint64_t row_length) {
    const struct tensor *tensor = &rows->stored[which];
    TRY(take_stored(r, l, which, rows));
    if (tensor->bytes > 0 && (tensor->rows != n || tensor->dims[0] != row_length))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, tensor->name,
                    "its shape is [%llu, %llu]; expected [%llu, %llu]",
                    (unsigned long long)tensor->rows, (unsigned long long)tensor->dims[0],
                    (unsigned long long)n, (unsigned long long)row_length);
    return WISP_OK;
}

static wisp_status take_scales(struct reader *r, uint64_t l, struct neuron_rows *rows) {
    const struct neuron_shape *s = &rows->shape;
    const uint64_t block = s->format->elements;
    if (neurons_scale_bytes(s->format) > 0) {
        TRY(take_values(r, l, DOWN_SCALES, rows, s->hidden_size, s->intermediate_size / block));
        if (rows->stored[DOWN_SCALES].bytes == 0)
            return fail_missing(r, l, neuron_tensor_parts[DOWN_SCALES]);
        if (s->intermediate_size % block != 0)
            return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, rows->stored[DOWN_SCALES].name,
                        "%llu neurons are not whole blocks of %s",
                        (unsigned long long)s->intermediate_size, s->format->name);
    }
    TRY(take_values(r, l, DOWN_ROW_SCALES, rows, 1, s->hidden_size));
    TRY(take_values(r, l, DOWN_BASE, rows, 1, s->hidden_size));

    /* Files of earlier versions have neither row scales nor base; the neuron store then computes
     * them. Other files have row scales, and a base exactly if they have centers. */
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, (size_t)l, TENSOR_CENTER, "");
    const bool centered = directory_find_tensor(r->dir, name) != NULL;
    const bool scaled = rows->stored[DOWN_ROW_SCALES].bytes > 0;
    const bool based = rows->stored[DOWN_BASE].bytes > 0;
    if (based == (scaled && centered))
        return WISP_OK;
    return fail_missing(r, l,
                        !scaled  ? neuron_tensor_parts[DOWN_ROW_SCALES]
                        : !based ? neuron_tensor_parts[DOWN_BASE]
                                 : TENSOR_CENTER);
}

/* Sets rows->order, and rows->place to the inverse of that permutation. */
static wisp_status find_places(const struct reader *r, uint64_t l, struct neuron_rows *rows) {
    if (!r->order)
        return WISP_OK;
    rows->order = r->order + l * r->intermediate_size;
    uint32_t *place = arena_allocate(&r->dir->arena, (size_t)r->intermediate_size * sizeof *place);
    if (!place)
        return fail_memory(r->error, r->intermediate_size * sizeof *place);
    for (uint32_t i = 0; i < r->intermediate_size; i++)
        place[rows->order[i]] = i;
    rows->place = place;
    return WISP_OK;
}

/* Adds one of the layer's matrices at its place in the list of the plain model's tensors. */
static wisp_status add_matrix(struct reader *r, uint64_t l, uint64_t part,
                              const struct neuron_rows *rows) {
    const struct neuron_shape *s = &rows->shape;
    const int32_t place = r->places[l * s->matrices + part];
    const bool down = part == s->matrices - 1;
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, (size_t)l, neurons_matrix_name(part, s->matrices), TENSOR_WEIGHT);
    if (place < 0 || (size_t)place >= r->capacity || r->tensors[place].name)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, KEY_NEURONS_PLACES,
                    "%d as the place of %s", (int)place, name);
    struct tensor *tensor = &r->tensors[place];
    *tensor = (struct tensor){.name = arena_copy_text(&r->dir->arena, name, strlen(name)),
                              .format = s->format,
                              .n_dims = 2,
                              .dims = {down ? s->intermediate_size : s->hidden_size,
                                       down ? s->hidden_size : s->intermediate_size},
                              .source = rows->source,
                              .make = down ? neuron_matrices_down : neuron_matrices_up,
                              .maker = rows,
                              .part = part};
    if (!tensor->name)
        return fail_memory(r->error, sizeof name);
    return directory_measure_tensor(r->dir, tensor, r->error);
}

static wisp_status read_layer(struct reader *r, uint64_t l) {
    struct neuron_rows *rows = arena_allocate(&r->dir->arena, sizeof *rows);
    if (!rows)
        return fail_memory(r->error, sizeof *rows);
    const struct block_format *format = block_format_by_id((uint32_t)r->types[l]);
    if (!format || !neurons_have_format(format))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, KEY_NEURONS_TYPES,
                    "entry %llu is %d, which is not a type that neurons have",
                    (unsigned long long)l, (int)r->types[l]);
    struct neuron_shape *s = &rows->shape;
    *s = (struct neuron_shape){.format = format, .matrices = r->matrices};
    TRY(take_stored(r, l, HOT_ROWS, rows));
    TRY(take_stored(r, l, COLD_ROWS, rows));
    if (rows->stored[HOT_ROWS].bytes == 0 && rows->stored[COLD_ROWS].bytes == 0)
        return fail_missing(r, l, neuron_tensor_parts[HOT_ROWS]);
    TRY(find_shape(r, rows, s));
    TRY(take_scales(r, l, rows));
    if (!r->order)
        TRY(neurons_read_order(r->dir, r->layers, r->intermediate_size, &r->order, r->error));
    TRY(check_hot(r, l, rows));
    TRY(find_places(r, l, rows));
    for (uint64_t part = 0; part < s->matrices; part++)
        TRY(add_matrix(r, l, part, rows));
    return WISP_OK;
}

/* Fills the places between the matrices with the other tensors, in their order in the file. */
static wisp_status fill_places(struct reader *r, size_t n) {
    size_t next = 0;
    for (size_t i = n; i < r->capacity; i++)
        if (r->tensors[i].name)
            return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, KEY_NEURONS_PLACES,
                        "%zu as the place of %s, of %zu tensors", i, r->tensors[i].name, n);
    for (size_t i = 0; i < n; i++) {
        if (r->tensors[i].name)
            continue;
        while (r->taken[next])
            next++;
        r->tensors[i] = r->dir->tensors[next++];
    }
    return WISP_OK;
}

static wisp_status read_layers(struct reader *r, size_t layers_with_rows) {
    const size_t added = layers_with_rows * (size_t)r->matrices, n = r->dir->n_tensors;
    r->capacity = n + added;
    r->tensors = calloc(r->capacity, sizeof *r->tensors);
    r->taken = calloc(n, sizeof *r->taken);
    if (!r->tensors || !r->taken)
        return fail_memory(r->error, r->capacity * sizeof *r->tensors);
    for (uint64_t l = 0; l < r->layers; l++)
        if (r->types[l] != NEURONS_NONE)
            TRY(read_layer(r, l));
    return fill_places(r, r->capacity - r->n_taken);
}

/* Makes the plain model's tensors those of the directory. */
static void keep(struct reader *r) {
    struct directory *dir = r->dir;
    dir->stored = dir->tensors;
    dir->n_stored = dir->n_tensors;
    dir->tensors = r->tensors;
    dir->n_tensors = r->capacity - r->n_taken;
    dir->tensor_capacity = r->capacity;
    r->tensors = NULL;
}

static wisp_status read_keys(struct reader *r) {
    uint64_t n = 0;
    TRY(find_numbers(r->dir, KEY_NEURONS_PLACES, &r->places, &n, r->error));
    r->matrices = n == 3 * r->layers ? 3 : 2;
    if (!r->places)
        return fail(r->error, WISP_ERROR_NOT_FOUND, r->dir->file, KEY_NEURONS_PLACES,
                    "the key is missing");
    TRY(find_array(r->dir, KEY_NEURONS_PLACES, r->matrices * r->layers, &r->places, r->error));
    return find_array(r->dir, KEY_SPARSE_HOT, r->layers, &r->hot, r->error);
}

wisp_status neurons_read(struct directory *dir, wisp_error *error) {
    struct reader r = {.dir = dir, .error = error};
    size_t layers_with_rows = 0;
    TRY(find_numbers(dir, KEY_NEURONS_TYPES, &r.types, &r.layers, error));
    for (uint64_t l = 0; r.types && l < r.layers; l++)
        layers_with_rows += r.types[l] != NEURONS_NONE;
    if (layers_with_rows == 0)
        return WISP_OK;
    if (layers_with_rows > dir->n_tensors)
        return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_NEURONS_TYPES,
                    "%zu layers, but the file has %zu tensors", layers_with_rows, dir->n_tensors);
    wisp_status status = read_keys(&r);
    if (status == WISP_OK)
        status = read_layers(&r, layers_with_rows);
    if (status == WISP_OK)
        keep(&r);
    free(r.taken);
    free(r.tensors);
    return status == WISP_OK ? directory_finish(dir, error) : status;
}

const struct neuron_rows *neurons_find_rows(const struct directory *dir, size_t layer) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, layer, TENSOR_FFN_DOWN, TENSOR_WEIGHT);
    const struct tensor *down = directory_find_tensor(dir, name);
    return down && down->make == neuron_matrices_down ? down->maker : NULL;
}

bool tensor_is_cold(const char *name) {
    if (strcmp(name, TENSOR_TOKENS_COLD) == 0)
        return true;
    const size_t length = strlen(name), end = strlen(TENSOR_NEURONS_COLD);
    return length > end && strcmp(name + length - end, TENSOR_NEURONS_COLD) == 0;
}

bool neurons_are_cold(const struct directory *dir) {
    const struct tensor *last = dir->stored ? &dir->stored[dir->n_stored - 1] : NULL;
    return last && tensor_is_cold(last->name) && strcmp(last->name, TENSOR_TOKENS_COLD) != 0;
}

wisp_status neurons_hot_bytes(const struct directory *dir, uint64_t *bytes, wisp_error *error) {
    const struct tensor *cold = NULL; /* the first */
    *bytes = dir->sources[0].size;
    for (size_t i = 0; i < dir->n_stored; i++) {
        const struct tensor *tensor = &dir->stored[i];
        const bool is_cold = tensor_is_cold(tensor->name);
        if (!cold && is_cold)
            *bytes = tensor->offset;
        if (cold && !is_cold)
            return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, tensor->name,
                        "it follows %s, where only cold neurons may be", cold->name);
        cold = is_cold && !cold ? tensor : cold;
    }
    return WISP_OK;
}
