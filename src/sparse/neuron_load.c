/* SPDX-License-Identifier: Apache-2.0
 * A model's neurons from its file into the store. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/neurons.h"
#include "sparse/neuron_store.h"

enum { NAME_BYTES = 64, ROWS_AT_A_TIME = 32, COLUMNS_AT_A_TIME = 64 };

static const char *tensor_name(char name[NAME_BYTES], size_t layer, const char *suffix) {
    snprintf(name, NAME_BYTES, "blk.%zu.%s", layer, suffix);
    return name;
}

/* ---- what a layer has besides its neurons --------------------------------------------------- */

static void take_arrays(struct neuron_layer *l, const struct neuron_store *store, bool centered) {
    struct workspace *space = &l->memory;
    const size_t neurons = l->intermediate_size;
    l->present = workspace_take(space, 1, sparse_mask_words(neurons), sizeof *l->present);
    l->down = workspace_take(space, neurons, l->row_bytes, 1);
    l->column_scale = workspace_take(space, 1, neurons, sizeof *l->column_scale);
    l->row_scale = workspace_take(space, 1, l->hidden_size, sizeof *l->row_scale);
    l->inverse_row_scale = workspace_take(space, 1, l->hidden_size, sizeof *l->inverse_row_scale);
    l->base = workspace_take(space, 1, l->hidden_size, sizeof *l->base);
    if (!store->by_rows)
        return;
    l->up = workspace_take(space, neurons, l->row_bytes, 1);
    l->up_scalars = workspace_take(space, 1, neurons, sizeof *l->up_scalars);
    l->input_scale = workspace_take(space, 1, l->hidden_size, sizeof *l->input_scale);
    if (store->shape.activation == ACTIVATION_GATED_SILU) {
        l->gate = workspace_take(space, neurons, l->row_bytes, 1);
        l->gate_scalars = workspace_take(space, 1, neurons, sizeof *l->gate_scalars);
    }
    if (centered)
        l->center = workspace_take(space, 1, neurons, sizeof *l->center);
}

/* The first half for tokens that take all neurons. */
static wisp_status load_dense(struct neuron_store *store, size_t index, struct tensor_cache *cache,
                              wisp_error *error) {
    char up[NAME_BYTES], gate[NAME_BYTES];
    const char *const names[] = {tensor_name(up, index, "ffn_up"),
                                 tensor_name(gate, index, "ffn_gate")};
    const struct linear_source source = {
        .dir = store->dir,
        .names = names,
        .unbiased = store->shape.unbiased,
        .parts = store->shape.activation == ACTIVATION_GATED_SILU ? 2 : 1,
        .n = store->shape.intermediate_size,
        .k = store->shape.hidden_size,
        .cache = cache};
    struct linear *dense = &store->layer[index].dense;
    TRY(linear_load(dense, &source, store->kernels, true, error));
    store->bytes += dense->bytes;
    return WISP_OK;
}

static wisp_status load_bias(const struct neuron_store *store, size_t index, const char *suffix,
                             size_t n, float *bias, wisp_error *error) {
    char name[NAME_BYTES];
    const struct linear_source source = {
        .dir = store->dir, .unbiased = store->shape.unbiased, .n = n};
    return linear_bias(&source, tensor_name(name, index, suffix), bias, error);
}

/* Biases of W_up or W_gate, by place; `bias` [intermediate_size] is worked in. */
static wisp_status load_row_biases(const struct neuron_store *store, size_t index,
                                   const char *suffix, const int32_t *order, float *bias,
                                   struct neuron *scalars, wisp_error *error) {
    const size_t neurons = store->shape.intermediate_size;
    TRY(load_bias(store, index, suffix, neurons, bias, error));
    for (size_t i = 0; i < neurons; i++)
        scalars[i] = (struct neuron){.bias = bias[order ? (size_t)order[i] : i]};
    return WISP_OK;
}

/* The scales of the inputs, by which x is multiplied and W_up and W_gate are divided; 1 where the
 * file has none. */
static wisp_status load_input_scale(const struct neuron_store *store, size_t index,
                                    struct neuron_layer *l, wisp_error *error) {
    char name[NAME_BYTES];
    float *factors = NULL;
    for (size_t c = 0; c < l->hidden_size; c++)
        l->input_scale[c] = 1;
    if (!directory_find_tensor(store->dir, tensor_name(name, index, "ffn_factors")))
        return WISP_OK;
    const wisp_status status =
        directory_load_floats(store->dir, name, 1, l->hidden_size, &factors, error);
    if (status == WISP_OK)
        memcpy(l->input_scale, factors, l->hidden_size * sizeof *factors);
    memory_free(factors);
    TRY(status);
    for (size_t c = 0; c < l->hidden_size; c++)
        if (!(l->input_scale[c] >= 0x1p-40f && l->input_scale[c] <= 0x1p40f))
            return fail(error, WISP_ERROR_FORMAT, store->dir->file, "ffn_factors",
                        "factor %zu of layer %zu is %g, not a number between 2^-40 and 2^40", c,
                        index, (double)l->input_scale[c]);
    return WISP_OK;
}

/* Row scales and base from all of W_down; base holds b_down, and `center` may be NULL. */
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

/* The same as the file has them; base only where there are centers. */
static wisp_status read_down(const struct directory *dir, const struct neuron_rows *rows,
                             struct neuron_layer *l, wisp_error *error) {
    void *stored = memory_allocate(l->hidden_size * sizeof(float));
    if (!stored)
        return fail_memory(error, l->hidden_size * sizeof(float));
    wisp_status status = directory_floats(dir, &rows->stored[DOWN_ROW_SCALES], 0, 1, NULL, stored,
                                          l->row_scale, error);
    if (status == WISP_OK && l->center)
        status =
            directory_floats(dir, &rows->stored[DOWN_BASE], 0, 1, NULL, stored, l->base, error);
    memory_free(stored);
    for (size_t c = 0; c < l->hidden_size && status == WISP_OK; c++)
        if (!(l->row_scale[c] >= 0x1p-75f && l->row_scale[c] <= 0x1p64f)) /* roots of floats */
            status = fail(error, WISP_ERROR_FORMAT, dir->file, rows->stored[DOWN_ROW_SCALES].name,
                          "value %zu is %g, not a number between 2^-75 and 2^64", c,
                          (double)l->row_scale[c]);
    return status;
}

static wisp_status load_down_scales(const struct neuron_store *store, size_t index,
                                    const float *center, struct tensor_cache *cache,
                                    wisp_error *error) {
    struct neuron_layer *l = &store->layer[index];
    const struct neuron_rows *rows = neurons_find_rows(store->dir, index);
    const struct tensor *down;
    char name[NAME_BYTES];
    TRY(directory_require_tensor(store->dir, tensor_name(name, index, "ffn_down.weight"),
                                 l->intermediate_size, l->hidden_size, &down, error));
    TRY(load_bias(store, index, "ffn_down.bias", l->hidden_size, l->base, error));
    if (rows && rows->stored[DOWN_ROW_SCALES].bytes > 0)
        TRY(read_down(store->dir, rows, l, error));
    else
        TRY(derive_down(store->dir, down, center, cache, l, error));
    for (size_t c = 0; c < l->hidden_size; c++)
        l->inverse_row_scale[c] = 1 / l->row_scale[c];
    return WISP_OK;
}

wisp_status neuron_store_open_layer(struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error) {
    struct neuron_layer *l = &store->layer[layer];
    const size_t neurons = store->shape.intermediate_size;
    const int32_t *order = store->order ? store->order + layer * neurons : NULL;
    char name[NAME_BYTES];
    const bool centered =
        store->by_rows && directory_find_tensor(store->dir, tensor_name(name, layer, "ffn_center"));
    *l = (struct neuron_layer){.hidden_size = store->shape.hidden_size,
                               .intermediate_size = neurons,
                               .row_bytes = sparse_row_bytes(store->shape.hidden_size)};
    take_arrays(l, store, centered); /* measures */
    TRY(workspace_reserve(&l->memory, l->memory.used, error));
    take_arrays(l, store, centered);
    store->bytes += l->memory.capacity;
    memset(l->present, 0, sparse_mask_words(neurons) * sizeof *l->present);

    float *by_neuron = NULL; /* centers, then biases */
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
    if (status == WISP_OK && l->up)
        status =
            load_row_biases(store, layer, "ffn_up.bias", order, by_neuron, l->up_scalars, error);
    if (status == WISP_OK && l->gate)
        status = load_row_biases(store, layer, "ffn_gate.bias", order, by_neuron, l->gate_scalars,
                                 error);
    if (status == WISP_OK && !store->by_rows)
        status = load_dense(store, layer, cache, error);
    memory_free(by_neuron);
    return status;
}

/* ---- neurons -------------------------------------------------------------------------------- */

/* A layer that is stored as rows. */
static wisp_status put_rows(struct neuron_store *store, size_t layer,
                            const struct neuron_rows *rows, const uint32_t *place,
                            struct tensor_cache *cache, wisp_error *error) {
    const struct neuron_layer *l = &store->layer[layer];
    const struct neuron_shape *s = &rows->shape;
    const size_t n = l->hidden_size, down = (size_t)s->matrices - 1;
    const size_t scaled = neurons_scale_bytes(s->format) ? s->format->elements : 0;
    struct workspace space = {0};
    struct neuron_weights weights;
    struct neuron_bytes bytes;
    float *scales = NULL;
    wisp_status status = neurons_find_bytes(store->dir, rows, cache, &bytes, error);
    for (int measuring = 1; measuring >= 0 && status == WISP_OK; measuring--) {
        weights.up = workspace_take(&space, 1, n, sizeof(float));
        weights.gate = workspace_take(&space, 1, n, sizeof(float));
        weights.down = workspace_take(&space, 1, n, sizeof(float));
        if (scaled)
            scales = workspace_take(&space, l->intermediate_size / scaled, n, sizeof(float));
        if (measuring)
            status = workspace_reserve(&space, space.used, error);
    }
    if (status == WISP_OK && scaled)
        neurons_turn_scales(s, bytes.at[DOWN_SCALES], scales);
    for (size_t j = 0; j < l->intermediate_size && status == WISP_OK; j++) {
        if (l->up)
            s->format->dequantise(neurons_find_part(&bytes, j, 0), n, weights.up);
        if (l->gate)
            s->format->dequantise(neurons_find_part(&bytes, j, 1), n, weights.gate);
        neurons_read_column(s, neurons_find_part(&bytes, j, down),
                            scaled ? scales + j / scaled * n : NULL, weights.down);
        status = neuron_store_put(store, layer, place ? place[j] : j, weights, error);
    }
    workspace_release(&space);
    return status;
}

/* A layer that is stored plain: some columns at a time are picked from the bytes of W_down, all of
 * which as floats would be four times what is kept. */
static wisp_status put_matrices(struct neuron_store *store, size_t layer,
                                const struct tensor *const matrices[3], const uint32_t *place,
                                wisp_error *error) {
    const struct neuron_layer *l = &store->layer[layer];
    const struct tensor *up = matrices[0], *gate = matrices[1], *down = matrices[2];
    const struct block_format *format = down->format;
    const size_t n = l->hidden_size, step = larger(COLUMNS_AT_A_TIME, format->elements);
    /* Columns an odd number of cache lines apart do not compete for the same few sets of the
     * first-level cache while a row is spread over them. */
    const size_t stride = 16 * ((n / 16 + 1) | 1);
    const bool in_memory = store->dir->sources[down->source].data;
    struct workspace space = {0};
    struct neuron_weights weights;
    void *down_buffer = NULL, *up_buffer = NULL, *gate_buffer = NULL;
    float *row = NULL, *columns = NULL;
    const void *stored = NULL;
    wisp_status status = WISP_OK;
    for (int measuring = 1; measuring >= 0 && status == WISP_OK; measuring--) {
        if (!in_memory)
            down_buffer = workspace_take(&space, n, (size_t)down->row_bytes, 1);
        if (l->up)
            up_buffer = workspace_take(&space, 1, (size_t)up->row_bytes, 1);
        if (l->gate)
            gate_buffer = workspace_take(&space, 1, (size_t)gate->row_bytes, 1);
        weights.up = workspace_take(&space, 1, n, sizeof(float));
        weights.gate = workspace_take(&space, 1, n, sizeof(float));
        row = workspace_take(&space, 1, step, sizeof(float));
        columns = workspace_take(&space, step, stride, sizeof(float));
        if (measuring)
            status = workspace_reserve(&space, space.used, error);
    }
    if (status == WISP_OK)
        status = directory_rows(store->dir, down, 0, n, NULL, down_buffer, &stored, error);
    for (size_t first = 0; first < l->intermediate_size && status == WISP_OK; first += step) {
        const size_t here = smaller(l->intermediate_size - first, step);
        const unsigned char *at =
            (const unsigned char *)stored + first / format->elements * format->bytes;
        for (size_t c = 0; c < n; c++, at += down->row_bytes) {
            format->dequantise(at, here, row);
            for (size_t i = 0; i < here; i++)
                columns[i * stride + c] = row[i];
        }
        for (size_t j = first; j < first + here && status == WISP_OK; j++) {
            weights.down = columns + (j - first) * stride;
            if (l->up)
                status = directory_floats(store->dir, up, j, 1, NULL, up_buffer, weights.up, error);
            if (l->gate && status == WISP_OK)
                status = directory_floats(store->dir, gate, j, 1, NULL, gate_buffer, weights.gate,
                                          error);
            if (status == WISP_OK)
                status = neuron_store_put(store, layer, place ? place[j] : j, weights, error);
        }
    }
    workspace_release(&space);
    return status;
}

wisp_status neuron_store_load_layer(struct neuron_store *store, size_t layer,
                                    struct tensor_cache *cache, wisp_error *error) {
    static const char *const suffixes[] = {"ffn_up.weight", "ffn_gate.weight", "ffn_down.weight"};
    const struct neuron_rows *rows = neurons_find_rows(store->dir, layer);
    const size_t neurons = store->shape.intermediate_size, hidden = store->shape.hidden_size;
    const struct tensor *matrices[3] = {NULL};
    TRY(neuron_store_open_layer(store, layer, cache, error));
    const struct neuron_layer *l = &store->layer[layer];
    const bool wanted[] = {l->up, l->gate, true};
    for (size_t i = 0; i < 3; i++) {
        char name[NAME_BYTES];
        if (wanted[i])
            TRY(directory_require_tensor(store->dir, tensor_name(name, layer, suffixes[i]),
                                         i == 2 ? neurons : hidden, i == 2 ? hidden : neurons,
                                         &matrices[i], error));
    }
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
