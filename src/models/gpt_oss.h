/* SPDX-License-Identifier: Apache-2.0
 * gpt-oss: Llama's page with experts whose matrices have biases, and with sinks in attention: a
 * value for each head that takes part in the softmax as a key without a value does. Source: OpenAI,
 * gpt-oss-120b & gpt-oss-20b model card (2025); names of keys and tensors as in llama.cpp's files.
 */
#ifndef WISP_MODELS_GPT_OSS_H
#define WISP_MODELS_GPT_OSS_H

#include "models/llama.h"

extern const struct architecture architecture_gpt_oss;

#endif
