/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer of a decoder's folder, as metadata for a codec. */
#ifndef WISP_HUGGINGFACE_CODEC_FILES_H
#define WISP_HUGGINGFACE_CODEC_FILES_H

#include "huggingface/config.h"

/* Reads tokenizer.json, or where there is none tokenizer.model, or vocab.json and merges.txt;
 * tokenizer_config.json and
 * generation_config.json: adds tokenizer.ggml.* and wisp.tokenizer.*, with `vocabulary_size`
 * tokens. Texts get the ids that Hugging Face tokenizers gives them, which does not find special
 * tokens in a text when it is asked not to. */
wisp_status hf_read_codec(struct directory *dir, const char *folder, const struct hf_config *config,
                          uint32_t vocabulary_size, wisp_error *error);

#endif
