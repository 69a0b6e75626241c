/* SPDX-License-Identifier: Apache-2.0
 * Fits low-rank predictors to the layers of a model that generates. All layers compute the same
 * share of their neurons: with one price for all (thresholds.h) the first ones would compute too
 * little (docs/sparse.md). */
#include <stdatomic.h>

#include "base/checked.h"
#include "base/memory.h"
#include "base/pool.h"
#include "calibrate/fit.h"
#include "calibrate/gates.h"
#include "calibrate/neurons.h"
#include "calibrate/write_calibrated.h"
#include "formats/schema.h"

enum { HELD_OUT_PART = 4 /* of as many inputs as are fitted to */ };

static wisp_status open_inputs(const struct gate_calibration *c, size_t capacity,
                               struct arena *arena, struct gate_inputs **inputs,
                               wisp_error *error) {
    ARENA_TAKE(arena, *inputs, c->layers, error);
    for (size_t l = 0; l < c->layers; l++) {
        (*inputs)[l].capacity = capacity;
        ARENA_TAKE(arena, (*inputs)[l].x, capacity * c->model->network.config.hidden_size, error);
    }
    return WISP_OK;
}

wisp_status gate_predictors_open(struct gate_calibration *c, struct arena *arena,
                                 wisp_error *error) {
    struct gate_predictors *p = &c->predictors;
    ARENA_TAKE(arena, p->arenas, c->layers, error);
    ARENA_TAKE(arena, p->fitted, c->layers, error);
    ARENA_TAKE(arena, p->thresholds, c->layers * CALIBRATED_LEVELS * c->neurons, error);
    TRY(open_inputs(c, c->options->tokens, arena, &p->fitted_inputs, error));
    return open_inputs(c, c->options->tokens / HELD_OUT_PART + 1, arena, &p->held_out_inputs,
                       error);
}

/* ---- one layer ------------------------------------------------------------------------------ */

struct fitting {
    struct gate_calibration *c;
    struct layer *layers;         /* [layers] */
    wisp_calibrated_layer *found; /* [layers] */
    atomic_size_t done;           /* layers */
};

static wisp_status read_matrix(const struct gate_calibration *c, size_t layer, const char *matrix,
                               size_t rows, size_t columns, float **values, wisp_error *error) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, layer, matrix, TENSOR_WEIGHT);
    return directory_load_floats(&c->model->dir, name, rows, columns, values, error);
}

/* Sets the thresholds of all levels, and measures those of the share that the options ask for. */
static wisp_status choose_thresholds(struct fitting *f, size_t index, const struct layer_fit *fit,
                                     const struct gains *gains, struct arena *scratch,
                                     wisp_error *error) {
    const struct gate_calibration *c = f->c;
    const float share = 1 - c->options->sparsity;
    float *levels = c->predictors.thresholds + index * CALIBRATED_LEVELS * c->neurons, *own;
    ARENA_TAKE(scratch, own, c->neurons, error);
    for (size_t i = 0; i < CALIBRATED_LEVELS; i++)
        gains_thresholds(gains, gains_price(gains, 1, calibrated_shares[i]),
                         levels + i * c->neurons);
    gains_thresholds(gains, gains_price(gains, 1, share), own);
    return layer_measure(&f->layers[index], fit, own, scratch, &f->found[index].lowrank, error);
}

static wisp_status fit_read_layer(struct fitting *f, size_t index, struct arena *scratch,
                                  wisp_error *error) {
    const struct gate_calibration *c = f->c;
    const wisp_calibrate_options *o = c->options;
    const struct fit_options options = {
        .rank = o->rank, .computed = 1 - o->sparsity, .steps = FIT_STEPS, .seed = o->seed + index};
    struct layer *layer = &f->layers[index];
    struct layer_fit fit = {0};
    struct gains gains;
    TRY(layer_study_neurons(layer, scratch, error));
    arena_release(scratch);
    TRY(predictor_fit(layer, &options, scratch, &fit.trained, error));
    arena_release(scratch);
    TRY(layer_find_gains(layer, &c->predictors.formats, &fit, &gains, scratch, error));
    arena_release(scratch);
    c->predictors.fitted[index] = fit.trained;
    f->found[index] = (wisp_calibrated_layer){.rank = o->rank,
                                              .sparsity = o->sparsity,
                                              .frequency = layer->frequency,
                                              .magnitude = layer->magnitude,
                                              .neurons = c->neurons,
                                              .hot = layer->hot};
    return choose_thresholds(f, index, &fit, &gains, scratch, error);
}

static wisp_status fit_layer(void *context, uint32_t member, size_t index, size_t end,
                             wisp_error *error) {
    struct fitting *f = context;
    const struct gate_calibration *c = f->c;
    const struct model_config *config = &c->model->network.config;
    const size_t n = c->neurons, size = config->hidden_size;
    struct layer *layer = &f->layers[index];
    struct arena scratch = {0};
    (void)end;
    wisp_status status = read_matrix(c, index, TENSOR_FFN_GATE, n, size, &layer->gate, error);
    if (status == WISP_OK)
        status = read_matrix(c, index, TENSOR_FFN_UP, n, size, &layer->up, error);
    if (status == WISP_OK)
        status = read_matrix(c, index, TENSOR_FFN_DOWN, size, n, &layer->down, error);
    if (status == WISP_OK)
        status = fit_read_layer(f, index, &scratch, error);
    arena_release(&scratch);
    memory_free(layer->gate);
    memory_free(layer->up);
    memory_free(layer->down);
    const size_t done = atomic_fetch_add(&f->done, 1) + 1;
    if (member == 0 && c->options->progress)
        c->options->progress(c->options->context, "layers", done, c->layers);
    return status;
}

/* ---- all layers ----------------------------------------------------------------------------- */

static wisp_status open_layers(struct fitting *f, struct arena *arena, wisp_error *error) {
    const struct gate_calibration *c = f->c;
    const struct network *network = &c->model->network;
    const size_t size = network->config.hidden_size;
    ARENA_TAKE(arena, f->layers, c->layers, error);
    ARENA_TAKE(arena, f->found, c->layers, error);
    for (size_t l = 0; l < c->layers; l++) {
        const struct gate_inputs *x = &c->predictors.fitted_inputs[l];
        const struct gate_inputs *held_out = &c->predictors.held_out_inputs[l];
        f->layers[l] = (struct layer){.arena = &c->predictors.arenas[l],
                                      .kernels = network->kernels,
                                      .hidden_size = size,
                                      .intermediate_size = c->neurons,
                                      .activation = network->config.activation,
                                      .tokens = x->n,
                                      .held_out_tokens = held_out->n,
                                      .x = x->x,
                                      .held_out = held_out->x,
                                      .predictor_x = x->x,
                                      .predictor_held_out = held_out->x,
                                      .in_order = true,
                                      .cancelled = c->options->cancelled,
                                      .context = c->options->context};
        ARENA_TAKE(f->layers[l].arena, f->layers[l].up_bias, c->neurons, error); /* of 0 */
        ARENA_TAKE(f->layers[l].arena, f->layers[l].down_bias, size, error);
    }
    return WISP_OK;
}

wisp_status gate_predictors_fit(struct gate_calibration *c, struct arena *arena,
                                wisp_error *error) {
    const wisp_calibrate_options *o = c->options;
    struct fitting f = {.c = c};
    struct pool *team = NULL;
    wisp_status status = open_layers(&f, arena, error);
    struct pool_work work = {.items = c->layers, .run = fit_layer, .context = &f};
    if (status == WISP_OK)
        status = pool_open(o->threads ? o->threads : 1, &team, error);
    if (status == WISP_OK && o->progress)
        o->progress(o->context, "layers", 0, c->layers);
    if (status == WISP_OK)
        status = pool_each(team, pool_size(team), &work, error);
    for (size_t l = 0; l < c->layers && status == WISP_OK && o->layer; l++)
        o->layer(o->context, (uint32_t)l, &f.found[l]);
    if (team)
        pool_close(team);
    return status;
}

void gate_predictors_release(struct gate_calibration *c) {
    for (size_t l = 0; l < c->layers && c->predictors.arenas; l++)
        arena_release(&c->predictors.arenas[l]);
}
