/* SPDX-License-Identifier: Apache-2.0
 * Builds the folder of a tiny Llama in memory, with each kind of tokenizer. */
#ifndef TESTS_DECODER_FOLDER_H
#define TESTS_DECODER_FOLDER_H

#include "support/folder.h"

enum decoder_tokenizer {
    TOKENIZER_BYTE_LEVEL,    /* tokenizer.json: the pattern of Llama 3 */
    TOKENIZER_SENTENCEPIECE, /* tokenizer.json: BPE with byte tokens and Metaspace */
    TOKENIZER_UNIGRAM,       /* tokenizer.json */
    TOKENIZER_MODEL_BPE,     /* tokenizer.model */
    TOKENIZER_MODEL_UNIGRAM, /* tokenizer.model, with a character map that makes A of a */
    DECODER_TOKENIZERS
};

/* Ids of the folders with a tokenizer.json. Pieces follow the 256 byte tokens. */
enum {
    DECODER_TOKENS = 300, /* vocab_size, of which the last have no texts */
    BYTE_LEVEL_END = 263, /* "<|endoftext|>" */
    BYTE_LEVEL_TOOL,      /* "<tool>", which is user-defined */
    SENTENCEPIECE_SPACE = 259
};

/* config.json, model.safetensors, tokenizer_config.json, generation_config.json, and tokenizer.json
 * or tokenizer.model with added_tokens.json. */
void decoder_folder_make(struct folder *folder, enum decoder_tokenizer tokenizer);

#endif
