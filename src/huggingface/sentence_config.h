/* SPDX-License-Identifier: Apache-2.0
 * The settings of sentence-transformers, which it reads where there is a modules.json, and the
 * limit of tokens. */
#ifndef WISP_HUGGINGFACE_SENTENCE_CONFIG_H
#define WISP_HUGGINGFACE_SENTENCE_CONFIG_H

#include "formats/directory.h"

/* Reads config_sentence_transformers.json of the model's folder: adds prompts, the default prompt
 * and wisp.dimensions. */
wisp_status hf_read_sentence_model(struct directory *dir, const char *folder, wisp_error *error);

/* Reads sentence_bert_config.json (`has_modules`) and the limit that tokenizer_config.json has, of
 * the folder of the Transformer: adds wisp.max_seq_length. `*lowercase_first`: a Lowercase
 * normalizer is to stand before the tokenizer's own. */
wisp_status hf_read_sentence_transformer(struct directory *dir, const char *folder,
                                         bool has_modules, bool *lowercase_first,
                                         wisp_error *error);

#endif
