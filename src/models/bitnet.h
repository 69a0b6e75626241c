/* SPDX-License-Identifier: Apache-2.0
 * BitNet b1.58: Llama's page with gates of squared ReLU (of SiLU in files of architecture bitnet),
 * and RMS norms of what W_o and W_down read. Its matrices are ternary, which is a matter of their
 * types. Sources: Ma et al., The Era of 1-bit LLMs (2024); Ma et al., BitNet b1.58 2B4T (2025);
 * names of keys and tensors as in BitNet's files. */
#ifndef WISP_MODELS_BITNET_H
#define WISP_MODELS_BITNET_H

#include "models/llama.h"

extern const struct architecture architecture_bitnet, architecture_bitnet_b158;

#endif
