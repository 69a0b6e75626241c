/* SPDX-License-Identifier: Apache-2.0
 * The weights that layers leave unread if they choose neurons by their gates (ffn_gate.c). */
#ifndef WISP_MODELS_FFN_GATE_H
#define WISP_MODELS_FFN_GATE_H

#include "models/network.h"

/* Returns the largest rank of a predictor of so many neurons. */
size_t ffn_gate_most_rank(size_t neurons);

/* Returns how many bytes of the network's weights are not read for a token that is generated, of
 * which the layers compute so many neurons together, and so many to the end. 0 if no layer chooses
 * by its gates. */
uint64_t ffn_gate_unread_bytes(const struct network *network, uint64_t computed,
                               uint64_t contributing);

#endif
