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
    const struct linear_source *source;
    const struct tensor *parts[LINEAR_MAX_PARTS];
    struct tensor_cache *cache;
    size_t rows;
    size_t row_bytes;      /* of the longest stored row */
    bool packs_stored;     /* the kind packs stored rows rather than floats */
    unsigned char *stored; /* [rows, bytes of a row]: as the file stores them */
    float *values;         /* [rows, k]: as floats */
};

enum { ROWS_AT_A_TIME = 64 };

/* Reads rows [first, first + rows) of the stack, which may lie in two parts, and expands them
 * into stack->values. Keeps them in stack->stored too where they are packed as stored. */
static wisp_status read_stacked_rows(const struct stack *stack, size_t first, size_t rows,
                                     wisp_error *error) {
    const struct linear_source *source = stack->source;
    float *values = stack->values;
    unsigned char *stored = stack->stored;
    while (rows > 0) {
        const struct tensor *part = stack->parts[first / source->n];
        const size_t row = first % source->n, here = smaller(rows, source->n - row);
        const size_t bytes = here * (size_t)part->row_bytes;
        const void *found;
        TRY(directory_rows(source->dir, part, row, here, stack->cache, stored, &found, error));
        TRY(directory_expand(source->dir, part, row, here, found, values, error));
        if (stack->packs_stored) {
            if (found != stored)
                memcpy(stored, found, bytes);
            stored += bytes;
        }
        values += here * source->k;
        first += here;
        rows -= here;
    }
    return WISP_OK;
}

static wisp_status pack_panels(const struct linear *layer, const struct stack *stack,
                               wisp_error *error) {
    const struct weight_kind *kind = layer->kind;
    unsigned char *packed = layer->weights;
    for (size_t first = 0; first < layer->n; first += stack->rows) {
        const size_t rows = smaller(layer->n - first, stack->rows);
        TRY(read_stacked_rows(stack, first, rows, error));
        kind->pack(layer->kernels,
                   stack->packs_stored ? stack->stored : (const void *)stack->values, rows,
                   layer->k, packed);
        packed += kind->bytes(layer->kernels, rows, layer->k);
    }
    return WISP_OK;
}

static wisp_status load_weights(struct linear *layer, struct stack *stack, wisp_error *error) {
    const size_t n = layer->n, k = layer->k;
    size_t most;
    /* No weight kind packs into more than this, so the sizes below cannot overflow. */
    if (!checked_floats((uint64_t)n + stack->rows, (uint64_t)k + 3, &most))
        return fail_memory(error, UINT64_MAX);
    layer->bytes = layer->kind->bytes(layer->kernels, n, k);
    layer->weights = memory_allocate(layer->bytes);
    stack->stored = memory_allocate(stack->rows * stack->row_bytes);
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
                        const struct kernels *kernels, bool quantised, wisp_error *error) {
    struct stack stack = {.source = source};
    struct tensor_cache own = {0}; /* for tensors that are made of others' bytes */
    const struct block_format *types[LINEAR_MAX_PARTS];
    *layer = (struct linear){.kernels = kernels, .n = source->n * source->parts, .k = source->k};
    for (size_t i = 0; i < source->parts; i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "%s.weight", source->names[i]);
        TRY(directory_require_tensor(source->dir, name, source->k, source->n, &stack.parts[i],
                                     error));
        types[i] = bitnet_format(stack.parts[i]);
        stack.row_bytes = larger(stack.row_bytes, (size_t)stack.parts[i]->row_bytes);
    }
    layer->kind = weight_kind_for(kernels, types, source->parts, quantised);
    stack.packs_stored = layer->kind->rows != BLOCK_F32;
    stack.rows = round_up(ROWS_AT_A_TIME, layer->kind->panel(kernels));
    stack.cache = source->cache ? source->cache : &own;
    const wisp_status status = load_weights(layer, &stack, error);
    tensor_cache_release(&own);
    return status == WISP_OK ? load_bias(layer, source, error) : status;
}

void linear_release(struct linear *layer) {
    memory_free(layer->weights);
    memory_free(layer->bias);
    *layer = (struct linear){0};
}

/* Takes room for blocks of NARROW_BLOCK, and so for those of INT8_BLOCK, which are fewer. */
static struct quantised_rows take_quantised_rows(struct workspace *space, size_t m, size_t k) {
    struct quantised_rows rows;
    rows.q = workspace_take(space, m, int8_row_bytes(k), 1);
    rows.scale = workspace_take(space, m, narrow_blocks(k), sizeof *rows.scale);
    rows.zero = workspace_take(space, m, narrow_blocks(k), sizeof *rows.zero);
    rows.part_sums = workspace_take(space, m, 2 * (k / Q4_BLOCK), sizeof *rows.part_sums);
    return rows;
}

size_t linear_workspace_bytes(size_t m, size_t k) {
    struct workspace measured = {0};
    take_quantised_rows(&measured, m, k);
    return measured.used;
}

void linear_apply_outputs(const struct linear *layer, const float *x, size_t m, float *y,
                          size_t first, size_t n, struct workspace space) {
    const struct weight_kind *kind = layer->kind;
    const size_t before = kind->bytes(layer->kernels, first, layer->k);
    struct quantised_rows q = {0};
    if (n == 0)
        return;
    if (kind->quantised) {
        q = take_quantised_rows(&space, m, layer->k);
        (kind->narrow ? layer->kernels->quantise_narrow : layer->kernels->quantise)(x, m, layer->k,
                                                                                    q);
        if (kind->sums)
            sum_parts(q, m, layer->k, kind->sums, layer->kernels->signed_activations);
    }
    kind->product(layer->kernels, x, q, (const unsigned char *)layer->weights + before,
                  layer->bias + first, y + first, layer->n, m, n, layer->k);
}

void linear_apply(const struct linear *layer, const float *x, size_t m, float *y,
                  struct workspace space) {
    linear_apply_outputs(layer, x, m, y, 0, layer->n, space);
    if (layer->tap)
        layer->tap->see(layer->tap->context, x, y, m);
}
