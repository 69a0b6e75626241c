/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/neuron_store.h"

#include <stdio.h>
#include <stdlib.h>

bool sparse_sizes_fit(size_t hidden_size, size_t intermediate_size) {
    return hidden_size <= NEURONS_MAX && intermediate_size <= NEURONS_MAX;
}

wisp_status neuron_store_open(struct neuron_store *store, const struct directory *dir,
                              const struct sparse_plan *plan, const struct sparse_shape *shape,
                              const struct kernels *kernels, wisp_error *error) {
    *store = (struct neuron_store){
        .dir = dir, .kernels = kernels, .shape = *shape, .by_rows = !plan->exact && plan->levels};
    if (store->by_rows)
        store->order = plan->order;
    if (!sparse_sizes_fit(shape->hidden_size, shape->intermediate_size))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, NULL,
                    "sparse layers of %zu x %zu are larger than %d", shape->hidden_size,
                    shape->intermediate_size, NEURONS_MAX);
    store->layer = calloc(shape->layers, sizeof *store->layer);
    return store->layer ? WISP_OK : fail_memory(error, shape->layers * sizeof *store->layer);
}

static wisp_status fail_weight(const struct neuron_store *store, size_t layer, size_t place,
                               const char *matrix, const char *why, wisp_error *error) {
    char name[64];
    snprintf(name, sizeof name, "blk.%zu.%s.weight", layer, matrix);
    return fail(error, WISP_ERROR_FORMAT, store->dir->file, name,
                "the neuron at place %zu has a weight that is %s", place, why);
}

/* Row `place` of W_up or W_gate, each weight divided by the scale of its input. */
static wisp_status put_row(const struct neuron_store *store, size_t layer, size_t place,
                           const char *matrix, float *row, int8_t *rows, struct neuron *scalars,
                           wisp_error *error) {
    const struct neuron_layer *l = &store->layer[layer];
    if (!all_finite(row, l->hidden_size))
        return fail_weight(store, layer, place, matrix, "not finite", error);
    for (size_t c = 0; c < l->hidden_size; c++)
        row[c] /= l->input_scale[c];
    pack_neuron_row(row, l->hidden_size, rows + place * l->row_bytes, &scalars[place]);
    scalars[place].column = l->column_scale[place];
    return WISP_OK;
}

wisp_status neuron_store_put(struct neuron_store *store, size_t layer, size_t place,
                             struct neuron_weights weights, wisp_error *error) {
    struct neuron_layer *l = &store->layer[layer];
    const size_t n = l->hidden_size;
    if (!all_finite(weights.down, n))
        return fail_weight(store, layer, place, "ffn_down", "not finite", error);
    for (size_t c = 0; c < n; c++)
        weights.down[c] *= l->inverse_row_scale[c];
    l->column_scale[place] =
        pack_neuron_column(store->kernels->sparse, weights.down, n, l->down + place * l->row_bytes);
    if (!all_finite(&l->column_scale[place], 1))
        return fail_weight(store, layer, place, "ffn_down", "too large for its row's scale", error);
    if (l->up)
        TRY(put_row(store, layer, place, "ffn_up", weights.up, l->up, l->up_scalars, error));
    if (l->gate)
        TRY(put_row(store, layer, place, "ffn_gate", weights.gate, l->gate, l->gate_scalars,
                    error));
    if (!neuron_is_present(l, place))
        l->n_present++;
    l->present[place / 64] |= UINT64_C(1) << place % 64;
    return WISP_OK;
}

void neuron_store_release(struct neuron_store *store) {
    for (size_t i = 0; store->layer && i < store->shape.layers; i++) {
        linear_release(&store->layer[i].dense);
        workspace_release(&store->layer[i].memory);
    }
    free(store->layer);
    *store = (struct neuron_store){0};
}
