/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/layer.h"

#include <stdlib.h>
#include <string.h>

#include "sparse/matrix.h"

/* a [n, wide]: what W_up has made of x becomes silu(x W_gate^T) times that. */
static bool open_gates(const struct layer_sample *s, const float *x, size_t n, float *a) {
    float *gates = malloc(n * s->wide * sizeof *gates + 1); /* never of 0 bytes */
    const bool good =
        gates && matrix_multiply_transposed(s->kernels, x, s->gate, gates, n, s->wide, s->hidden);
    if (good) {
        s->kernels->silu_mul(gates, a, n * s->wide);
        memcpy(a, gates, n * s->wide * sizeof *a);
    }
    free(gates);
    return good;
}

wisp_status layer_activations(const struct layer_sample *s, const float *x, size_t n, float *a,
                              wisp_error *error) {
    if (!matrix_multiply_transposed(s->kernels, x, s->up, a, n, s->wide, s->hidden))
        return fail_memory(error, s->wide * s->hidden * sizeof(float));
    for (size_t i = 0; i < n; i++)
        s->kernels->add(a + i * s->wide, s->up_bias, s->wide);
    switch (s->activation) {
    case ACTIVATION_GELU:
        s->kernels->gelu(a, n * s->wide);
        break;
    case ACTIVATION_RELU:
        s->kernels->relu(a, n * s->wide);
        break;
    case ACTIVATION_GATED_SILU:
        if (!open_gates(s, x, n, a))
            return fail_memory(error, s->wide * (s->hidden + n) * sizeof(float));
    }
    return WISP_OK;
}

wisp_status layer_outputs(const struct layer_sample *s, const float *a, size_t n, float *y,
                          wisp_error *error) {
    if (!matrix_multiply_transposed(s->kernels, a, s->down, y, n, s->hidden, s->wide))
        return fail_memory(error, s->hidden * s->wide * sizeof(float));
    return WISP_OK;
}
