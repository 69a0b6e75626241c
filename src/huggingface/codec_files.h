/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer of a decoder's folder, as metadata for a codec. */
#ifndef WISP_HUGGINGFACE_CODEC_FILES_H
#define WISP_HUGGINGFACE_CODEC_FILES_H

#include "huggingface/config.h"

/* Adds tokenizer.ggml.* and wisp.tokenizer.* with `vocabulary_size` tokens. Reads tokenizer.json,
 * else tokenizer.model, else vocab.json and merges.txt; and beside them tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json, generation_config.json and chat_template.jinja, where
 * they exist. Texts get the ids that Hugging Face's tokenizers gives them when it is asked not to
 * find special tokens in a text. */
wisp_status hf_read_codec(struct directory *dir, const char *folder, const struct hf_config *config,
                          uint32_t vocabulary_size, wisp_error *error);

#endif
