/* SPDX-License-Identifier: Apache-2.0
 * A Hugging Face or sentence-transformers folder, read into the same directory as a GGUF file. */
#ifndef WISP_HUGGINGFACE_FOLDER_H
#define WISP_HUGGINGFACE_FOLDER_H

#include "formats/directory.h"

/* Reads config.json, the weights, the tokenizer and the sentence-transformers files of `folder`.
 * The directory gives what sentence-transformers 6 with transformers 5 computes of the folder. A
 * setting that would change this and that wisp does not have is WISP_ERROR_UNSUPPORTED, and so is
 * one by which versions 4 and 5 of transformers differ. */
wisp_status hf_read_folder(struct directory *dir, const char *folder, wisp_error *error);

/* Reads folders of other architectures, too: config.json into KEY_HUGGINGFACE_CONFIG, and the
 * weights under their own names. There is nothing to compute with such a directory. */
wisp_status hf_read_any_folder(struct directory *dir, const char *folder, wisp_error *error);

/* Reads an encoder's tokenizer.json or vocab.txt, and tokenizer_config.json, into tokenizer.ggml.*
 * and wisp.tokenizer.* metadata. With `lowercase_first` a Lowercase normalizer is before the
 * tokenizer's own, which is how sentence-transformers 6 honours do_lower_case. */
wisp_status hf_read_tokenizer(struct directory *dir, const char *folder, bool lowercase_first,
                              wisp_error *error);

#endif
