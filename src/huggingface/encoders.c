/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoders.h"

const struct hf_encoder *const hf_encoders[] = {
    &hf_bert,       &hf_roberta,     &hf_xlm_roberta, &hf_camembert, &hf_distilbert, &hf_mpnet,
    &hf_nomic_bert, &hf_modern_bert, &hf_electra,     &hf_new,       NULL,
};
