/* SPDX-License-Identifier: Apache-2.0 */
#include "layers/linear.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/memory.h"

enum { NAME_BYTES = 128 };

/* The weights that are stacked, and room for some of their rows: whole panels, and so many that a
 * host that reads for WebAssembly is not asked all the time. */
struct stack {
    const struct linear_source *source;
    const struct tensor *parts[LINEAR_MAX_PARTS];
    size_t panel, rows;
    void *stored;
    float *values; /* [rows, k] */
};

enum { ROWS_AT_A_TIME = 64 };

/* Rows [first, first + rows) of the stack into stack->values; they may lie in two parts. */
static wisp_status read_stacked_rows(const struct stack *stack, size_t first, size_t rows,
                                     wisp_error *error) {
    const struct linear_source *source = stack->source;
    float *values = stack->values;
    while (rows > 0) {
        const size_t row = first % source->n, here = smaller(rows, source->n - row);
        TRY(directory_floats(source->dir, stack->parts[first / source->n], row, here, source->cache,
                             stack->stored, values, error));
        values += here * source->k;
        first += here;
        rows -= here;
    }
    return WISP_OK;
}

static wisp_status pack_panels(const struct linear *layer, const struct stack *stack,
                               wisp_error *error) {
    const size_t panel = stack->panel, k = layer->k;
    unsigned char *packed = layer->weights;
    for (size_t first = 0; first < layer->n; first += stack->rows) {
        const size_t left = layer->n - first, rows = left < stack->rows ? left : stack->rows;
        TRY(read_stacked_rows(stack, first, rows, error));
        if (layer->int8) {
            pack_int8(stack->values, k, rows, k, panel, packed);
            packed += packed_int8_bytes(rows, k, panel);
        } else {
            pack_f32(stack->values, k, rows, k, panel, (float *)(void *)packed);
            packed += packed_f32_floats(rows, k, panel) * sizeof(float);
        }
    }
    return WISP_OK;
}

static wisp_status load_weights(struct linear *layer, struct stack *stack, wisp_error *error) {
    const size_t panel = stack->panel, n = layer->n, k = layer->k;
    size_t row_bytes = 0, most;
    /* More than either way of packing takes. */
    if (!checked_floats((uint64_t)n + stack->rows, (uint64_t)k + 3, &most))
        return fail_memory(error, UINT64_MAX);
    for (size_t i = 0; i < stack->source->parts; i++)
        if (stack->parts[i]->row_bytes > row_bytes)
            row_bytes = (size_t)stack->parts[i]->row_bytes;
    layer->bytes = layer->int8 ? packed_int8_bytes(n, k, panel)
                               : packed_f32_floats(n, k, panel) * sizeof(float);
    layer->weights = memory_allocate(layer->bytes);
    stack->stored = memory_allocate(stack->rows * row_bytes);
    stack->values = memory_allocate(stack->rows * k * sizeof(float));
    const bool room = layer->weights && stack->stored && stack->values;
    const wisp_status status =
        room ? pack_panels(layer, stack, error) : fail_memory(error, layer->bytes);
    memory_free(stack->stored);
    memory_free(stack->values);
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

wisp_status linear_load(struct linear *layer, const struct linear_source *source,
                        const struct kernels *kernels, bool int8, wisp_error *error) {
    struct stack stack = {.source = source};
    stack.panel = int8 ? kernels->int8_panel : kernels->f32_panel;
    stack.rows = round_up(ROWS_AT_A_TIME, stack.panel);
    *layer = (struct linear){
        .kernels = kernels, .n = source->n * source->parts, .k = source->k, .int8 = int8};
    for (size_t i = 0; i < source->parts; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s.weight", source->names[i]);
        TRY(directory_require_tensor(source->dir, name, source->k, source->n, &stack.parts[i],
                                     error));
    }
    TRY(load_weights(layer, &stack, error));
    return load_bias(layer, source, error);
}

void linear_release(struct linear *layer) {
    memory_free(layer->weights);
    memory_free(layer->bias);
    *layer = (struct linear){0};
}

static struct quantised_rows take_quantised_rows(struct workspace *space, size_t m, size_t k) {
    struct quantised_rows rows;
    rows.q = workspace_take(space, m, int8_row_bytes(k), 1);
    rows.scale = workspace_take(space, m, int8_blocks(k), sizeof *rows.scale);
    rows.zero = workspace_take(space, m, int8_blocks(k), sizeof *rows.zero);
    return rows;
}

size_t linear_workspace_bytes(size_t m, size_t k) {
    struct workspace measured = {0};
    take_quantised_rows(&measured, m, k);
    return measured.used;
}

void linear_apply(const struct linear *layer, const float *x, size_t m, float *y,
                  struct workspace space) {
    const size_t n = layer->n, k = layer->k;
    if (!layer->int8) {
        layer->kernels->gemm_f32(x, k, layer->weights, layer->bias, y, n, m, n, k);
        return;
    }
    const struct quantised_rows rows = take_quantised_rows(&space, m, k);
    layer->kernels->quantise(x, m, k, rows);
    layer->kernels->gemm_int8(rows, layer->weights, layer->bias, y, n, m, n, k);
}
