/* SPDX-License-Identifier: Apache-2.0
 * Loads the neurons of a model from its file into the store.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/number_text.h"
#include "base/product.h"
#include "formats/neurons_read.h"
#include "formats/schema.h"
#include "kernels/weights.h"
#include "sparse/neuron_cold.h"
#include "sparse/neuron_store.h"

enum { ROWS_AT_A_TIME = 32, COLUMNS_AT_A_TIME = 64 };

/* ---- opening a layer ------------------------------------------------------------------------ */

static void take_arrays(struct neuron_layer *l, const struct neuron_store *store, bool centered) {
    struct workspace *space = &l->memory;
    const size_t neurons = l->intermediate_size;
    l->present = workspace_take(space, 1, sparse_mask_words(neurons), sizeof *l->present);
    if (l->placed < neurons)
        l->frame = workspace_take(space, 1, sparse_mask_words(neurons), sizeof *l->frame);
    l->down = workspace_take(space, l->placed, l->row_bytes, 1);
    l->column_scale = workspace_take(space, 1, neurons, sizeof *l->column_scale);
    l->row_scale = workspace_take(space, 1, l->hidden_size, sizeof *l->row_scale);
    l->inverse_row_scale = workspace_take(space, 1, l->hidden_size, sizeof *l->inverse_row_scale);
    l->base = workspace_take(space, 1, l->hidden_size, sizeof *l->base);
    if (!store->by_rows)
        return;
    l->up = workspace_take(space, l->placed, l->row_bytes, 1);
    l->up_scalars = workspace_take(space, 1, neurons, sizeof *l->up_scalars);
    l->input_scale = workspace_take(space, 1, l->hidden_size, sizeof *l->input_scale);
    if (activation_is_gated(store->shape.activation)) {
        l->gate = workspace_take(space, l->placed, l->row_bytes, 1);
        l->gate_scalars = workspace_take(space, 1, neurons, sizeof *l->gate_scalars);
    }
    if (centered)
        l->center = workspace_take(space, 1, neurons, sizeof *l->center);
    if (l->rows)
        l->down_scales = workspace_take(space, 1, (size_t)l->rows->stored[DOWN_SCALES].bytes, 1);
}

/* Returns the rows of a layer's neurons, or NULL if it is to be loaded from matrices: the file has
 * no rows, or such without gates, as files of decoders have. */
static const struct neuron_rows *find_rows(const struct neuron_store *store, size_t layer) {
    const struct neuron_rows *rows = neurons_find_rows(store->dir, layer);
    const uint64_t gates = activation_is_gated(store->shape.activation);
    return ONLY_EMBEDS || (rows && rows->shape.matrices == 2 + gates) ? rows : NULL;
}

static bool lacks_row_biases(const struct neuron_store *store) {
    return store->shape.unbiased || store->shape.bare;
}

/* Loads W_up and W_gate as one dense layer, for layers that compute all neurons. */
static wisp_status load_dense(const struct neuron_store *store, size_t index,
                              struct tensor_cache *cache, wisp_error *error) {
    char up[TENSOR_NAME_BYTES], gate[TENSOR_NAME_BYTES];
    const char *const names[] = {layer_tensor_name(up, index, TENSOR_FFN_UP, ""),
                                 layer_tensor_name(gate, index, TENSOR_FFN_GATE, "")};
    const struct linear_source source = {.dir = store->dir,
                                         .names = names,
                                         .unbiased = lacks_row_biases(store),
                                         .parts =
                                             activation_is_gated(store->shape.activation) ? 2 : 1,
                                         .n = store->shape.intermediate_size,
                                         .k = store->shape.hidden_size,
                                         .cache = cache};
    struct linear *dense = &store->layer[index].dense;
    TRY(linear_load(dense, &source, store->kernels, WISP_COMPUTE_INT8, error));
    store->layer[index].bytes += dense->bytes;
    return WISP_OK;
}

static wisp_status load_bias(const struct neuron_store *store, size_t index, const char *matrix,
                             bool unbiased, size_t n, float *bias, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    const struct linear_source source = {.dir = store->dir, .unbiased = unbiased, .n = n};
    return linear_bias(&source, layer_tensor_name(name, index, matrix, TENSOR_BIAS), bias, error);
}

/* Loads the biases of W_up and W_gate into the scalars at each place. Overwrites `bias`
 * [intermediate_size]. */
static wisp_status load_row_biases(const struct neuron_store *store, size_t index,
                                   const int32_t *order, float *bias, wisp_error *error) {
    const struct neuron_layer *l = &store->layer[index];
    static const char *const parts[] = {TENSOR_FFN_UP, TENSOR_FFN_GATE};
    struct neuron *const scalars[] = {l->up_scalars, l->gate_scalars};
    for (size_t part = 0; part < 2 && scalars[part]; part++) {
        TRY(load_bias(store, index, parts[part], lacks_row_biases(store), l->intermediate_size,
                      bias, error));
        for (size_t i = 0; i < l->intermediate_size; i++)
            scalars[part][i].bias = bias[order ? (size_t)order[i] : i];
    }
    return WISP_OK;
}

/* Loads the scales of the inputs, by which x is multiplied and W_up and W_gate are divided. They
 * are 1 if the file has none. */
static wisp_status load_input_scale(const struct neuron_store *store, size_t index,
                                    struct neuron_layer *l, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    float *factors = NULL;
    for (size_t c = 0; c < l->hidden_size; c++)
        l->input_scale[c] = 1;
    if (!directory_find_tensor(store->dir, layer_tensor_name(name, index, TENSOR_FACTORS, "")))
        return WISP_OK;
    const wisp_status status =
        directory_load_floats(store->dir, name, 1, l->hidden_size, &factors, error);
    if (status == WISP_OK)
        memcpy(l->input_scale, factors, l->hidden_size * sizeof *factors);
    memory_free(factors);
    TRY(status);
    for (size_t c = 0; c < l->hidden_size; c++)
        if (!(l->input_scale[c] >= 0x1p-40f && l->input_scale[c] <= 0x1p40f))
            return fail(error, WISP_ERROR_FORMAT, store->dir->file, TENSOR_FACTORS,
                        "factor %zu of layer %zu is %s, not a number between 2^-40 and 2^40", c,
                        index, number_text((double)l->input_scale[c], 6).text);
    return WISP_OK;
}

/* Computes the row scales and the base from all of W_down, for files that lack them. l->base holds
 * b_down before the call; `center` [intermediate_size], in the file's order, may be NULL. */
static wisp_status derive_down(const struct directory *dir, const struct tensor *down,
                               const float *center, struct tensor_cache *cache,
                               struct neuron_layer *l, wisp_error *error) {
    const size_t n = l->intermediate_size;
    void *stored = memory_allocate(ROWS_AT_A_TIME * (size_t)down->row_bytes);
    float *rows = memory_allocate(ROWS_AT_A_TIME * n * sizeof *rows);
    wisp_status status =
        stored && rows ? WISP_OK : fail_memory(error, ROWS_AT_A_TIME * n * sizeof *rows);
    for (size_t c = 0; c < l->hidden_size && status == WISP_OK; c++) {
        const size_t row = c % ROWS_AT_A_TIME, left = l->hidden_size - c;
        if (row == 0)
            status = directory_floats(dir, down, c, smaller(left, ROWS_AT_A_TIME), cache, stored,
                                      rows, error);
        if (status != WISP_OK)
            break;
        l->row_scale[c] = neurons_row_scale(rows + row * n, n);
        if (center)
            l->base[c] = neurons_base(l->base[c], rows + row * n, center, n);
    }
    memory_free(stored);
    memory_free(rows);
    return status;
}

/* Reads the row scales from the file, and the base if there are centers. */
static wisp_status read_down(const struct directory *dir, const struct neuron_rows *rows,
                             struct neuron_layer *l, wisp_error *error) {
    void *stored = l->inverse_row_scale; /* serves as a buffer until load_down_scales fills it */
    TRY(directory_floats(dir, &rows->stored[DOWN_ROW_SCALES], 0, 1, NULL, stored, l->row_scale,
                         error));
    if (!l->center)
        return WISP_OK;
    return directory_floats(dir, &rows->stored[DOWN_BASE], 0, 1, NULL, stored, l->base, error);
}

/* Loads the row scales of W_down, their inverses, and the base. */
static wisp_status load_down_scales(const struct neuron_store *store, size_t index,
                                    const float *center, struct tensor_cache *cache,
                                    wisp_error *error) {
    struct neuron_layer *l = &store->layer[index];
    const struct neuron_rows *rows = find_rows(store, index);
    const struct tensor *down;
    char name[TENSOR_NAME_BYTES];
    TRY(directory_require_tensor(store->dir,
                                 layer_tensor_name(name, index, TENSOR_FFN_DOWN, TENSOR_WEIGHT),
                                 l->intermediate_size, l->hidden_size, &down, error));
    TRY(load_bias(store, index, TENSOR_FFN_DOWN, store->shape.unbiased, l->hidden_size, l->base,
                  error));
    if (rows && rows->stored[DOWN_ROW_SCALES].bytes > 0)
        TRY(read_down(store->dir, rows, l, error));
    else if (!l->rows)
        TRY(derive_down(store->dir, down, center, cache, l, error));
    else
        return fail(error, WISP_ERROR_UNSUPPORTED, store->dir->file,
                    layer_tensor_name(name, index, TENSOR_DOWN_ROW_SCALES, ""),
                    "the file, of an earlier version of wisp, lacks this tensor and cannot be "
                    "opened without its cold neurons: wisp convert --neurons adds it");
    for (size_t c = 0; c < l->hidden_size; c++) {
        const float scale = l->row_scale[c];
        if (!(scale >= 0x1p-75f &&
              scale <= 0x1p64f)) /* holds the square root of every normal or subnormal float */
            return fail(error, WISP_ERROR_FORMAT, store->dir->file,
                        layer_tensor_name(name, index, TENSOR_DOWN_ROW_SCALES, ""),
                        "value %zu is %s, not a number between 2^-75 and 2^64", c,
                        number_text((double)scale, 6).text);
        l->inverse_row_scale[c] = 1 / scale;
    }
    return WISP_OK;
}

wisp_status neuron_store_open_layer(const struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error) {
    struct neuron_layer *l = &store->layer[layer];
    const size_t neurons = store->shape.intermediate_size;
    const int32_t *order = store->order ? store->order + layer * neurons : NULL;
    char name[TENSOR_NAME_BYTES];
    const bool centered =
        store->by_rows &&
        directory_find_tensor(store->dir, layer_tensor_name(name, layer, TENSOR_CENTER, ""));
    *l = (struct neuron_layer){.hidden_size = store->shape.hidden_size,
                               .intermediate_size = neurons,
                               .row_bytes = sparse_row_bytes(store->shape.hidden_size),
                               .hot = neurons,
                               .placed = neurons};
    const struct neuron_rows *rows = find_rows(store, layer);
    if (store->cold && rows && rows->stored[COLD_ROWS].rows > 0) {
        l->rows = rows;
        l->hot = (size_t)rows->stored[HOT_ROWS].rows;
        l->frames = COLD_NEURONS_MAY_BE_ABSENT ? neuron_cold_frames(store) : NULL;
        if (l->frames)
            l->placed = smaller(round_up(l->hot, 64), neurons);
    }
    take_arrays(l, store, centered); /* measures, because l->memory is zeroed */
    TRY(workspace_reserve(&l->memory, l->memory.used, error));
    take_arrays(l, store, centered);
    l->bytes = l->memory.capacity;
    if (!l->frames) /* else places of cold neurons beside hot ones are not given back */
        l->bytes -= neuron_cold_bytes(l, neurons - l->hot);
    memset(l->present, 0, sparse_mask_words(neurons) * sizeof *l->present);
    if (l->frame)
        memset(l->frame, 0, sparse_mask_words(neurons) * sizeof *l->frame);

    float *by_neuron = NULL; /* holds centers first, then biases, in the file's order */
    wisp_status status = WISP_OK;
    if (centered)
        status = directory_load_floats(store->dir, name, 1, neurons, &by_neuron, error);
    else if (!(by_neuron = memory_allocate(neurons * sizeof *by_neuron)))
        status = fail_memory(error, neurons * sizeof *by_neuron);
    for (size_t i = 0; centered && i < neurons && status == WISP_OK; i++)
        l->center[i] = by_neuron[order ? (size_t)order[i] : i];
    if (status == WISP_OK)
        status = load_down_scales(store, layer, centered ? by_neuron : NULL, cache, error);
    if (status == WISP_OK && l->up)
        status = load_input_scale(store, layer, l, error);
    if (status == WISP_OK)
        status = load_row_biases(store, layer, order, by_neuron, error);
    if (status == WISP_OK && !store->by_rows)
        status = load_dense(store, layer, cache, error);
    memory_free(by_neuron);
    return status;
}

/* ---- loading neurons ------------------------------------------------------------------------ */

wisp_status neuron_store_put_row(const struct neuron_store *store, size_t layer, size_t place,
                                 const struct neuron_shape *shape, const unsigned char *row,
                                 const float *scales, float *values, wisp_error *error) {
    const size_t n = store->layer[layer].hidden_size, last = (size_t)shape->matrices - 1;
    const struct neuron_weights weights = {values, values + n, values + 2 * n};
    for (size_t part = 0; part < last && store->by_rows; part++, row += shape->part_bytes)
        shape->format->dequantise(row, n, values + part * n);
    if (!store->by_rows)
        row += last * shape->part_bytes;
    neurons_read_column(shape, row, scales, weights.down);
    return neuron_store_put(store, layer, place, weights, error);
}

/* Puts the neurons of a layer that the file stores as rows (formats/neurons.h), of a layer that
 * opens without its cold neurons the hot ones. place[j] is the place of neuron j; NULL if that
 * is j. */
static wisp_status put_rows(const struct neuron_store *store, size_t layer,
                            const struct neuron_rows *rows, const uint32_t *place,
                            struct tensor_cache *cache, wisp_error *error) {
    const struct neuron_layer *l = &store->layer[layer];
    const struct neuron_shape *s = &rows->shape;
    const size_t n = l->hidden_size;
    struct neuron_bytes bytes;
    float *values = memory_allocate(4 * n * sizeof *values);
    if (!values)
        return fail_memory(error, 4 * n * sizeof *values);
    float *scales = values + 3 * n;
    wisp_status status = neurons_find_bytes(store->dir, rows, cache, &bytes, error);
    if (status == WISP_OK && l->down_scales)
        memcpy(l->down_scales, bytes.at[DOWN_SCALES], (size_t)rows->stored[DOWN_SCALES].bytes);
    for (size_t j = 0; j < l->intermediate_size && status == WISP_OK; j++) {
        const size_t at = place ? place[j] : j;
        if (j % s->format->elements == 0)
            neurons_read_scales(s, bytes.at[DOWN_SCALES], j, scales);
        if (at < l->hot)
            status = neuron_store_put_row(store, layer, at, s, neurons_find_part(&bytes, j, 0),
                                          scales, values, error);
    }
    memory_free(values);
    return status;
}

/* Working memory for a layer that the file stores as plain matrices. */
struct plain_space {
    void *down_bytes; /* the stored bytes of W_down; empty if the source is in memory */
    void *row_bytes;  /* the stored bytes of a row of W_up or W_gate */
    float *rows[2];   /* [hidden_size] each: a neuron's row of W_up and of W_gate */
    float *part;      /* [TRANSPOSED_ROWS, columns]: parts of rows of W_down */
    float *columns;   /* [columns, stride]: columns of W_down */
};

static void take_plain(struct plain_space *p, struct workspace *space, size_t n, size_t columns,
                       size_t stride, const struct tensor *const matrices[3], bool in_memory) {
    size_t row_bytes = 0;
    for (size_t part = 0; part < 2; part++) {
        row_bytes = larger(row_bytes, matrices[part] ? (size_t)matrices[part]->row_bytes : 0);
        p->rows[part] = workspace_take(space, 1, n, sizeof(float));
    }
    p->row_bytes = workspace_take(space, 1, row_bytes, 1);
    p->down_bytes = workspace_take(space, in_memory ? 0 : n, (size_t)matrices[2]->row_bytes, 1);
    p->part = workspace_take(space, TRANSPOSED_ROWS, columns, sizeof(float));
    p->columns = workspace_take(space, columns, stride, sizeof(float));
}

/* Puts the neurons of a layer that the file stores as plain matrices: W_up, W_gate and W_down, of
 * which the first two may be NULL. Expands some columns of W_down at a time, because all of W_down
 * as floats would take four times the memory of the packed layer. `place` is that of put_rows. */
static wisp_status put_matrices(const struct neuron_store *store, size_t layer,
                                const struct tensor *const matrices[3], const uint32_t *place,
                                wisp_error *error) {
    const struct directory *dir = store->dir;
    const struct tensor *down = matrices[2];
    const struct block_format *format = down->format;
    const size_t neurons = store->shape.intermediate_size, n = store->shape.hidden_size;
    const size_t step = larger(COLUMNS_AT_A_TIME, format->elements);
    /* Columns are an odd number of cache lines apart, so that writing one value to each of them
     * does not compete for the same few sets of the first-level cache. */
    const size_t stride = 16 * ((n / 16 + 1) | 1);
    const bool in_memory = dir->sources[down->source].data && !down->make;
    struct workspace space = {0};
    struct plain_space p;
    const void *stored = NULL;
    take_plain(&p, &space, n, step, stride, matrices, in_memory);
    TRY(workspace_reserve(&space, space.used, error));
    take_plain(&p, &space, n, step, stride, matrices, in_memory);
    wisp_status status = directory_rows(dir, down, 0, n, NULL, p.down_bytes, &stored, error);
    for (size_t j = 0; j < neurons && status == WISP_OK; j++) {
        if (j % step == 0) {
            const size_t here = smaller(neurons - j, step);
            const unsigned char *at =
                (const unsigned char *)stored + j / format->elements * format->bytes;
            for (size_t c = 0; c < n; c++, at += down->row_bytes) {
                const size_t row = c % TRANSPOSED_ROWS;
                format->dequantise(at, here, p.part + row * step);
                if (row == TRANSPOSED_ROWS - 1 || c == n - 1)
                    transpose_weights(p.part, step, p.columns + c - row, stride);
            }
        }
        for (size_t part = 0; part < 2 && status == WISP_OK; part++)
            if (matrices[part])
                status = directory_floats(dir, matrices[part], j, 1, NULL, p.row_bytes,
                                          p.rows[part], error);
        const struct neuron_weights weights = {p.rows[0], p.rows[1], p.columns + j % step * stride};
        if (status == WISP_OK)
            status = neuron_store_put(store, layer, place ? place[j] : j, weights, error);
    }
    workspace_release(&space);
    return status;
}

wisp_status neuron_store_load_layer(const struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error) {
    static const char *const parts[] = {TENSOR_FFN_UP, TENSOR_FFN_GATE};
    const struct neuron_rows *rows = find_rows(store, layer);
    const size_t neurons = store->shape.intermediate_size;
    const struct tensor *matrices[3] = {NULL};
    char name[TENSOR_NAME_BYTES];
    TRY(neuron_store_open_layer(store, layer, cache, error));
    const struct neuron_layer *l = &store->layer[layer];
    for (size_t part = 0; part < 2; part++)
        if (part == 0 ? l->up : l->gate)
            TRY(directory_require_tensor(store->dir,
                                         layer_tensor_name(name, layer, parts[part], TENSOR_WEIGHT),
                                         l->hidden_size, neurons, &matrices[part], error));
    matrices[2] = directory_find_tensor(
        store->dir, layer_tensor_name(name, layer, TENSOR_FFN_DOWN, TENSOR_WEIGHT));
    uint32_t *place = NULL;
    if (store->order) {
        place = memory_allocate(neurons * sizeof *place);
        if (!place)
            return fail_memory(error, neurons * sizeof *place);
        for (size_t i = 0; i < neurons; i++)
            place[store->order[layer * neurons + i]] = (uint32_t)i;
    }
    const wisp_status status = rows ? put_rows(store, layer, rows, place, cache, error)
                                    : put_matrices(store, layer, matrices, place, error);
    memory_free(place);
    return status;
}
