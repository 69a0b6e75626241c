/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/layer_sample.h"

#include <stdlib.h>
#include <string.h>

#include "calibrate/matrix.h"

/* a [n, neurons]: what W_up has made of x becomes silu(x W_gate^T) times that. */
static bool open_gates(const struct layer_sample *s, size_t first, size_t neurons, const float *x,
                       size_t n, float *a) {
    float *gates = malloc(n * neurons * sizeof *gates + 1); /* never of 0 bytes */
    const bool good =
        gates && matrix_multiply_transposed(s->kernels, x, s->gate + first * s->hidden, gates, n,
                                            neurons, s->hidden);
    if (good) {
        s->kernels->silu_mul(gates, a, n * neurons);
        memcpy(a, gates, n * neurons * sizeof *a);
    }
    free(gates);
    return good;
}

wisp_status layer_some_activations(const struct layer_sample *s, size_t first, size_t neurons,
                                   const float *x, size_t n, float *a, wisp_error *error) {
    if (!matrix_multiply_transposed(s->kernels, x, s->up + first * s->hidden, a, n, neurons,
                                    s->hidden))
        return fail_memory(error, neurons * s->hidden * sizeof(float));
    for (size_t i = 0; i < n; i++)
        s->kernels->add(a + i * neurons, s->up_bias + first, neurons);
    switch (s->activation) {
    case ACTIVATION_GELU:
        s->kernels->gelu(a, n * neurons);
        break;
    case ACTIVATION_RELU:
        s->kernels->relu(a, n * neurons);
        break;
    case ACTIVATION_GATED_SILU:
        if (!open_gates(s, first, neurons, x, n, a))
            return fail_memory(error, neurons * (s->hidden + n) * sizeof(float));
    }
    return WISP_OK;
}

wisp_status layer_activations(const struct layer_sample *s, const float *x, size_t n, float *a,
                              wisp_error *error) {
    return layer_some_activations(s, 0, s->wide, x, n, a, error);
}

wisp_status layer_outputs(const struct layer_sample *s, const float *a, size_t n, float *y,
                          wisp_error *error) {
    if (!matrix_multiply_transposed(s->kernels, a, s->down, y, n, s->hidden, s->wide))
        return fail_memory(error, s->hidden * s->wide * sizeof(float));
    return WISP_OK;
}

/* [n, hidden]: row i is means[texts[i]]. */
static float *rows_of_texts(const struct layer_sample *s, const uint32_t *texts, size_t n) {
    float *rows = malloc(n * s->hidden * sizeof *rows + 1); /* never of 0 bytes */
    for (size_t i = 0; rows && i < n; i++)
        memcpy(rows + i * s->hidden, s->means + texts[i] * s->hidden, s->hidden * sizeof *rows);
    return rows;
}

wisp_status layer_see_texts(const struct layer_sample *s, struct layer_sample *seeing,
                            wisp_error *error) {
    *seeing = *s;
    seeing->seen = rows_of_texts(s, s->texts, s->tokens);
    seeing->held_out_seen = rows_of_texts(s, s->held_out_texts, s->held_out_tokens);
    return seeing->seen && seeing->held_out_seen
               ? WISP_OK
               : fail_memory(error, s->tokens * s->hidden * sizeof(float));
}

void layer_forget_texts(struct layer_sample *seeing) {
    free(seeing->seen);
    free(seeing->held_out_seen);
    *seeing = (struct layer_sample){0};
}

/* Row i of w [n, k] becomes the one that was order[i]-th. */
static bool reorder_rows(float *w, size_t n, size_t k, const int32_t *order) {
    float *copy = malloc(n * k * sizeof *copy);
    if (!copy)
        return false;
    memcpy(copy, w, n * k * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        memcpy(w + i * k, copy + (size_t)order[i] * k, k * sizeof *w);
    free(copy);
    return true;
}

static bool reorder_columns(float *w, size_t rows, size_t n, const int32_t *order) {
    for (size_t i = 0; i < rows; i++)
        if (!reorder_rows(w + i * n, n, 1, order))
            return false;
    return true;
}

wisp_status layer_reorder(struct layer_sample *s, const int32_t *order, wisp_error *error) {
    const bool good = reorder_rows(s->up, s->wide, s->hidden, order) &&
                      reorder_rows(s->up_bias, s->wide, 1, order) &&
                      (!s->gate || reorder_rows(s->gate, s->wide, s->hidden, order)) &&
                      reorder_columns(s->down, s->hidden, s->wide, order);
    return good ? WISP_OK : fail_memory(error, s->wide * s->hidden * sizeof(float));
}
