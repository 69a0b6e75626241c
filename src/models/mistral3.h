/* SPDX-License-Identifier: Apache-2.0
 * Ministral 3: Llama whose queries grow with their positions, so that attention stays sharp in long
 * texts. Source: Ministral3ForCausalLM of transformers; names of keys and tensors as in llama.cpp's
 * files. */
#ifndef WISP_MODELS_MISTRAL3_H
#define WISP_MODELS_MISTRAL3_H

#include "models/llama.h"

extern const struct architecture architecture_mistral3;

#endif
