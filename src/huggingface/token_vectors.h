/* SPDX-License-Identifier: Apache-2.0
 * ColBERTs in folders: as sentence-transformers' MultiVectorEncoder saves them, as PyLate does, and
 * as Stanford's ColBERT does, with the projection beside the weights of the encoder and settings in
 * artifact.metadata. */
#ifndef WISP_HUGGINGFACE_TOKEN_VECTORS_H
#define WISP_HUGGINGFACE_TOKEN_VECTORS_H

#include "huggingface/config.h"
#include "huggingface/modules.h"
#include "huggingface/tensor_names.h"

/* Sets *found to whether the folder holds a ColBERT, and adds its settings if so: prompts,
 * wisp.tokens.* and wisp.normalize. Fills modules->dense. Sets *head to the names of the
 * projection if that is beside the encoder's weights. `proper` is the folder of the encoder. */
wisp_status hf_read_token_vectors(struct directory *dir, const char *folder, const char *proper,
                                  const struct hf_config *config, struct hf_modules *modules,
                                  const struct hf_name **head, bool *found, wisp_error *error);

/* Raises wisp.max_seq_length to the longest query or document, whose lengths count more. */
void hf_raise_token_limit(struct directory *dir, struct hf_config *config);

#endif
