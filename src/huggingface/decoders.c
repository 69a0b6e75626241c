/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/decoders.h"

/* If two families have one type, the one with is_bidirectional comes first. */
const struct hf_decoder *const hf_decoders[] = {
    &hf_llama,
    &hf_mistral,
    &hf_qwen2,
    &hf_qwen3,
    &hf_gpt2,
    &hf_gemma2,
    &hf_gemma_embedding,
    &hf_gemma3_text,
    &hf_gemma3,
    &hf_lfm2_embedding,
    &hf_lfm2,
    &hf_lfm2_bidirectional,
    &hf_phi3,
    &hf_granite,
    &hf_olmo2,
    &hf_olmo3,
    &hf_smollm3,
    &hf_mistral3,
    &hf_starcoder2,
    &hf_gpt_neox,
    &hf_stablelm,
    &hf_qwen3_moe,
    &hf_olmoe,
    &hf_granite_moe,
    &hf_lfm2_moe,
    NULL,
};
