/* SPDX-License-Identifier: Apache-2.0
 * safetensors. Source: the format's description (huggingface/safetensors). */
#ifndef WISP_HUGGINGFACE_SAFETENSORS_H
#define WISP_HUGGINGFACE_SAFETENSORS_H

#include "formats/directory.h"

/* Adds the tensors of source `index` of `dir` under the names that they have in the file. Every
 * byte after the header must belong to exactly one tensor. */
wisp_status safetensors_read(struct directory *dir, uint32_t index, wisp_error *error);

#endif
