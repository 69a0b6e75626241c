/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "layers/linear.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"
#include "formats/bitnet.h"

enum { NAME_BYTES = 128 };

/* The weights that are stacked, with room for some of their rows: a number of whole panels that is
 * large enough to keep the calls to read() in WebAssembly few. */
struct stack {
    struct weight_rows rows;
    const struct linear_source *source;
    const struct tensor *parts[LINEAR_MAX_PARTS];
    struct tensor_cache *cache;
    size_t row_bytes;      /* of the longest stored row */
    bool packs_stored;     /* the kind packs stored rows rather than floats */
    unsigned char *stored; /* [rows.at_once, bytes of a row]: as the file stores them */
    float *values;         /* [rows.at_once, k]: as floats */
};

enum { ROWS_AT_A_TIME = 64 };

/* Reads rows [first, first + n) of the stack, which may be in several parts, and expands them into
 * stack->values. Keeps them in stack->stored too if they are packed as stored. */
static wisp_status read_stacked_rows(struct weight_rows *rows, size_t first, size_t n,
                                     const void **data, wisp_error *error) {
    const struct stack *stack = (const struct stack *)(const void *)rows;
    const struct linear_source *source = stack->source;
    float *values = stack->values;
    unsigned char *stored = stack->stored;
    while (n > 0) {
        const struct tensor *part = stack->parts[first / source->n];
        const size_t row = first % source->n, here = smaller(n, source->n - row);
        const uint64_t from = (uint64_t)source->matrix * source->n + row;
        const size_t bytes = here * (size_t)part->row_bytes;
        const void *found;
        TRY(directory_rows(source->dir, part, from, here, stack->cache, stored, &found, error));
        if (!stack->packs_stored || !source->checked)
            TRY(directory_expand(source->dir, part, from, here, found, values, error));
        if (stack->packs_stored) {
            if (found != stored)
                memcpy(stored, found, bytes);
            stored += bytes;
        }
        values += here * source->k;
        first += here;
        n -= here;
    }
    *data = stack->packs_stored ? stack->stored : (const void *)stack->values;
    return WISP_OK;
}

static wisp_status load_weights(struct linear *layer, struct stack *stack, wisp_error *error) {
    const size_t n = layer->n, k = layer->k, rows = stack->rows.at_once;
    size_t most;
    /* No weight kind packs into more than this, so the sizes below cannot overflow. */
    if (!checked_floats((uint64_t)n + rows, (uint64_t)k + 3, &most))
        return fail_memory(error, UINT64_MAX);
    stack->stored = memory_allocate(rows * stack->row_bytes);
    stack->values = memory_allocate(rows * k * sizeof(float));
    const wisp_status status =
        stack->stored && stack->values
            ? layer->kind->load(layer->kind, layer->kernels, n, k, &stack->rows, &layer->weights,
                                &layer->bytes, error)
            : fail_memory(error, rows * (stack->row_bytes + k * sizeof(float)));
    memory_free(stack->stored);
    memory_free(stack->values);
    return status;
}

/* Reads the bias of one of several matrices. */
static wisp_status matrix_bias(const struct linear_source *source, const char *name, float *bias,
                               wisp_error *error) {
    const struct tensor *tensor;
    TRY(directory_require_tensor(source->dir, name, source->n, source->matrices, &tensor, error));
    void *stored = memory_allocate((size_t)tensor->row_bytes);
    const wisp_status status =
        stored ? directory_floats(source->dir, tensor, source->matrix, 1, NULL, stored, bias, error)
               : fail_memory(error, tensor->row_bytes);
    memory_free(stored);
    return status;
}

wisp_status linear_bias(const struct linear_source *source, const char *name, float *bias,
                        wisp_error *error) {
    float *values = NULL;
    if (source->unbiased && directory_find_tensor(source->dir, name))
        return fail(error, WISP_ERROR_UNSUPPORTED, source->dir->file, name,
                    "a bias, which models of this architecture do not have");
    memset(bias, 0, source->n * sizeof *bias);
    if (source->unbiased)
        return WISP_OK;
    if (source->matrices > 0)
        return matrix_bias(source, name, bias, error);
    const wisp_status status =
        directory_load_floats(source->dir, name, 1, source->n, &values, error);
    if (status == WISP_OK)
        memcpy(bias, values, source->n * sizeof *bias);
    memory_free(values);
    return status;
}

static wisp_status load_bias(struct linear *layer, const struct linear_source *source,
                             wisp_error *error) {
    const size_t n = source->n;
    layer->bias = memory_allocate(layer->n * sizeof(float));
    if (!layer->bias)
        return fail_memory(error, layer->n * sizeof(float));
    layer->bytes += layer->n * sizeof(float);
    for (size_t i = 0; i < source->parts; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s.bias", source->names[i]);
        TRY(linear_bias(source, name, layer->bias + i * n, error));
    }
    return WISP_OK;
}

static wisp_status load_norm(struct linear *layer, const struct linear_source *source,
                             wisp_error *error) {
    char name[NAME_BYTES];
    if (!LINEAR_NORMALISES || !source->norm)
        return WISP_OK;
    snprintf(name, sizeof name, "%s.weight", source->norm);
    layer->norm_epsilon = source->norm_epsilon;
    layer->bytes += layer->k * sizeof *layer->norm;
    return directory_load_floats(source->dir, name, 1, layer->k, &layer->norm, error);
}

wisp_status linear_load(struct linear *layer, const struct linear_source *source,
                        const struct kernels *kernels, wisp_compute compute, wisp_error *error) {
    struct stack stack = {.source = source};
    struct tensor_cache own = {0}; /* for tensors that are made of others' bytes */
    const struct block_format *types[LINEAR_MAX_PARTS];
    *layer = (struct linear){.kernels = kernels, .n = source->n * source->parts, .k = source->k};
    for (size_t i = 0; i < source->parts; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s.weight", source->names[i]);
        TRY(directory_require_matrices(source->dir, name, source->k, source->n,
                                       larger(source->matrices, 1), &stack.parts[i], error));
        types[i] = bitnet_format(stack.parts[i]);
        stack.row_bytes = larger(stack.row_bytes, (size_t)stack.parts[i]->row_bytes);
    }
    layer->kind = weight_kind_for(kernels, types, source->parts, compute);
    stack.packs_stored = layer->kind->rows != BLOCK_F32;
    stack.rows =
        (struct weight_rows){.read = read_stacked_rows,
                             .at_once = round_up(ROWS_AT_A_TIME, layer->kind->panel(kernels))};
    stack.cache = source->cache ? source->cache : &own;
    const wisp_status status = load_weights(layer, &stack, error);
    tensor_cache_release(&own);
    TRY(status);
    TRY(load_bias(layer, source, error));
    return load_norm(layer, source, error);
}

void linear_release(struct linear *layer) {
    if (layer->kind)
        layer->kind->release(layer->weights);
    memory_free(layer->bias);
    if (LINEAR_NORMALISES)
        memory_free(layer->norm);
    *layer = (struct linear){0};
}

static void multiply(const struct linear *layer, const float *x, size_t m, float *y, size_t first,
                     size_t n, struct workspace space) {
    const struct weight_product product = {.kernels = layer->kernels,
                                           .weights = layer->weights,
                                           .bias = layer->bias,
                                           .x = x,
                                           .y = y,
                                           .m = m,
                                           .k = layer->k,
                                           .ldy = layer->n,
                                           .first = first,
                                           .n = n};
    if (n > 0)
        layer->kind->apply(layer->kind, &product, space);
}

/* Computes outputs of the norm of inputs, some rows after the other, and shows them to the tap. */
static void multiply_norm(const struct linear *layer, const struct linear_tap *tap, const float *x,
                          size_t m, float *y, size_t first, size_t n, struct workspace space) {
    float *rows = workspace_take(&space, LINEAR_NORM_ROWS, layer->k, sizeof *rows);
    for (size_t here; m > 0; x += here * layer->k, y += here * layer->n, m -= here) {
        here = smaller(m, LINEAR_NORM_ROWS);
        layer->kernels->rms_norm(x, layer->norm, layer->norm_epsilon, here, layer->k, rows);
        multiply(layer, rows, here, y, first, n, space);
        if (tap)
            tap->see(tap->context, rows, y, here);
    }
}

void linear_apply_outputs(const struct linear *layer, const float *x, size_t m, float *y,
                          size_t first, size_t n, struct workspace space) {
    if (LINEAR_NORMALISES && layer->norm)
        multiply_norm(layer, NULL, x, m, y, first, n, space);
    else
        multiply(layer, x, m, y, first, n, space);
}

void linear_apply(const struct linear *layer, const float *x, size_t m, float *y,
                  struct workspace space) {
    if (LINEAR_NORMALISES && layer->norm) {
        multiply_norm(layer, layer->tap, x, m, y, 0, layer->n, space);
        return;
    }
    multiply(layer, x, m, y, 0, layer->n, space);
    if (layer->tap)
        layer->tap->see(layer->tap->context, x, y, m);
}
