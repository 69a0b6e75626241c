/* SPDX-License-Identifier: Apache-2.0
 * Parts of dense feed-forward layers, for kinds that compute some tokens as these do. */
#ifndef WISP_MODELS_FFN_DENSE_H
#define WISP_MODELS_FFN_DENSE_H

#include "models/feed_forward.h"
#include "models/pass.h"

/* Applies the activation to n products of W_up and, if the layer is gated, of W_gate. The result
 * replaces the products of W_gate in a gated layer, and else those of W_up. */
void ffn_activate(const struct kernels *kernels, enum activation activation, float *up, float *gate,
                  size_t n);

/* Does so for a layer of the network. */
static inline void ffn_dense_activate(const struct network *network, float *up, float *gate,
                                      size_t n) {
    ffn_activate(network->kernels, network->config.activation, up, gate, n);
}

/* Does what feed_forward_run_outputs does, for tokens [first, first + tokens). inner and y begin at
 * the first token of the batch. */
void ffn_dense_run_outputs(struct pass *pass, uint32_t member, struct cursor at, size_t first,
                           size_t tokens, float *inner, float *y, struct workspace space);

#endif
