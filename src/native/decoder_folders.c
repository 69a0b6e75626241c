/* SPDX-License-Identifier: Apache-2.0
 * The families of decoders that native programs and the program for Node open from folders. The
 * addon, which has the tables of products/native.c too, opens no folders. */
#include "huggingface/decoders.h"

const struct hf_decoder *const hf_decoders[] = {HF_DECODERS, HF_NATIVE_DECODERS, NULL};
