/* SPDX-License-Identifier: Apache-2.0
 * Llama with numbers that multiply token embeddings, scores, the outputs of blocks and logits:
 * Granite 3, dense, and MiniCPM. Sources: Granite Team, Granite 3.0 (2024); Hu et al., MiniCPM
 * (2024); names of keys as in llama.cpp's files. */
#ifndef WISP_MODELS_GRANITE_H
#define WISP_MODELS_GRANITE_H

#include "models/llama.h"

extern const struct architecture architecture_granite, architecture_minicpm;

#endif
