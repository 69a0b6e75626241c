/* SPDX-License-Identifier: Apache-2.0
 * The encoders that a Hugging Face folder can hold. */
#ifndef WISP_HUGGINGFACE_HF_BERT_H
#define WISP_HUGGINGFACE_HF_BERT_H

#include "huggingface/hf_encoder.h"

extern const struct hf_encoder hf_bert;

/* Nomic's, whose config.json has names of GPT-2's, and the same as transformers spells them. */
extern const struct hf_encoder hf_nomic_bert;

#endif
