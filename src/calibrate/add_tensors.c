/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/add_tensors.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/matrix.h"
#include "formats/schema.h"

wisp_status tensor_adder_open(struct tensor_adder *a, struct directory *dir, size_t floats,
                              wisp_error *error) {
    *a = (struct tensor_adder){.dir = dir, .capacity = floats * sizeof(float), .error = error};
    a->data = malloc(a->capacity);
    if (!a->data)
        return fail_memory(error, a->capacity);
    const wisp_source memory = {.size = a->capacity,
                                .data = a->data,
                                .close = free,
                                .context = a->data,
                                .name = "calibration"};
    return directory_add_source(dir, &memory, &a->source, error);
}

static wisp_status add(struct tensor_adder *a, size_t layer, const char *part, const char *suffix,
                       const float *values, size_t rows, size_t columns,
                       const struct block_format *format) {
    const size_t n = rows * columns, bytes = n / format->elements * format->bytes;
    char name[TENSOR_NAME_BYTES];
    struct tensor *tensor;
    layer_tensor_name(name, layer, part, suffix);
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

wisp_status tensor_add_floats(struct tensor_adder *a, size_t layer, const char *part,
                              const char *suffix, const float *values, size_t rows,
                              size_t columns) {
    return add(a, layer, part, suffix, values, rows, columns, block_format_by_id(BLOCK_F32));
}

wisp_status tensor_add_transposed(struct tensor_adder *a, size_t layer, const char *part,
                                  const float *w, size_t rows, size_t columns,
                                  const struct block_format *format) {
    float *transposed;
    ARENA_TAKE(&a->scratch, transposed, rows * columns, a->error);
    matrix_transpose(w, columns, rows, transposed);
    const wisp_status status =
        add(a, layer, part, TENSOR_WEIGHT, transposed, rows, columns, format);
    arena_release(&a->scratch);
    return status;
}

const struct predictor_names predictor_of_tokens = {TENSOR_PREDICTOR_P, TENSOR_PREDICTOR_Q,
                                                    TENSOR_THRESHOLDS},
                             predictor_of_texts = {TENSOR_SENTENCE_P, TENSOR_SENTENCE_Q,
                                                   TENSOR_SENTENCE_THRESHOLDS};

wisp_status tensor_add_predictor(struct tensor_adder *a, size_t layer,
                                 const struct predictor_names *names, const struct predictor *p,
                                 const struct predictor_formats *formats, const float *thresholds,
                                 size_t levels) {
    const size_t width = p->intermediate_size;
    TRY(tensor_add_transposed(a, layer, names->p, p->p, p->rank, p->hidden_size, formats->p));
    TRY(tensor_add_floats(a, layer, names->p, TENSOR_BIAS, p->p_bias, 1, p->rank));
    TRY(tensor_add_transposed(a, layer, names->q, p->q, width, p->rank, formats->q));
    TRY(tensor_add_floats(a, layer, names->q, TENSOR_BIAS, p->q_bias, 1, width));
    return tensor_add_floats(a, layer, names->thresholds, "", thresholds, levels, width);
}
