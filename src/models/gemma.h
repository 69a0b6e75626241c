/* SPDX-License-Identifier: Apache-2.0
 * The Gemma decoder, versions 2 and 3 (text): RMS norms before and after blocks, rotary positions,
 * grouped-query attention, layers that see only near tokens between layers that see all,
 * feed-forward layers gated by GELU with tanh, no biases. Gemma 2 bounds scores and logits softly.
 * Gemma 3 normalises the queries and keys of each head, and rotates its local layers by a theta of
 * their own. gemma-embedding is Gemma 3 whose tokens see all others. Sources: Gemma Team, Gemma 2
 * (2024) and Gemma 3 (2025); names of keys and tensors as in llama.cpp's files, whose norms hold 1
 * + weight. */
#ifndef WISP_MODELS_GEMMA_H
#define WISP_MODELS_GEMMA_H

#include "models/llama.h"

extern const struct architecture architecture_gemma2, architecture_gemma3,
    architecture_gemma_embedding;

#endif
