/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/encoders.h"

const struct hf_encoder *const hf_encoders[] = {HF_ENCODERS, NULL};
