/* SPDX-License-Identifier: Apache-2.0
 * OLMo 2 and 3: Llama with RMS norms after blocks instead of before, and norms of the
 * queries and keys of all heads together. In OLMo 3 three of four layers see only near tokens, and
 * scale no positions. Sources: Team OLMo, 2 OLMo 2 Furious (2024) and Olmo 3 (2025); names of keys
 * and tensors as in llama.cpp's files, which call both olmo2. */
#ifndef WISP_MODELS_OLMO2_H
#define WISP_MODELS_OLMO2_H

#include "models/llama.h"

extern const struct architecture architecture_olmo2;

#endif
