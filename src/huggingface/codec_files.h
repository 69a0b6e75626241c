/* SPDX-License-Identifier: Apache-2.0
 * The tokenizer of a folder as metadata for a codec: a decoder's, or an encoder's that is no
 * WordPiece. */
#ifndef WISP_HUGGINGFACE_CODEC_FILES_H
#define WISP_HUGGINGFACE_CODEC_FILES_H

#include "huggingface/config.h"

/* Returns whether a folder has a spm.model and no tokenizer.json. */
bool hf_has_only_deberta_file(const char *folder);

/* Adds tokenizer.ggml.* and wisp.tokenizer.* with `vocabulary_size` tokens. If the model embeds, a
 * token may follow each text. Reads tokenizer.json, else tokenizer.model, else DeBERTa's spm.model,
 * else vocab.json and merges.txt, else tekken.json; and beside them tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json, generation_config.json and chat_template.jinja, if
 * they exist. Texts have the ids that Hugging Face's tokenizers gives them when it is asked not to
 * find special tokens in a text. */
wisp_status hf_read_codec(struct directory *dir, const char *folder, const struct hf_config *config,
                          uint32_t vocabulary_size, bool embeds, wisp_error *error);

#endif
