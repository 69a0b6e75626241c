/* SPDX-License-Identifier: Apache-2.0
 * SmolLM3: Llama whose every fourth layer does not rotate queries and keys. Source: Hugging Face,
 * SmolLM3 (2025); names of keys and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_SMOLLM3_H
#define WISP_MODELS_SMOLLM3_H

#include "models/llama.h"

extern const struct architecture architecture_smollm3;

#endif
