/* SPDX-License-Identifier: Apache-2.0
 * The weights that layers leave unread if they choose neurons by their gates (ffn_gate.c). */
#ifndef WISP_MODELS_FFN_GATE_H
#define WISP_MODELS_FFN_GATE_H

#include "models/network.h"

/* Returns the largest rank of a predictor of so many neurons. */
size_t ffn_gate_most_rank(size_t neurons);

#endif
