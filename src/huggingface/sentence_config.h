/* SPDX-License-Identifier: Apache-2.0
 * The settings of sentence-transformers, which it reads if there is a modules.json, and the
 * limit of tokens. */
#ifndef WISP_HUGGINGFACE_SENTENCE_CONFIG_H
#define WISP_HUGGINGFACE_SENTENCE_CONFIG_H

#include "formats/directory.h"

/* Reads config_sentence_transformers.json of the model's folder: adds prompts, the default prompt
 * and wisp.dimensions. `guesses`: the model is a SPLADE, whose head guesses words. */
wisp_status hf_read_sentence_model(struct directory *dir, const char *folder, bool guesses,
                                   wisp_error *error);

/* The settings of the folder of the Transformer, beside its config.json. */
struct hf_sentence {
    bool lowercase_first;    /* a Lowercase normalizer is to be before the tokenizer's own */
    uint32_t max_seq_length; /* of sentence_bert_config.json; 0 if it has none */
};

/* Reads sentence_bert_config.json, which counts only with a modules.json, and the limit of tokens
 * in tokenizer_config.json, which counts if the former has none: adds wisp.max_seq_length.
 * `pooling` is the number of pooling_type; a ColBERT may have settings of its own there. */
wisp_status hf_read_sentence_transformer(struct directory *dir, const char *folder,
                                         bool has_modules, uint32_t pooling,
                                         struct hf_sentence *sentence, wisp_error *error);

#endif
