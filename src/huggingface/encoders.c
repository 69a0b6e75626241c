/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoders.h"

const struct hf_encoder *const hf_encoders[] = {
    &hf_bert,
    &hf_nomic_bert,
    NULL,
};
