/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/neurons.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/transpose.h"

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
    block_row_bytes(s->format, s->hidden, &s->part_bytes);
    s->row_bytes =
        (s->matrices - 1) * s->part_bytes + s->hidden * neurons_element_bits(s->format) / 8;
}

const char *neurons_matrix_name(uint64_t part, uint64_t matrices) {
    return part == 0 ? TENSOR_FFN_UP : part == matrices - 1 ? TENSOR_FFN_DOWN : TENSOR_FFN_GATE;
}

/* ---- making the matrices' rows -------------------------------------------------------------- */

enum stored { HOT, COLD, SCALES, STORED };

static const char *const stored_names[STORED] = {TENSOR_NEURONS_HOT, TENSOR_NEURONS_COLD,
                                                 TENSOR_DOWN_SCALES};

/* A layer that is stored by neuron. */
struct neuron_rows {
    struct neuron_shape shape;
    uint32_t source;
    struct tensor stored[STORED]; /* with 0 bytes where absent */
    const uint32_t *place; /* [wide]: the place of each neuron; NULL: neuron j is at place j */
};

/* The addresses of a layer's stored tensors. When the source is not in memory, they are read once
 * for all matrices of the layer and held. */
struct layer_bytes {
    const struct neuron_rows *rows;
    const unsigned char *at[STORED];
};

static wisp_status hold(const struct directory *dir, const struct neuron_rows *rows,
                        wisp_error *error) {
    uint64_t bytes = 0;
    size_t size;
    for (int i = 0; i < STORED; i++)
        bytes += rows->stored[i].bytes;
    directory_let_go(dir);
    unsigned char *to = checked_size(bytes, &size) ? malloc(size) : NULL;
    if (!to)
        return fail_memory(error, bytes);
    dir->held->bytes = to;
    for (int i = 0; i < STORED; i++) {
        const struct tensor *tensor = &rows->stored[i];
        const void *read;
        if (tensor->bytes > 0)
            TRY(directory_rows(dir, tensor, 0, tensor->rows, to, &read, error));
        to += tensor->bytes;
    }
    dir->held->owner = rows;
    return WISP_OK;
}

static wisp_status find_bytes(const struct directory *dir, const struct neuron_rows *rows,
                              struct layer_bytes *found, wisp_error *error) {
    const unsigned char *data = dir->sources[rows->source].data;
    found->rows = rows;
    if (data) {
        for (int i = 0; i < STORED; i++)
            found->at[i] = data + rows->stored[i].offset;
        return WISP_OK;
    }
    if (dir->held->owner != rows)
        TRY(hold(dir, rows, error));
    data = dir->held->bytes;
    for (int i = 0; i < STORED; i++) {
        found->at[i] = data;
        data += rows->stored[i].bytes;
    }
    return WISP_OK;
}

/* Returns the address of part `part` of neuron j. */
static const unsigned char *find_part(const struct layer_bytes *layer, uint64_t j, uint64_t part) {
    const struct neuron_rows *rows = layer->rows;
    const struct neuron_shape *s = &rows->shape;
    const uint64_t place = rows->place ? rows->place[j] : j, hot = rows->stored[HOT].rows;
    const unsigned char *row = place < hot ? layer->at[HOT] + place * s->row_bytes
                                           : layer->at[COLD] + (place - hot) * s->row_bytes;
    return row + part * s->part_bytes;
}

static wisp_status make_up_rows(const struct directory *dir, const struct tensor *tensor,
                                uint64_t first, uint64_t rows, void *buffer, const void **bytes,
                                wisp_error *error) {
    const size_t row_bytes = (size_t)tensor->row_bytes;
    struct layer_bytes layer;
    unsigned char *out = buffer;
    TRY(find_bytes(dir, tensor->maker, &layer, error));
    *bytes = rows == 1 ? find_part(&layer, first, tensor->part) : out;
    for (uint64_t i = 0; rows > 1 && i < rows; i++, out += row_bytes)
        memcpy(out, find_part(&layer, first + i, tensor->part), row_bytes);
    return WISP_OK;
}

/* Rows [first, first + rows) of W_down, which are being assembled at `out`. */
struct down_rows {
    size_t first, rows, row_bytes;
    unsigned char *out;
};

/* Writes one element of each row from its column. `element` is its bytes, which is a constant in
 * every call so that memcpy becomes a single move. */
static inline void spread_as(const struct down_rows *d, const unsigned char *column,
                             unsigned char *out, size_t element) {
    column += d->first * element;
    for (size_t r = 0; r < d->rows; r++, out += d->row_bytes, column += element)
        memcpy(out, column, element);
}

/* Writes eight adjacent elements of one byte of each row, eight rows at a time. */
static void spread_eight(const struct down_rows *d, const unsigned char *const columns[8],
                         unsigned char *out) {
    size_t r = 0;
    for (; r + 8 <= d->rows; r += 8) {
        uint64_t x[8];
        for (size_t c = 0; c < 8; c++)
            memcpy(&x[c], columns[c] + d->first + r, 8);
        transpose_bytes(x);
        for (size_t i = 0; i < 8; i++, out += d->row_bytes)
            memcpy(out, &x[i], 8);
    }
    for (; r < d->rows; r++, out += d->row_bytes)
        for (size_t c = 0; c < 8; c++)
            out[c] = columns[c][d->first + r];
}

/* Writes one element of 4 bits of each row. The elements in low bits are written first, which
 * clears the high bits. */
static void spread_nibbles(const struct down_rows *d, const unsigned char *column,
                           unsigned char *out, bool high) {
    for (size_t c = d->first; c < d->first + d->rows; c++, out += d->row_bytes) {
        const int nibble = column[c / 2] >> 4 * (c % 2) & 15;
        *out = (unsigned char)(high ? *out | nibble << 4 : nibble);
    }
}

/* Writes element j of each row from column j, for elements that are not one byte. */
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

static void copy_scales(const struct down_rows *d, const struct block_format *format,
                        const unsigned char *scales) {
    const size_t bytes = neurons_scale_bytes(format), blocks = d->row_bytes / format->bytes;
    scales += d->first * blocks * bytes;
    for (size_t r = 0; r < d->rows; r++)
        for (size_t b = 0; b < blocks; b++, scales += bytes)
            memcpy(d->out + r * d->row_bytes + b * format->bytes, scales, bytes);
}

static wisp_status make_down_rows(const struct directory *dir, const struct tensor *tensor,
                                  uint64_t first, uint64_t rows, void *buffer, const void **bytes,
                                  wisp_error *error) {
    const struct down_rows d = {.first = (size_t)first,
                                .rows = (size_t)rows,
                                .row_bytes = (size_t)tensor->row_bytes,
                                .out = buffer};
    struct layer_bytes layer;
    TRY(find_bytes(dir, tensor->maker, &layer, error));
    const size_t columns = neurons_element_bits(tensor->format) == 8 ? 8 : 1;
    for (size_t j = 0; j < tensor->dims[0]; j += columns) {
        const unsigned char *column[8];
        for (size_t c = 0; c < columns; c++)
            column[c] = find_part(&layer, j + c, tensor->part);
        if (columns == 8)
            spread_eight(&d, column, d.out + neurons_element_byte(tensor->format, j));
        else
            spread(&d, tensor->format, j, column[0]);
    }
    if (neurons_scale_bytes(tensor->format) > 0)
        copy_scales(&d, tensor->format, layer.at[SCALES]);
    *bytes = buffer;
    return WISP_OK;
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* Finds an array of i32. It is NULL where the file has no such key. The arena aligns its bytes. */
static wisp_status find_numbers(const struct directory *dir, const char *key,
                                const int32_t **numbers, uint64_t *count, wisp_error *error) {
    const struct metadata *array = directory_find_metadata(dir, key);
    *numbers = NULL;
    if (!array)
        return WISP_OK;
    if (array->type != VALUE_ARRAY || array->element != VALUE_I32)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key, "an array of i32 belongs here");
    *numbers = array->as.numbers;
    *count = array->count;
    return WISP_OK;
}

/* Finds an array of i32 that must have `wanted` elements. */
static wisp_status find_so_many(const struct directory *dir, const char *key, uint64_t wanted,
                                const int32_t **numbers, wisp_error *error) {
    uint64_t count = wanted;
    TRY(find_numbers(dir, key, numbers, &count, error));
    if (count != wanted)
        return fail(error, WISP_ERROR_FORMAT, dir->file, key,
                    "an array of %llu, where %llu numbers belong", (unsigned long long)count,
                    (unsigned long long)wanted);
    return WISP_OK;
}

wisp_status neurons_read_order(const struct directory *dir, uint64_t layers, uint64_t wide,
                               const int32_t **order, wisp_error *error) {
    uint64_t n;
    size_t size;
    if (!checked_multiply(layers, wide, &n) || !checked_size(wide, &size))
        return fail_memory(error, UINT64_MAX);
    TRY(find_so_many(dir, KEY_SPARSE_ORDER, n, order, error));
    if (!*order)
        return WISP_OK;
    bool *seen = malloc(size);
    wisp_status status = seen ? WISP_OK : fail_memory(error, wide);
    for (uint64_t i = 0; i < n && status == WISP_OK; i++) {
        const int32_t neuron = (*order)[i];
        if (i % wide == 0)
            memset(seen, 0, size);
        if (neuron < 0 || (uint64_t)neuron >= wide || seen[neuron])
            status = fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_ORDER,
                          "entry %llu is %d: not an order of %llu neurons", (unsigned long long)i,
                          (int)neuron, (unsigned long long)wide);
        else
            seen[neuron] = true;
    }
    free(seen);
    return status;
}

wisp_status neurons_read_hot(const struct directory *dir, uint64_t layers, uint64_t wide,
                             const int32_t **hot, wisp_error *error) {
    TRY(find_so_many(dir, KEY_SPARSE_HOT, layers, hot, error));
    for (uint64_t l = 0; *hot && l < layers; l++)
        if ((*hot)[l] < 0 || (uint64_t)(*hot)[l] > wide)
            return fail(error, WISP_ERROR_FORMAT, dir->file, KEY_SPARSE_HOT,
                        "entry %llu is %d, where a layer has %llu neurons", (unsigned long long)l,
                        (int)(*hot)[l], (unsigned long long)wide);
    return WISP_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reader {
    struct directory *dir;
    uint64_t layers, matrices;
    const int32_t *types;       /* [layers] */
    const int32_t *places;      /* [layers, matrices] */
    const int32_t *order, *hot; /* or NULL */
    uint64_t hidden, wide;      /* of all layers; 0 before the first layer is read */
    bool *taken;            /* [dir->n_tensors]: the tensor belongs to a layer stored by neuron */
    struct tensor *tensors; /* [capacity]: the tensors of the plain model */
    size_t capacity, n_taken;
    wisp_error *error;
};

/* Takes one of the layer's stored tensors into `rows` if the file has it. */
static wisp_status take_stored(struct reader *r, uint64_t l, enum stored which,
                               struct neuron_rows *rows) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, (size_t)l, stored_names[which], "");
    const struct tensor *tensor = directory_find_tensor(r->dir, name);
    const struct block_format *format =
        which == SCALES ? block_format_by_id(BLOCK_F16) : neurons_stored_format(rows->shape.format);
    if (!tensor)
        return WISP_OK;
    if (tensor->format != format)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, tensor->name,
                    "of type %s, where %s belongs", tensor->format->name, format->name);
    if (tensor->rows != tensor->dims[1])
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, tensor->name,
                    "%u dimensions, where 2 belong", tensor->n_dims);
    r->taken[tensor - r->dir->tensors] = true;
    r->n_taken++;
    rows->stored[which] = *tensor;
    rows->source = tensor->source;
    return WISP_OK;
}

static wisp_status require_stored(const struct reader *r, uint64_t l, enum stored which) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, (size_t)l, stored_names[which], "");
    return fail(r->error, WISP_ERROR_NOT_FOUND, r->dir->file, name, "the tensor is missing");
}

/* Finds the layer's shape: hidden_size follows from the bytes of a row. All layers must have the
 * same shape. */
static wisp_status find_shape(struct reader *r, const struct neuron_rows *rows,
                              struct neuron_shape *s) {
    const struct tensor *hot = &rows->stored[HOT], *cold = &rows->stored[COLD];
    const struct tensor *any = hot->bytes > 0 ? hot : cold;
    const struct block_format *f = s->format;
    const uint64_t block = s->matrices * f->bytes - neurons_scale_bytes(f);
    s->wide = hot->rows + cold->rows;
    s->hidden = any->row_bytes / block * f->elements;
    if (r->hidden == 0) {
        r->hidden = s->hidden;
        r->wide = s->wide;
    }
    if (any->row_bytes % block != 0 || s->hidden != r->hidden || s->wide != r->wide ||
        (cold->bytes > 0 && cold->row_bytes != any->row_bytes))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, any->name,
                    "%llu neurons with rows of %llu and %llu bytes, where %llu of %llu values in "
                    "each of %llu matrices belong",
                    (unsigned long long)s->wide, (unsigned long long)hot->row_bytes,
                    (unsigned long long)cold->row_bytes, (unsigned long long)r->wide,
                    (unsigned long long)r->hidden, (unsigned long long)s->matrices);
    neuron_shape_measure(s);
    return WISP_OK;
}

static wisp_status check_hot(const struct reader *r, uint64_t l, const struct neuron_rows *rows) {
    const uint64_t n = rows->stored[HOT].rows;
    if (r->hot && (r->hot[l] < 0 || (uint64_t)r->hot[l] != n))
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, KEY_SPARSE_HOT,
                    "entry %llu is %d, where the file has %llu hot neurons", (unsigned long long)l,
                    (int)r->hot[l], (unsigned long long)n);
    return WISP_OK;
}

static wisp_status check_scales(const struct reader *r, uint64_t l, const struct neuron_rows *rows,
                                const struct neuron_shape *s) {
    const struct tensor *scales = &rows->stored[SCALES];
    if (scales->bytes == 0)
        return require_stored(r, l, SCALES);
    if (s->wide % s->format->elements != 0 || scales->rows != s->hidden ||
        scales->dims[0] != s->wide / s->format->elements)
        return fail(r->error, WISP_ERROR_FORMAT, r->dir->file, scales->name,
                    "its shape is [%llu, %llu], where W_down of %s has [%llu, %llu] values",
                    (unsigned long long)scales->rows, (unsigned long long)scales->dims[0],
                    s->format->name, (unsigned long long)s->hidden, (unsigned long long)s->wide);
    return WISP_OK;
}

/* Sets the place of each neuron from the order, which has the neuron at each place. */
static wisp_status find_places(const struct reader *r, uint64_t l, struct neuron_rows *rows) {
    if (!r->order)
        return WISP_OK;
    uint32_t *place = arena_allocate(&r->dir->arena, (size_t)r->wide * sizeof *place);
    if (!place)
        return fail_memory(r->error, r->wide * sizeof *place);
    for (uint32_t i = 0; i < r->wide; i++)
        place[r->order[l * r->wide + i]] = i;
    rows->place = place;
    return WISP_OK;
}

/* Adds one of the layer's matrices at its position in the plain model. */
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
                              .dims = {down ? s->wide : s->hidden, down ? s->hidden : s->wide},
                              .source = rows->source,
                              .make = down ? make_down_rows : make_up_rows,
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
                    "entry %llu is %d, which is no type that neurons have", (unsigned long long)l,
                    (int)r->types[l]);
    struct neuron_shape *s = &rows->shape;
    *s = (struct neuron_shape){.format = format, .matrices = r->matrices};
    for (int i = 0; i < STORED; i++)
        if (i != SCALES || neurons_scale_bytes(format) > 0)
            TRY(take_stored(r, l, (enum stored)i, rows));
    if (rows->stored[HOT].bytes == 0 && rows->stored[COLD].bytes == 0)
        return require_stored(r, l, HOT);
    TRY(find_shape(r, rows, s));
    if (neurons_scale_bytes(format) > 0)
        TRY(check_scales(r, l, rows, s));
    if (!r->order)
        TRY(neurons_read_order(r->dir, r->layers, r->wide, &r->order, r->error));
    TRY(check_hot(r, l, rows));
    TRY(find_places(r, l, rows));
    for (uint64_t part = 0; part < s->matrices; part++)
        TRY(add_matrix(r, l, part, rows));
    return WISP_OK;
}

/* Fills the positions that no matrix has with the file's other tensors, in their order. */
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
    r->dir->held = arena_allocate(&r->dir->arena, sizeof *r->dir->held);
    if (!r->tensors || !r->taken || !r->dir->held)
        return fail_memory(r->error, r->capacity * sizeof *r->tensors);
    for (uint64_t l = 0; l < r->layers; l++)
        if (r->types[l] != NEURONS_NONE)
            TRY(read_layer(r, l));
    return fill_places(r, r->capacity - r->n_taken);
}

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
    TRY(find_so_many(r->dir, KEY_NEURONS_PLACES, r->matrices * r->layers, &r->places, r->error));
    return find_so_many(r->dir, KEY_SPARSE_HOT, r->layers, &r->hot, r->error);
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
                    "%zu layers, where the file has %zu tensors", layers_with_rows, dir->n_tensors);
    wisp_status status = read_keys(&r);
    if (status == WISP_OK)
        status = read_layers(&r, layers_with_rows);
    if (status == WISP_OK)
        keep(&r);
    free(r.taken);
    free(r.tensors);
    return status == WISP_OK ? directory_finish(dir, error) : status;
}
