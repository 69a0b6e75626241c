/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/write_calibrated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/trace.h"
#include "convert/calibration_tensors.h"
#include "convert/write_model.h"
#include "formats/schema.h"
#include "native/open_path.h"

/* ---- adding --------------------------------------------------------------------------------- */

/* Tensors are quantised into memory, which becomes a source of the directory. */
struct adder {
    struct directory *dir;
    unsigned char *data; /* [capacity]: the source */
    size_t used, capacity;
    uint32_t source;
    wisp_error *error;
};

/* More than all of it takes: as floats. */
static size_t added_bytes(const struct calibrated *c) {
    const struct predictor *p = &c->tokens->fits[0].predictor;
    const size_t predictor =
        p->rank * (p->hidden + p->wide + 1) + (CALIBRATED_LEVELS + 1) * p->wide;
    const size_t others = p->rank * p->hidden + 2 * p->wide + 2 * p->hidden;
    return c->layers * ((c->texts ? 2 : 1) * predictor + others) * sizeof(float);
}

static wisp_status open_adder(struct adder *a) {
    a->data = malloc(a->capacity);
    if (!a->data)
        return fail_memory(a->error, a->capacity);
    const wisp_source memory = {.size = a->capacity,
                                .data = a->data,
                                .close = free,
                                .context = a->data,
                                .name = "calibration"};
    return directory_add_source(a->dir, &memory, &a->source, a->error);
}

/* A tensor of rows x columns, of a layer or of none. */
static wisp_status add_tensor(struct adder *a, int layer, const char *part, const float *values,
                              size_t rows, size_t columns, const struct block_format *format) {
    const size_t n = rows * columns, bytes = n / format->elements * format->bytes;
    char name[TENSOR_NAME_BYTES];
    struct tensor *tensor;
    if (layer == NO_LAYER)
        snprintf(name, sizeof name, "%s", part);
    else
        layer_tensor_name(name, (size_t)layer, part, "");
    if (bytes > a->capacity - a->used)
        return fail_memory(a->error, bytes);
    format->quantise(values, n, a->data + a->used);
    TRY(directory_add_tensor(a->dir, &tensor, a->error));
    const char *copy = arena_copy_text(&a->dir->arena, name, strlen(name));
    if (!copy)
        return fail_memory(a->error, sizeof name);
    *tensor = (struct tensor){.name = copy,
                              .format = format,
                              .n_dims = rows > 1 ? 2 : 1,
                              .dims = {columns, rows, 1, 1},
                              .offset = a->used,
                              .source = a->source};
    a->used += bytes;
    return directory_check_tensor(a->dir, tensor, a->error);
}

static wisp_status add_floats(struct adder *a, int layer, const char *part, const float *values,
                              size_t rows, size_t columns) {
    return add_tensor(a, layer, part, values, rows, columns, block_format_by_id(BLOCK_F32));
}

/* w [rows, columns] of w [columns, rows]. */
static wisp_status add_transposed(struct adder *a, int layer, const char *part, const float *w,
                                  size_t rows, size_t columns, const struct block_format *format) {
    float *turned = malloc(rows * columns * sizeof *turned);
    if (!turned)
        return fail_memory(a->error, rows * columns * sizeof *turned);
    predictor_rows(w, columns, rows, turned);
    const wisp_status status = add_tensor(a, layer, part, turned, rows, columns, format);
    free(turned);
    return status;
}

/* The names of a predictor's matrices P and Q, and of its thresholds. */
struct predictor_names {
    const char *p, *p_bias, *q, *q_bias, *thresholds;
};

static const struct predictor_names lowrank_names = {
    TENSOR_PREDICTOR_P TENSOR_WEIGHT, TENSOR_PREDICTOR_P TENSOR_BIAS,
    TENSOR_PREDICTOR_Q TENSOR_WEIGHT, TENSOR_PREDICTOR_Q TENSOR_BIAS, TENSOR_THRESHOLDS};
static const struct predictor_names sentence_names = {
    TENSOR_SENTENCE_P TENSOR_WEIGHT, TENSOR_SENTENCE_P TENSOR_BIAS, TENSOR_SENTENCE_Q TENSOR_WEIGHT,
    TENSOR_SENTENCE_Q TENSOR_BIAS, TENSOR_SENTENCE_THRESHOLDS};

/* P and p. */
static wisp_status add_p(struct adder *a, int layer, const struct predictor_names *names,
                         const struct predictor *p, const struct block_format *format) {
    TRY(add_transposed(a, layer, names->p, p->p, p->rank, p->hidden, format));
    return add_floats(a, layer, names->p_bias, p->p_bias, 1, p->rank);
}

/* Q, q and the thresholds. */
static wisp_status add_q(struct adder *a, const struct calibrated *c, int l,
                         const struct predictor_names *names,
                         const struct calibrated_predictors *predictors) {
    const struct predictor *p = &predictors->fits[l].trained;
    const float *thresholds = predictors->thresholds + (size_t)l * CALIBRATED_LEVELS * p->wide;
    TRY(add_transposed(a, l, names->q, p->q, p->wide, p->rank, c->formats.q));
    TRY(add_floats(a, l, names->q_bias, p->q_bias, 1, p->wide));
    return add_floats(a, l, names->thresholds, thresholds, CALIBRATED_LEVELS, p->wide);
}

static wisp_status add_compensation(struct adder *a, int layer, const struct layer_fit *fit) {
    const struct predictor *p = &fit->predictor;
    const struct block_format *format = block_format_fitting(BLOCK_Q8_0, p->rank);
    TRY(add_transposed(a, layer, TENSOR_COMPENSATION TENSOR_WEIGHT, fit->compensation, p->hidden,
                       p->rank, format));
    return add_floats(a, layer, TENSOR_COMPENSATION TENSOR_BIAS,
                      fit->compensation + p->rank * p->hidden, 1, p->hidden);
}

/* Centers by neuron. */
static wisp_status add_center(struct adder *a, int layer, const struct layer_fit *fit) {
    float *center = malloc(fit->wide * sizeof *center);
    if (!center)
        return fail_memory(a->error, fit->wide * sizeof *center);
    for (size_t i = 0; i < fit->wide; i++)
        center[fit->order[i]] = fit->center[i];
    const wisp_status status = add_floats(a, layer, TENSOR_CENTER, center, 1, fit->wide);
    free(center);
    return status;
}

static wisp_status add_layer(struct adder *a, const struct calibrated *c, int l) {
    const struct layer_fit *fit = &c->tokens->fits[l];
    if (!c->shared_p)
        TRY(add_p(a, l, &lowrank_names, &fit->trained, c->formats.p));
    TRY(add_q(a, c, l, &lowrank_names, c->tokens));
    TRY(add_floats(a, l, TENSOR_FACTORS, fit->factors, 1, fit->trained.hidden));
    if (c->centered)
        TRY(add_center(a, l, fit));
    TRY(add_floats(a, l, TENSOR_FREQUENCY, fit->frequency, 1, fit->wide));
    if (fit->compensation)
        TRY(add_compensation(a, l, fit));
    if (!c->texts)
        return WISP_OK;
    TRY(add_p(a, l, &sentence_names, &c->texts->fits[l].trained, c->formats.p));
    return add_q(a, c, l, &sentence_names, c->texts);
}

static wisp_status add_keys(struct directory *dir, const struct calibrated *c, wisp_error *error) {
    const struct layer_fit *fits = c->tokens->fits;
    const size_t wide = fits[0].wide;
    int32_t *order = arena_allocate(&dir->arena, c->layers * wide * sizeof *order);
    float *shares = arena_allocate(&dir->arena, CALIBRATED_LEVELS * sizeof *shares);
    int32_t *hot = arena_allocate(&dir->arena, c->layers * sizeof *hot);
    if (!order || !shares || !hot)
        return fail_memory(error, c->layers * wide * sizeof *order);
    for (size_t l = 0; l < c->layers; l++) {
        memcpy(order + l * wide, fits[l].order, wide * sizeof *order);
        hot[l] = (int32_t)fits[l].hot;
    }
    memcpy(shares, c->shares, CALIBRATED_LEVELS * sizeof *shares);
    TRY(directory_put_numbers(dir, KEY_SPARSE_ORDER, VALUE_I32, order, c->layers * wide, error));
    TRY(directory_put_numbers(dir, KEY_SPARSE_HOT, VALUE_I32, hot, c->layers, error));
    TRY(directory_put_numbers(dir, KEY_SPARSE_SHARES, VALUE_F32, shares, CALIBRATED_LEVELS, error));
    return directory_put_f32(dir, KEY_SPARSE_SHARE, c->share, error);
}

static wisp_status write_directory(struct directory *dir, const char *output, wisp_error *error) {
    const struct block_format **formats = malloc(dir->n_tensors * sizeof *formats);
    const struct gguf_plan plan = {.formats = formats};
    if (!formats)
        return fail_memory(error, dir->n_tensors * sizeof *formats);
    for (size_t i = 0; i < dir->n_tensors; i++)
        formats[i] = dir->tensors[i].format;
    const wisp_status status = write_model(dir, &plan, NEURONS_WHERE_POSSIBLE, output, error);
    free((void *)formats);
    return status;
}

wisp_status write_calibrated(const char *input, const char *output,
                             const struct calibrated *calibrated, wisp_error *error) {
    struct directory dir;
    struct adder adder = {.dir = &dir, .capacity = added_bytes(calibrated), .error = error};
    TRY(directory_open_path(&dir, input, error));
    wisp_status status = open_adder(&adder);
    if (status == WISP_OK)
        status = strip_calibration(&dir, error);
    if (status == WISP_OK && calibrated->shared_p)
        status = add_p(&adder, NO_LAYER, &lowrank_names, &calibrated->tokens->fits[0].trained,
                       calibrated->formats.p);
    for (size_t l = 0; l < calibrated->layers && status == WISP_OK; l++)
        status = add_layer(&adder, calibrated, (int)l);
    if (status == WISP_OK)
        status = add_keys(&dir, calibrated, error);
    if (status == WISP_OK)
        status = directory_finish(&dir, error);
    if (status == WISP_OK)
        status = write_directory(&dir, output, error);
    directory_release(&dir);
    return status;
}
