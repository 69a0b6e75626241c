/* SPDX-License-Identifier: Apache-2.0
 * The encoders that a Hugging Face folder can hold: each is a file of this folder, and a
 * declaration and a row of the list here. */
#ifndef WISP_HUGGINGFACE_ENCODERS_H
#define WISP_HUGGINGFACE_ENCODERS_H

#include "huggingface/encoder.h"

extern const struct hf_encoder hf_bert;
extern const struct hf_encoder hf_roberta, hf_xlm_roberta, hf_camembert;
extern const struct hf_encoder hf_distilbert, hf_mpnet;
extern const struct hf_encoder hf_electra, hf_modern_bert, hf_deberta_v2;
extern const struct hf_encoder hf_new;        /* of Alibaba: gte-v1.5, gte-multilingual */
extern const struct hf_encoder hf_nomic_bert; /* Nomic's own spelling and that of transformers */
extern const struct hf_encoder hf_nomic_bert_moe;
extern const struct hf_encoder hf_jina_bert_v2, hf_jina_bert_v3;

#define HF_ENCODERS                                                                                \
    &hf_jina_bert_v2, &hf_bert, &hf_roberta, &hf_jina_bert_v3, &hf_xlm_roberta, &hf_camembert,     \
        &hf_distilbert, &hf_mpnet, &hf_nomic_bert_moe, &hf_nomic_bert, &hf_modern_bert,            \
        &hf_electra, &hf_deberta_v2, &hf_new

extern const struct hf_encoder *const hf_encoders[]; /* ends with NULL */

#endif
