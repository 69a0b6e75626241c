/* SPDX-License-Identifier: Apache-2.0
 * Builds the folders of tiny decoders in memory: of a Llama with each kind of tokenizer, and of the
 * other families. */
#ifndef TESTS_DECODER_FOLDER_H
#define TESTS_DECODER_FOLDER_H

#include "support/folder.h"

enum decoder_tokenizer {
    TOKENIZER_BYTE_LEVEL,    /* tokenizer.json: the pattern of Llama 3 */
    TOKENIZER_SENTENCEPIECE, /* tokenizer.json: BPE with byte tokens and Metaspace */
    TOKENIZER_UNIGRAM,       /* tokenizer.json */
    TOKENIZER_MODEL_BPE,     /* tokenizer.model */
    TOKENIZER_MODEL_UNIGRAM, /* tokenizer.model, with a character map that makes A of a */
    TOKENIZER_VOCAB,         /* vocab.json and merges.txt: the byte-level one, of GPT-2's class */
    TOKENIZER_TEKKEN,        /* tekken.json: the byte-level one, behind four special tokens */
    DECODER_TOKENIZERS
};

/* Ids of the folders with a tokenizer.json. Pieces follow the 256 byte tokens. */
enum {
    FOLDER_TOKENS = 300,  /* vocab_size, of which the last have no texts */
    BYTE_LEVEL_END = 263, /* "<|endoftext|>" */
    BYTE_LEVEL_TOOL,      /* "<tool>", which is user-defined */
    SENTENCEPIECE_SPACE = 259
};

/* The families of decoders beside Llama's. */
enum decoder_family {
    FAMILY_GPT2,
    FAMILY_GEMMA2,
    FAMILY_GEMMA3_TEXT,
    FAMILY_GEMMA3, /* with a tensor of the part that reads images */
    FAMILY_LFM2,   /* its second layer has attention, its first a convolution */
    FAMILY_PHI3,
    FAMILY_BITNET,         /* packed matrices */
    FAMILY_BITNET_FLOATS,  /* of which matrices are made ternary */
    FAMILY_QWEN3_MOE,      /* two experts, with tensors of their own */
    FAMILY_LFM2_MOE,       /* LFM2's layers, and two experts that a bias helps to choose */
    FAMILY_GRANITE_MOE,    /* two experts, stacked */
    FAMILY_GPT_OSS,        /* two experts, stacked, of floats */
    FAMILY_GPT_OSS_PACKED, /* in MXFP4 */
    FAMILY_GLM4_MOE_LITE,  /* latent attention, two experts and a shared one */
    FAMILY_GRANITE_HYBRID, /* attention in all layers, and no experts */
    DECODER_FAMILIES
};

/* config.json, model.safetensors, tokenizer_config.json, generation_config.json, and tokenizer.json
 * or tokenizer.model or vocab.json and merges.txt with added_tokens.json, or tekken.json. */
void decoder_folder_make(struct folder *folder, enum decoder_tokenizer tokenizer);

/* Makes these files for another family, with TOKENIZER_MODEL_BPE, two layers and a window of 4
 * tokens if the family has windows. */
void decoder_folder_make_family(struct folder *folder, enum decoder_family family);

/* ---- for decoder_families.c ------------------------------------------------------------------ */

enum { FOLDER_HIDDEN = 8, FOLDER_INNER = 12, FOLDER_KV = 4 };

struct folder_shape {
    const char *name;
    unsigned dims[4]; /* the slowest first; 0: there are no more */
};

/* Adds model.safetensors. Names come after `prefix`; one with a % is of each of `layers`, one that
 * begins with # is of bytes, of which packed weights consist, and one that begins with 3 of bytes
 * of four codes from 0 to 2. */
void decoder_folder_put_weights(struct folder *folder, const char *prefix, unsigned layers,
                                const struct folder_shape *tensors, size_t count);

/* Adds tokenizer.model. */
void decoder_folder_put_model(struct folder *folder, bool unigram);

#endif
