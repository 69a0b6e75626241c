/* SPDX-License-Identifier: Apache-2.0
 * The activation function between the two matrices of a feed-forward layer. A gated layer has two
 * matrices instead of the first, and applies the function to the products of one: silu(W_gate x) *
 * W_up x. */
#ifndef WISP_KERNELS_ACTIVATION_H
#define WISP_KERNELS_ACTIVATION_H

#include <stdbool.h>

enum activation {
    /* x / (1 + e^(-1.702 x)). It is only in native code: modules are smaller if the others begin
     * with 0. */
    ACTIVATION_QUICK_GELU = -1,
    ACTIVATION_GELU,
    ACTIVATION_RELU,
    ACTIVATION_GELU_TANH,    /* GELU with tanh instead of erf: gelu_new, gelu_pytorch_tanh */
    ACTIVATION_RELU_SQUARED, /* max(x, 0)^2 */
    /* All that follow are gated. */
    ACTIVATION_GATED_SILU,
    ACTIVATION_GATED_RELU,
    ACTIVATION_GATED_RELU_SQUARED,
    ACTIVATION_GATED_GELU_TANH,
    ACTIVATION_GATED_GELU,
    /* g / (1 + e^(-1.702 g)) (u + 1), for a gate g of at most 7 and u between -7 and 7: gpt-oss.
     * Only of experts. */
    ACTIVATION_GATED_SILU_BOUNDED
};

static inline bool activation_is_gated(enum activation activation) {
    return activation >= ACTIVATION_GATED_SILU;
}

/* Returns whether many neurons have an activation of exactly 0. */
static inline bool activation_has_zeros(enum activation activation) {
    return activation == ACTIVATION_RELU || activation == ACTIVATION_RELU_SQUARED ||
           activation == ACTIVATION_GATED_RELU || activation == ACTIVATION_GATED_RELU_SQUARED;
}

#endif
