/* SPDX-License-Identifier: Apache-2.0
 * The decoders that a Hugging Face folder can hold: each family is a file of this folder, its lines
 * here and in the table of decoders.c. */
#ifndef WISP_HUGGINGFACE_DECODERS_H
#define WISP_HUGGINGFACE_DECODERS_H

#include "huggingface/decoder.h"

extern const struct hf_decoder hf_llama, hf_mistral, hf_qwen2, hf_qwen3, hf_gpt2, hf_gemma2,
    hf_gemma3_text, hf_gemma3, hf_lfm2, hf_phi3;

extern const struct hf_decoder *const hf_decoders[]; /* ends with NULL */

/* Llama's names of tensors, which other families share, and its `adapt`, which makes neighbours of
 * the rows of queries and keys that are rotated as a pair. */
extern const struct hf_name hf_llama_names[], hf_llama_layer_names[];
wisp_status hf_pair_rotary(struct directory *dir, struct tensor *tensor, wisp_error *error);

#endif
