/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/decoders.h"

const struct hf_decoder *const hf_decoders[] = {
    &hf_llama, &hf_mistral, &hf_qwen2, &hf_qwen3, NULL,
};
