/* SPDX-License-Identifier: Apache-2.0
 * GPT-NeoX (also Pythia) and StableLM: layer norms before blocks, rotary positions of a
 * part of each head. GPT-NeoX has biases and GELU, and as a rule both blocks of a layer read the
 * same hidden states. StableLM has gated SiLU layers and biases of queries, keys and values or
 * none. Sources: Black et al., GPT-NeoX-20B (2022); Bellagente et al., Stable LM 2 (2024); names of
 * keys and tensors as in llama.cpp's files. */
#ifndef WISP_MODELS_GPT_NEOX_H
#define WISP_MODELS_GPT_NEOX_H

#include "models/gpt2.h"

extern const struct architecture architecture_gptneox, architecture_stablelm;

#endif
