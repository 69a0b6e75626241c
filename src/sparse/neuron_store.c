/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "sparse/neuron_store.h"

#include <stdlib.h>

#include "formats/schema.h"
#include "kernels/weights.h"

bool sparse_sizes_fit(size_t hidden_size, size_t intermediate_size) {
    return hidden_size <= NEURONS_MAX && intermediate_size <= NEURONS_MAX;
}

wisp_status neuron_store_open(struct neuron_store *store, const struct directory *dir,
                              const struct sparse_plan *plan, const struct sparse_shape *shape,
                              const struct kernels *kernels, wisp_error *error) {
    *store = (struct neuron_store){.dir = dir,
                                   .kernels = kernels,
                                   .shape = *shape,
                                   .by_rows = !plan->exact && plan->levels,
                                   .by_text = plan->by_text};
    if (store->by_rows)
        store->order = plan->order;
    if (!sparse_sizes_fit(shape->hidden_size, shape->intermediate_size))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, NULL,
                    "sparse layers of %zu x %zu are larger than %d", shape->hidden_size,
                    shape->intermediate_size, NEURONS_MAX);
    store->layer = calloc(shape->layers, sizeof *store->layer);
    return store->layer ? WISP_OK : fail_memory(error, shape->layers * sizeof *store->layer);
}

wisp_status neuron_store_put(const struct neuron_store *store, size_t layer, size_t place,
                             struct neuron_weights weights, wisp_error *error) {
    static const char *const names[] = {TENSOR_FFN_UP, TENSOR_FFN_GATE, TENSOR_FFN_DOWN};
    struct neuron_layer *l = &store->layer[layer];
    const size_t n = l->hidden_size;
    float *const all[] = {weights.up, weights.gate, weights.down};
    struct neuron *const scalars[] = {l->up_scalars, l->gate_scalars};
    int8_t *const rows[] = {scalars[0] ? neuron_up(l, place) : NULL, neuron_gate(l, place)};
    scale_weights(weights.down, l->inverse_row_scale, n);
    for (size_t part = 0; part < 2 && rows[part]; part++)
        for (size_t c = 0; c < n; c++)
            all[part][c] /= l->input_scale[c];
    for (size_t part = 0; part < 3; part++)
        if ((part == 2 || rows[part]) && !all_finite(all[part], n)) {
            char name[TENSOR_NAME_BYTES];
            layer_tensor_name(name, layer, names[part], TENSOR_WEIGHT);
            return fail(error, WISP_ERROR_FORMAT, store->dir->file, name,
                        "the neuron at place %zu has a weight that is not finite, or too large for "
                        "the scale of its row or input",
                        place);
        }
    l->column_scale[place] =
        pack_neuron_column(store->kernels->sparse, weights.down, n, neuron_down(l, place));
    for (size_t part = 0; part < 2 && rows[part]; part++) {
        struct neuron *neuron = &scalars[part][place];
        pack_neuron_row(store->kernels->sparse, all[part], n, rows[part], neuron);
        neuron->column = l->column_scale[place];
    }
    if (!neuron_is_present(l, place))
        l->n_present++;
    l->present[place / 64] |= UINT64_C(1) << place % 64;
    return WISP_OK;
}

void neuron_store_release_layer(const struct neuron_store *store, size_t layer) {
    struct neuron_layer *l = &store->layer[layer];
    linear_release(&l->dense);
    workspace_release(&l->memory);
    l->bytes = 0;
}

void neuron_store_release(struct neuron_store *store) {
    for (size_t i = 0; store->layer && i < store->shape.layers; i++)
        neuron_store_release_layer(store, i);
    free(store->layer);
    *store = (struct neuron_store){0};
}
