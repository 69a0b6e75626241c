/* SPDX-License-Identifier: Apache-2.0 */
#include "sparse/layer.h"

#include "sparse/matrix.h"

wisp_status layer_activations(const struct layer_sample *s, const float *x, size_t n, float *a,
                              wisp_error *error) {
    if (!matrix_multiply_transposed(s->kernels, x, s->up, a, n, s->wide, s->hidden))
        return fail_memory(error, s->wide * s->hidden * sizeof(float));
    for (size_t i = 0; i < n; i++)
        s->kernels->add(a + i * s->wide, s->up_bias, s->wide);
    if (s->relu)
        s->kernels->relu(a, n * s->wide);
    else
        s->kernels->gelu(a, n * s->wide);
    return WISP_OK;
}

wisp_status layer_outputs(const struct layer_sample *s, const float *a, size_t n, float *y,
                          wisp_error *error) {
    if (!matrix_multiply_transposed(s->kernels, a, s->down, y, n, s->hidden, s->wide))
        return fail_memory(error, s->hidden * s->wide * sizeof(float));
    return WISP_OK;
}
