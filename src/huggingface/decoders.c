/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/decoders.h"

const struct hf_decoder *const hf_decoders[] = {
    &hf_llama,       &hf_mistral, &hf_qwen2, &hf_qwen3, &hf_gpt2, &hf_gemma2,
    &hf_gemma3_text, &hf_gemma3,  &hf_lfm2,  &hf_phi3,  NULL,
};
