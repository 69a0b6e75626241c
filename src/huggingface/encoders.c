/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoders.h"

const struct hf_encoder *const hf_encoders[] = {
    &hf_jina_bert_v2,
    &hf_bert,
    &hf_roberta,
    &hf_jina_bert_v3,
    &hf_xlm_roberta,
    &hf_camembert,
    &hf_distilbert,
    &hf_mpnet,
    &hf_nomic_bert_moe,
    &hf_nomic_bert,
    &hf_modern_bert,
    &hf_electra,
    &hf_new,
    NULL,
};
