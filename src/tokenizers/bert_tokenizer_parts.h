/* SPDX-License-Identifier: Apache-2.0
 * The parts of a tokenizer, for bert_tokenizer_open.c, which builds it, and bert_tokenizer.c, which
 * uses it.
 */
#ifndef WISP_TOKENIZERS_BERT_TOKENIZER_PARTS_H
#define WISP_TOKENIZERS_BERT_TOKENIZER_PARTS_H

#include "tokenizers/added_tokens.h"
#include "tokenizers/normalize.h"
#include "tokenizers/wordpiece.h"

/* The longest word, in characters, that a file may ask for. It bounds the memory of an encode. */
enum { WORD_MAX_CHARACTERS = 1000 };

/* The action for a byte of text that stands for itself. A value below BYTE_SPACE is the character
 * to append to the word; BYTE_OTHER needs the stages of bert_tokenizer.c. */
enum byte_action { BYTE_SPACE = 0x80, BYTE_PUNCTUATION, BYTE_DROPPED, BYTE_OTHER };

struct bert_tokenizer {
    struct arena arena; /* owns the memory of the parts below */
    struct normalizer normalizer;
    struct wordpiece vocabulary;
    struct added_tokens raw;        /* matched before normalisation */
    struct added_tokens normalized; /* matched after normalisation */
    uint8_t bytes[256];             /* enum byte_action, or the character in lower case */
    uint32_t vocabulary_size;
    uint32_t max_word_characters;
    int32_t unknown, cls, separator;
};

#endif
