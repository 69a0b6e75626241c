/* SPDX-License-Identifier: Apache-2.0
 * The decoders that a Hugging Face folder can hold: each family is a file of this folder, and its
 * lines here. */
#ifndef WISP_HUGGINGFACE_DECODERS_H
#define WISP_HUGGINGFACE_DECODERS_H

#include "huggingface/decoder.h"

extern const struct hf_decoder hf_llama, hf_mistral, hf_mistral3, hf_qwen2, hf_qwen3, hf_gpt2,
    hf_gemma2, hf_gemma_embedding, hf_gemma3_text, hf_gemma3, hf_lfm2_embedding, hf_lfm2,
    hf_lfm2_bidirectional, hf_phi3, hf_granite, hf_olmo2, hf_olmo3, hf_smollm3, hf_starcoder2,
    hf_gpt_neox, hf_stablelm, hf_qwen3_moe, hf_olmoe, hf_granite_moe, hf_lfm2_moe, hf_minicpm,
    hf_ministral3, hf_glm4, hf_eurobert, hf_gpt_oss, hf_bitnet, hf_glm4_moe_lite, hf_granite_hybrid,
    hf_clip, hf_clip_text, hf_siglip, hf_siglip_text;

/* How the names of tensors begin that belong to the parts of a model that read images. */
extern const char *const hf_of_images[];

/* If two families have one type, the one with is_bidirectional comes first. */
#define HF_DECODERS                                                                                \
    &hf_llama, &hf_mistral, &hf_qwen2, &hf_qwen3, &hf_gpt2, &hf_gemma2, &hf_gemma_embedding,       \
        &hf_gemma3_text, &hf_gemma3, &hf_lfm2_embedding, &hf_lfm2, &hf_lfm2_bidirectional,         \
        &hf_phi3, &hf_granite, &hf_olmo2, &hf_olmo3, &hf_smollm3, &hf_mistral3, &hf_starcoder2,    \
        &hf_gpt_neox, &hf_stablelm, &hf_qwen3_moe, &hf_olmoe, &hf_granite_moe, &hf_lfm2_moe,       \
        &hf_minicpm, &hf_ministral3, &hf_glm4, &hf_eurobert

/* Those that the module of pages which converts leaves out. */
#define HF_NATIVE_DECODERS                                                                         \
    &hf_gpt_oss, &hf_bitnet, &hf_clip, &hf_clip_text, &hf_siglip, &hf_siglip_text,                 \
        &hf_glm4_moe_lite, &hf_granite_hybrid

/* The families of this product (src/products); NULL ends them. */
extern const struct hf_decoder *const hf_decoders[];

/* Llama's names of tensors, which other families share, and its `adapt`, which makes neighbours of
 * the rows of queries and keys that are rotated as a pair. */
extern const struct hf_name hf_llama_names[], hf_llama_layer_names[];
extern const struct hf_name hf_biased_norm_names[]; /* starcoder2.c: hf_llama_names, but the last
                                                       norm has a bias */
wisp_status hf_pair_rotary(struct directory *dir, struct tensor *tensor, wisp_error *error);

#endif
