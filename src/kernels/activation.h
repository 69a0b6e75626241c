/* SPDX-License-Identifier: Apache-2.0
 * The activation function between the two matrices of a feed-forward layer. */
#ifndef WISP_KERNELS_ACTIVATION_H
#define WISP_KERNELS_ACTIVATION_H

enum activation {
    ACTIVATION_GELU,
    ACTIVATION_RELU,
    ACTIVATION_GATED_SILU /* silu(W_gate x) * W_up x */
};

#endif
