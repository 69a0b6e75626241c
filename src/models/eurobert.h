/* SPDX-License-Identifier: Apache-2.0
 * EuroBERT: an encoder of Llama's layers, whose tokens see all others. Source: Boizard et al.,
 * EuroBERT (2025); names of keys and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_EUROBERT_H
#define WISP_MODELS_EUROBERT_H

#include "models/llama.h"

extern const struct architecture architecture_eurobert;

#endif
