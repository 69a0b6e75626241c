/* SPDX-License-Identifier: Apache-2.0
 * The weights of layers of experts (ffn_experts.c). */
#ifndef WISP_MODELS_FFN_EXPERTS_H
#define WISP_MODELS_FFN_EXPERTS_H

#include "models/network.h"

/* Returns the bytes of weights that are read for a token, of network->resident_bytes and of experts
 * that are read when they are needed. */
uint64_t ffn_experts_read_bytes(const struct network *network);

#endif
