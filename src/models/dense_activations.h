/* SPDX-License-Identifier: Apache-2.0
 * Activations of the dense layers behind pooling, by the names that files have. */
#ifndef WISP_MODELS_DENSE_ACTIVATIONS_H
#define WISP_MODELS_DENSE_ACTIVATIONS_H

struct dense_activation {
    const char *name;
    float (*of)(float x);
};

extern const struct dense_activation dense_identity, dense_tanh, dense_relu, dense_sigmoid,
    dense_silu, dense_gelu, dense_elu, dense_leaky_relu, dense_softplus, dense_mish, dense_softsign;

/* All of them, for the lists of src/products. */
#define DENSE_ACTIVATIONS                                                                          \
    &dense_identity, &dense_tanh, &dense_relu, &dense_sigmoid, &dense_silu, &dense_gelu,           \
        &dense_elu, &dense_leaky_relu, &dense_softplus, &dense_mish, &dense_softsign

/* Those that this product has (src/products); NULL ends them. */
extern const struct dense_activation *const dense_activations[];

#endif
