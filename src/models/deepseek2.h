/* SPDX-License-Identifier: Apache-2.0
 * GLM-4.7-Flash, in files of architecture deepseek2, as llama.cpp has it: Llama's page with latent
 * attention, and with experts of which one is shared by all tokens. A router's outputs become
 * weights by a sigmoid, and a bias counts for the choice alone. Sources: DeepSeek-AI, DeepSeek-V2
 * (2024) and DeepSeek-V3 (2024); GLM-4.7-Flash (2026). */
#ifndef WISP_MODELS_DEEPSEEK2_H
#define WISP_MODELS_DEEPSEEK2_H

#include "models/llama.h"

extern const struct architecture architecture_deepseek2;

#endif
