/* SPDX-License-Identifier: Apache-2.0
 * Phi-3 and Phi-4-mini: Llama, of which Phi-4-mini rotates a part of each head. Files stack
 * queries, keys and values, and gates with W_up; STACKING_PHI3 divides them. Source: Microsoft,
 * Phi-3 Technical Report (2024); names of keys and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_PHI3_H
#define WISP_MODELS_PHI3_H

#include "models/llama.h"

extern const struct architecture architecture_phi3;

/* Its row of `stackings` (formats/stacked.h). */
#define STACKING_PHI3 {"phi3", stacked_divide_qkv}

#endif
