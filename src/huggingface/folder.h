/* SPDX-License-Identifier: Apache-2.0
 * A Hugging Face or sentence-transformers folder, read into the same directory as a GGUF file. */
#ifndef WISP_HUGGINGFACE_FOLDER_H
#define WISP_HUGGINGFACE_FOLDER_H

#include "base/json.h"
#include "formats/directory.h"

/* Reads config.json, the weights, the tokenizer and the sentence-transformers files of `folder`. */
wisp_status hf_read_folder(struct directory *dir, const char *folder, wisp_error *error);

/* The part that reads tokenizer.json, or vocab.txt and tokenizer_config.json, into
 * tokenizer.ggml.* and wisp.tokenizer.* metadata. `lowercase_first`: a Lowercase normalizer is to
 * stand before the tokenizer's own, as sentence-transformers 6 honours do_lower_case. */
wisp_status hf_read_tokenizer(struct directory *dir, const char *folder, bool lowercase_first,
                              wisp_error *error);

/* Parses folder/name, which must be a value of `type`, into dir's arena. Where the file is absent:
 * *root is NULL, and that is an error only if it is `required`. */
wisp_status hf_read_json(struct directory *dir, const char *folder, const char *name, bool required,
                         enum json_type type, const struct json **root, wisp_error *error);

#endif
