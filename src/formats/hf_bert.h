/* SPDX-License-Identifier: Apache-2.0
 * How Hugging Face's BertModel names things, in GGUF's terms (those of llama.cpp's converter). */
#ifndef WISP_FORMATS_HF_BERT_H
#define WISP_FORMATS_HF_BERT_H

#include "formats/directory.h"
#include "formats/json.h"

/* config.json into general.* and bert.* metadata. `file` is its path, for errors. */
wisp_status hf_bert_read_config(struct directory *dir, const struct json *root, const char *file,
                                wisp_error *error);

/* Gives every tensor its GGUF name and drops the pooler and the training heads, which an embedding
 * does not use. A tensor that is neither known nor droppable is an error: what it would do to the
 * result is not known. */
wisp_status hf_bert_rename_tensors(struct directory *dir, wisp_error *error);

#endif
