/* SPDX-License-Identifier: Apache-2.0
 * The neuron store packs each neuron alone, from its weights and the layer's row scales and base.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/golden.h"
#include "support/opening.h"
#include "support/sparse_models.h"
#include "support/sparse_reference.h"

#undef fail /* base/status.h has another */
#include <cmocka.h>

enum { PATH_BYTES = 256, LAYER = 1, MOST_NEURONS = 80 };

static void open_layer_or_fail(struct neuron_store *store, const wisp_model *model) {
    const struct model_config *c = &model->network.config;
    const struct sparse_shape shape = {.layers = c->layers,
                                       .hidden_size = c->hidden_size,
                                       .intermediate_size = c->intermediate_size,
                                       .activation = c->activation,
                                       .unbiased = !c->has_bias};
    struct tensor_cache cache = {0};
    wisp_error error;
    assert_int_equal(
        neuron_store_open(store, &model->dir, &model->plan, &shape, model->network.kernels, &error),
        WISP_OK);
    assert_int_equal(neuron_store_open_layer(store, LAYER, &cache, &error), WISP_OK);
    tensor_cache_release(&cache);
}

/* Returns the weights of a neuron by its number in the file. */
static wisp_status put(struct neuron_store *store, const struct reference *r, size_t place,
                       size_t neuron, wisp_error *error) {
    float up[HIDDEN], gate[HIDDEN], down[HIDDEN];
    memcpy(up, r->up + neuron * HIDDEN, sizeof up);
    if (r->gate)
        memcpy(gate, r->gate + neuron * HIDDEN, sizeof gate);
    for (size_t c = 0; c < HIDDEN; c++)
        down[c] = r->down[c * r->wide + neuron];
    return neuron_store_put(store, LAYER, place, (struct neuron_weights){up, gate, down}, error);
}

static void expect_same_layers(const struct neuron_layer *a, const struct neuron_layer *b) {
    const size_t n = a->intermediate_size, rows = n * a->row_bytes;
    assert_int_equal(a->n_present, n);
    assert_int_equal(b->n_present, n);
    assert_memory_equal(a->present, b->present, sparse_mask_words(n) * sizeof *a->present);
    assert_memory_equal(a->down, b->down, rows);
    assert_memory_equal(a->column_scale, b->column_scale, n * sizeof(float));
    assert_memory_equal(a->row_scale, b->row_scale, HIDDEN * sizeof(float));
    assert_memory_equal(a->base, b->base, HIDDEN * sizeof(float));
    assert_int_equal(a->dense.bytes, b->dense.bytes);
    assert_true(!a->up == !b->up && !a->gate == !b->gate && !a->center == !b->center);
    if (a->up) {
        assert_memory_equal(a->up, b->up, rows);
        assert_memory_equal(a->up_scalars, b->up_scalars, n * sizeof *a->up_scalars);
        assert_memory_equal(a->input_scale, b->input_scale, HIDDEN * sizeof(float));
    }
    if (a->gate) {
        assert_memory_equal(a->gate, b->gate, rows);
        assert_memory_equal(a->gate_scalars, b->gate_scalars, n * sizeof *a->gate_scalars);
    }
    if (a->center)
        assert_memory_equal(a->center, b->center, n * sizeof(float));
}

/* Puts all neurons of a layer in a random order. */
static void put_shuffled(const wisp_model *model, uint64_t *random) {
    struct reference r = reference_open(model, LAYER);
    struct neuron_store store;
    size_t places[MOST_NEURONS];
    wisp_error error;
    open_layer_or_fail(&store, model);
    const struct neuron_layer *layer = &store.layer[LAYER];
    const size_t n = layer->intermediate_size;
    for (size_t i = 0; i < n; i++) {
        const size_t j = (size_t)(random_next(random) % (i + 1));
        places[i] = places[j];
        places[j] = i;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t place = places[i];
        assert_false(neuron_is_present(layer, place));
        assert_int_equal(layer->n_present, i);
        const size_t neuron = store.order ? reference_neuron(&r, place) : place;
        assert_int_equal(put(&store, &r, place, neuron, &error), WISP_OK);
        assert_true(neuron_is_present(layer, place));
    }
    assert_int_equal(put(&store, &r, 0, store.order ? reference_neuron(&r, 0) : 0, &error),
                     WISP_OK); /* packing a neuron again changes nothing */
    expect_same_layers(layer, &model->network.neurons.layer[LAYER]);
    neuron_store_release(&store);
    reference_close(&r);
}

static void neurons_may_come_in_any_order(void **state) {
    static const wisp_predictor predictors[] = {WISP_PREDICTOR_EXACT, WISP_PREDICTOR_LOWRANK};
    const wisp_convert_options as_rows = {.neurons = true};
    uint64_t random = 7;
    (void)state;
    for (size_t a = 0; a < ACTIVATIONS; a++) {
        const struct predicting p = {.shape = tiny_shape_of(activations[a]),
                                     .activation = activations[a],
                                     .rank = 8,
                                     .type = BLOCK_F32};
        char plain[PATH_BYTES], rows[PATH_BYTES];
        const char *kernels;
        wisp_error error;
        snprintf(plain, sizeof plain, "%s", predicting_model("plain.gguf", &p));
        snprintf(rows, sizeof rows, "%s", temporary_path("rows.gguf"));
        assert_int_equal(wisp_convert(plain, rows, &as_rows, &error), WISP_OK);
        for (size_t k = 0; (kernels = wisp_kernels_name(k)) != NULL; k++)
            for (size_t i = 0; i < 4; i++) {
                wisp_model *model =
                    open_with(i % 2 ? rows : plain, WISP_COMPUTE_INT8, predictors[i / 2], kernels);
                put_shuffled(model, &random);
                wisp_model_close(model);
            }
    }
}

/* A neuron that cannot be packed stays absent. */
static void bad_weights_are_refused(void **state) {
    static const char *const fields[] = {"blk.1.ffn_up.weight",   "blk.1.ffn_gate.weight",
                                         "blk.1.ffn_down.weight", "blk.1.ffn_down.weight",
                                         "blk.1.ffn_up.weight",   "blk.1.ffn_gate.weight"};
    const struct predicting p = {
        .shape = tiny_shape_of("silu"), .activation = "silu", .rank = 8, .type = BLOCK_F32};
    wisp_model *model = open_with(predicting_model("plain.gguf", &p), WISP_COMPUTE_INT8,
                                  WISP_PREDICTOR_LOWRANK, NULL);
    struct neuron_store store;
    wisp_error error;
    (void)state;
    open_layer_or_fail(&store, model);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        float weights[3][HIDDEN] = {{0}};
        float *weight = &weights[i < 3 ? i : i == 3 ? 2 : i - 4][HIDDEN - 1];
        *weight = i % 2 ? INFINITY : NAN;
        if (i >= 3) { /* finite, but no longer after division by the scale of its row or input */
            *weight = 0x1p127f;
            store.layer[LAYER].inverse_row_scale[HIDDEN - 1] = 4;
            store.layer[LAYER].input_scale[HIDDEN - 1] = 0.25f;
        }
        assert_int_equal(
            neuron_store_put(&store, LAYER, 3,
                             (struct neuron_weights){weights[0], weights[1], weights[2]}, &error),
            WISP_ERROR_FORMAT);
        assert_string_equal(error.field, fields[i]);
        assert_int_equal(store.layer[LAYER].n_present, 0);
        assert_false(neuron_is_present(&store.layer[LAYER], 3));
    }
    neuron_store_release(&store);
    wisp_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neurons_may_come_in_any_order),
        cmocka_unit_test(bad_weights_are_refused),
    };
    return cmocka_run_group_tests_name("the store of neurons", tests, NULL,
                                       tear_down_temporary_folder);
}
