/* SPDX-License-Identifier: Apache-2.0
 * Decoders that are Llama's page with experts in their feed-forward layers: Qwen3-MoE, OLMoE and
 * Granite-MoE. Sources: Qwen Team, Qwen3 (2025); Muennighoff et al., OLMoE (2024); Granite Team,
 * Granite 3.0 (2024); names of keys and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_LLAMA_EXPERTS_H
#define WISP_MODELS_LLAMA_EXPERTS_H

#include "models/llama.h"

extern const struct architecture architecture_qwen3moe, architecture_olmoe, architecture_granitemoe;

#endif
