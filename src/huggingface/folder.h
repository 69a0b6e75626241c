/* SPDX-License-Identifier: Apache-2.0
 * A Hugging Face or sentence-transformers folder, read into the same directory as a GGUF file. */
#ifndef WISP_HUGGINGFACE_FOLDER_H
#define WISP_HUGGINGFACE_FOLDER_H

#include "base/json.h"
#include "formats/directory.h"

/* Reads config.json, the weights, the tokenizer and the sentence-transformers files of `folder`.
 * What it gives is what sentence-transformers 6 with transformers 5 computes of the folder. A
 * setting that would change this and that wisp does not have is WISP_ERROR_UNSUPPORTED, and so is
 * one by which versions 4 and 5 of transformers differ. */
wisp_status hf_read_folder(struct directory *dir, const char *folder, wisp_error *error);

/* The part that reads tokenizer.json, or vocab.txt, and tokenizer_config.json, into
 * tokenizer.ggml.* and wisp.tokenizer.* metadata. `lowercase_first`: a Lowercase normalizer is to
 * stand before the tokenizer's own, as sentence-transformers 6 honours do_lower_case. */
wisp_status hf_read_tokenizer(struct directory *dir, const char *folder, bool lowercase_first,
                              wisp_error *error);

/* ---- for the readers of single files -------------------------------------------------------- */

enum { HF_PATH_BYTES = 4096 };

/* Parses folder/name, which must be a value of `type`, into dir's arena. Where the file is absent:
 * *root is NULL, and that is an error only if it is `required`. */
wisp_status hf_read_json(struct directory *dir, const char *folder, const char *name, bool required,
                         enum json_type type, const struct json **root, wisp_error *error);

/* Returns folder/file as errors name it, in a buffer of HF_PATH_BYTES. */
const char *hf_path_of(char *path, const char *folder, const char *file);

/* Reports a value of a JSON file that has not the type it must have: "`wanted` belongs here". */
wisp_status hf_wrong_value(const char *folder, const char *file, const char *field,
                           const char *wanted, wisp_error *error);

/* Returns how errors show a value; "(none)" for NULL. */
const char *hf_shown(const struct json *value);

/* Whether this is a name within a folder: no file may make us read files elsewhere. */
bool hf_is_plain_name(const char *name);

#endif
