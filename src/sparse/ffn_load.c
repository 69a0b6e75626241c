/* SPDX-License-Identifier: Apache-2.0
 * Sparse layers from a model's tensors, in int8. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/schema.h"
#include "sparse/ffn.h"

enum {
    MOST_INPUTS = NEURONS_MAX, /* for which sums of products of bytes fit in 32 bits */
    MOST_RANK = 4096
};

struct loader {
    struct sparse_ffn *ffn;
    const struct directory *dir;
    const int32_t *order; /* of this layer, or NULL */
    size_t index;
    size_t levels; /* of thresholds; 0: all neurons are computed */
    bool by_text;  /* they are chosen once for a text */
    bool unbiased;
    wisp_error *error;
};

static bool has(const struct loader *l, const char *part) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l->index, part, "");
    return directory_find_tensor(l->dir, name) != NULL;
}

/* Floats that count as the layer's. */
static wisp_status hold_floats(const struct loader *l, const char *part, size_t rows,
                               size_t row_length, float **values) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l->index, part, "");
    TRY(directory_load_floats(l->dir, name, rows, row_length, values, l->error));
    l->ffn->bytes += rows * row_length * sizeof **values;
    return WISP_OK;
}

/* Memory that does. */
static wisp_status hold(const struct loader *l, size_t bytes, void **held) {
    *held = memory_allocate(bytes);
    l->ffn->bytes += bytes;
    return *held ? WISP_OK : fail_memory(l->error, bytes);
}

/* The neuron at a place of the order. */
static size_t neuron_at(const struct loader *l, size_t place) {
    return l->order ? (size_t)l->order[place] : place;
}

static bool is_gated(const struct loader *l) {
    return l->ffn->activation == ACTIVATION_GATED_SILU;
}

/* ---- W_up and W_gate ------------------------------------------------------------------------ */

/* Both for tokens that take all of them: as dense layers have them. */
static wisp_status load_all_up(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    char up[TENSOR_NAME_BYTES], gate[TENSOR_NAME_BYTES];
    const char *const names[] = {up, gate};
    const struct linear_source source = {.dir = l->dir,
                                         .names = names,
                                         .unbiased = l->unbiased,
                                         .parts = is_gated(l) ? 2 : 1,
                                         .n = f->wide,
                                         .k = f->hidden};
    layer_tensor_name(up, l->index, TENSOR_FFN_UP, "");
    layer_tensor_name(gate, l->index, TENSOR_FFN_GATE, "");
    TRY(linear_load(&f->all, &source, f->kernels, true, l->error));
    f->bytes += f->all.bytes;
    return WISP_OK;
}

/* Row by row, in the order of the plan, each value divided by the factor of its channel. */
static wisp_status pack_rows(const struct loader *l, const struct tensor *tensor, const float *bias,
                             void *stored, float *row, int8_t *rows, struct neuron *neurons) {
    const struct sparse_ffn *f = l->ffn;
    for (size_t i = 0; i < f->wide; i++) {
        const size_t neuron = neuron_at(l, i);
        TRY(directory_floats(l->dir, tensor, neuron, 1, stored, row, l->error));
        for (size_t c = 0; c < f->hidden; c++)
            row[c] /= f->by[c];
        neurons[i] = (struct neuron){.bias = bias[neuron], .column = f->columns.scale[i]};
        pack_neuron_row(row, f->hidden, rows + i * sparse_row_bytes(f->hidden), &neurons[i]);
    }
    return WISP_OK;
}

/* One of the two for tokens that choose among its rows. */
static wisp_status load_rows(const struct loader *l, const char *matrix, int8_t **rows,
                             struct neuron **neurons) {
    const struct sparse_ffn *f = l->ffn;
    const struct linear_source source = {.dir = l->dir, .unbiased = l->unbiased, .n = f->wide};
    const struct tensor *tensor;
    char name[TENSOR_NAME_BYTES];
    void *held;
    layer_tensor_name(name, l->index, matrix, TENSOR_WEIGHT);
    TRY(directory_require_tensor(l->dir, name, f->hidden, f->wide, &tensor, l->error));
    TRY(hold(l, f->wide * sparse_row_bytes(f->hidden), &held));
    *rows = held;
    TRY(hold(l, f->wide * sizeof **neurons, &held));
    *neurons = held;
    float *bias = memory_allocate(f->wide * sizeof *bias);
    float *row = memory_allocate(f->hidden * sizeof *row);
    void *stored = memory_allocate((size_t)tensor->row_bytes);
    const bool room = bias && row && stored;
    wisp_status status = room ? WISP_OK : fail_memory(l->error, f->wide * sizeof *bias);
    layer_tensor_name(name, l->index, matrix, TENSOR_BIAS);
    if (status == WISP_OK)
        status = linear_bias(&source, name, bias, l->error);
    if (status == WISP_OK)
        status = pack_rows(l, tensor, bias, stored, row, *rows, *neurons);
    memory_free(bias);
    memory_free(row);
    memory_free(stored);
    return status;
}

static wisp_status load_chosen_up(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    TRY(load_rows(l, TENSOR_FFN_UP, &f->up, &f->neurons));
    return is_gated(l) ? load_rows(l, TENSOR_FFN_GATE, &f->gate, &f->gates) : WISP_OK;
}

/* The factors by which x is multiplied; 1 where the model has none. */
static wisp_status load_factors(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    if (!has(l, TENSOR_FACTORS)) {
        void *held;
        TRY(hold(l, f->hidden * sizeof *f->by, &held));
        f->by = held;
        for (size_t c = 0; c < f->hidden; c++)
            f->by[c] = 1;
        return WISP_OK;
    }
    TRY(hold_floats(l, TENSOR_FACTORS, 1, f->hidden, &f->by));
    for (size_t c = 0; c < f->hidden; c++)
        if (!(f->by[c] >= 0x1p-40f && f->by[c] <= 0x1p40f))
            return fail(l->error, WISP_ERROR_FORMAT, l->dir->file, TENSOR_FACTORS,
                        "factor %zu of layer %zu is %g, not a number between 2^-40 and 2^40", c,
                        l->index, (double)f->by[c]);
    return WISP_OK;
}

/* ---- W_down --------------------------------------------------------------------------------- */

/* The centers [wide] in the order of the plan to ffn->center. */
static wisp_status order_centers(const struct loader *l, const float *centers) {
    struct sparse_ffn *f = l->ffn;
    void *held;
    TRY(hold(l, f->wide * sizeof *f->center, &held));
    f->center = held;
    for (size_t i = 0; i < f->wide; i++)
        f->center[i] = centers[neuron_at(l, i)];
    return WISP_OK;
}

static wisp_status load_down(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    float *centers = NULL;
    wisp_status status = WISP_OK;
    if (l->levels > 0 && has(l, TENSOR_CENTER)) {
        char name[TENSOR_NAME_BYTES];
        layer_tensor_name(name, l->index, TENSOR_CENTER, "");
        status = directory_load_floats(l->dir, name, 1, f->wide, &centers, l->error);
        if (status == WISP_OK)
            status = order_centers(l, centers);
    }
    const struct columns_source source = {.dir = l->dir,
                                          .index = l->index,
                                          .hidden = f->hidden,
                                          .wide = f->wide,
                                          .unbiased = l->unbiased,
                                          .order = l->levels > 0 ? l->order : NULL,
                                          .center = centers};
    if (status == WISP_OK)
        status = columns_load(&f->columns, &source, f->kernels->sparse, l->error);
    f->bytes += f->columns.bytes;
    memory_free(centers);
    return status;
}

/* ---- the predictor -------------------------------------------------------------------------- */

/* A matrix and its bias, which is float or quantised as its tensor is. */
static wisp_status load_linear(const struct loader *l, const char *name, size_t n, size_t k,
                               struct linear *layer) {
    char weight[TENSOR_NAME_BYTES];
    const struct linear_source source = {.dir = l->dir, .names = &name, .parts = 1, .n = n, .k = k};
    snprintf(weight, sizeof weight, "%s" TENSOR_WEIGHT, name);
    const struct tensor *tensor = directory_find_tensor(l->dir, weight);
    const bool int8 = tensor && tensor->format->elements > 1;
    TRY(linear_load(layer, &source, l->ffn->kernels, int8, l->error));
    l->ffn->bytes += layer->bytes;
    return WISP_OK;
}

static wisp_status load_part(const struct loader *l, const char *part, size_t n, size_t k,
                             struct linear *layer) {
    char name[TENSOR_NAME_BYTES];
    layer_tensor_name(name, l->index, part, "");
    return load_linear(l, name, n, k, layer);
}

/* The layer's own P, or the one that all layers share where each token is looked at. */
static wisp_status load_p(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    char name[TENSOR_NAME_BYTES], weight[TENSOR_NAME_BYTES];
    const char *part = l->by_text ? TENSOR_SENTENCE_P : TENSOR_PREDICTOR_P;
    layer_tensor_name(name, l->index, part, "");
    layer_tensor_name(weight, l->index, part, TENSOR_WEIGHT);
    const struct tensor *tensor = directory_find_tensor(l->dir, weight);
    const bool shared = !tensor && !l->by_text;
    if (shared)
        tensor = directory_find_tensor(l->dir, TENSOR_PREDICTOR_P TENSOR_WEIGHT);
    if (!tensor)
        return fail(l->error, WISP_ERROR_NOT_FOUND, l->dir->file, weight, "the tensor is missing");
    if (tensor->rows > MOST_RANK)
        return fail(l->error, WISP_ERROR_UNSUPPORTED, l->dir->file, tensor->name,
                    "a rank of %llu, where at most %d is supported",
                    (unsigned long long)tensor->rows, MOST_RANK);
    f->rank = (size_t)tensor->rows;
    return load_linear(l, shared ? TENSOR_PREDICTOR_P : name, f->rank, f->hidden, &f->p);
}

static wisp_status load_predictor(const struct loader *l) {
    struct sparse_ffn *f = l->ffn;
    TRY(load_p(l));
    TRY(load_part(l, l->by_text ? TENSOR_SENTENCE_Q : TENSOR_PREDICTOR_Q, f->wide, f->rank, &f->q));
    f->levels = l->levels;
    TRY(hold_floats(l, l->by_text ? TENSOR_SENTENCE_THRESHOLDS : TENSOR_THRESHOLDS, f->levels,
                    f->wide, &f->thresholds));
    if (l->by_text || !has(l, TENSOR_COMPENSATION TENSOR_WEIGHT))
        return WISP_OK;
    return load_part(l, TENSOR_COMPENSATION, f->hidden, f->rank, &f->compensation);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static wisp_status load_all(const struct loader *l) {
    TRY(load_down(l));
    if (l->levels == 0)
        return load_all_up(l);
    TRY(load_factors(l));
    TRY(load_chosen_up(l));
    return load_predictor(l);
}

bool sparse_ffn_fits(size_t hidden, size_t wide) {
    return hidden <= MOST_INPUTS && wide <= MOST_INPUTS;
}

wisp_status sparse_ffn_load(struct sparse_ffn *ffn, const struct directory *dir,
                            const struct sparse_plan *plan, size_t index,
                            const struct sparse_shape *shape, const struct kernels *kernels,
                            wisp_error *error) {
    const struct loader l = {.ffn = ffn,
                             .dir = dir,
                             .order = plan->order ? plan->order + index * shape->wide : NULL,
                             .index = index,
                             .levels = plan->exact ? 0 : plan->levels,
                             .by_text = plan->by_text,
                             .unbiased = shape->unbiased,
                             .error = error};
    *ffn = (struct sparse_ffn){.kernels = kernels,
                               .activation = shape->activation,
                               .hidden = shape->hidden,
                               .wide = shape->wide};
    if (!sparse_ffn_fits(shape->hidden, shape->wide))
        return fail(error, WISP_ERROR_UNSUPPORTED, dir->file, NULL,
                    "sparse layers of %zu x %zu are larger than %d", shape->hidden, shape->wide,
                    MOST_INPUTS);
    const wisp_status status = load_all(&l);
    if (status != WISP_OK)
        sparse_ffn_release(ffn);
    return status;
}

void sparse_ffn_release(struct sparse_ffn *ffn) {
    columns_release(&ffn->columns);
    linear_release(&ffn->all);
    linear_release(&ffn->p);
    linear_release(&ffn->q);
    linear_release(&ffn->compensation);
    memory_free(ffn->by);
    memory_free(ffn->up);
    memory_free(ffn->gate);
    memory_free(ffn->neurons);
    memory_free(ffn->gates);
    memory_free(ffn->center);
    memory_free(ffn->thresholds);
    *ffn = (struct sparse_ffn){0};
}
