/* SPDX-License-Identifier: Apache-2.0
 * GLM-4 of April 2025: Llama with norms before and after blocks, of whose heads a part is rotated.
 * Source: Glm4ForCausalLM of transformers; names of keys and tensors as in llama.cpp's files, which
 * stack W_gate on W_up. */
#ifndef WISP_MODELS_GLM4_H
#define WISP_MODELS_GLM4_H

#include "models/llama.h"

extern const struct architecture architecture_glm4;

/* Its row of `stackings` (formats/stacked.h). */
#define STACKING_GLM4 {"glm4", stacked_divide_gates}

#endif
