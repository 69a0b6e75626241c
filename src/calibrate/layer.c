/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/layer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/matrix.h"
#include "models/ffn_dense.h"

wisp_status layer_with_text_means(const struct layer *layer, struct arena *scratch,
                                  struct layer *with_means, wisp_error *error) {
    const size_t hidden_size = layer->hidden_size;
    float *rows, *held_out;
    ARENA_TAKE(scratch, rows, layer->tokens * hidden_size, error);
    ARENA_TAKE(scratch, held_out, layer->held_out_tokens * hidden_size, error);
    for (size_t i = 0; i < layer->tokens; i++)
        memcpy(rows + i * hidden_size, layer->text_means + layer->text_of[i] * hidden_size,
               hidden_size * sizeof *rows);
    for (size_t i = 0; i < layer->held_out_tokens; i++)
        memcpy(held_out + i * hidden_size,
               layer->text_means + layer->held_out_text_of[i] * hidden_size,
               hidden_size * sizeof *rows);
    *with_means = *layer;
    with_means->predictor_x = rows;
    with_means->predictor_held_out = held_out;
    return WISP_OK;
}

wisp_status layer_activations(const struct layer *l, size_t first, size_t neurons, const float *x,
                              size_t n, float *a, wisp_error *error) {
    const size_t offset = first * l->hidden_size;
    TRY(matrix_multiply_transposed(l->kernels, x, l->up + offset, a, n, neurons, l->hidden_size,
                                   error));
    for (size_t i = 0; i < n; i++)
        l->kernels->add(a + i * neurons, l->up_bias + first, neurons);
    if (!activation_is_gated(l->activation)) {
        ffn_activate(l->kernels, l->activation, a, NULL, n * neurons);
        return WISP_OK;
    }
    float *gates = malloc(n * neurons * sizeof *gates + 1); /* never of 0 bytes */
    const wisp_status status =
        gates ? matrix_multiply_transposed(l->kernels, x, l->gate + offset, gates, n, neurons,
                                           l->hidden_size, error)
              : fail_memory(error, n * neurons * sizeof *gates);
    if (status == WISP_OK) {
        ffn_activate(l->kernels, l->activation, a, gates, n * neurons);
        memcpy(a, gates, n * neurons * sizeof *a);
    }
    free(gates);
    return status;
}

wisp_status layer_contributions(const struct layer *l, size_t first, size_t neurons, const float *x,
                                size_t n, float *sizes, wisp_error *error) {
    TRY(layer_activations(l, first, neurons, x, n, sizes, error));
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < neurons; j++)
            sizes[i * neurons + j] =
                fabsf(sizes[i * neurons + j] - l->center[first + j]) * l->length[first + j];
    return WISP_OK;
}

wisp_status layer_outputs(const struct layer *l, const float *a, size_t n, float *y,
                          wisp_error *error) {
    return matrix_multiply_transposed(l->kernels, a, l->down, y, n, l->hidden_size,
                                      l->intermediate_size, error);
}
