/* SPDX-License-Identifier: Apache-2.0
 * What a tokenizer is made of; shared by tokenizer_open.c, which builds it, and tokenizer.c. */
#ifndef WISP_TEXT_TOKENIZER_PARTS_H
#define WISP_TEXT_TOKENIZER_PARTS_H

#include "text/added_tokens.h"
#include "text/normalize.h"
#include "text/tokenizer.h"
#include "text/wordpiece.h"

/* Longest word in characters that a file may ask for: bounds the memory of an encode. */
enum { WORD_MAX_CHARACTERS = 1000 };

/* What to do with a byte of text at once; smaller values are put to the word as they are. */
enum byte_action { BYTE_SPACE = 0x80, BYTE_PUNCTUATION, BYTE_DROPPED, BYTE_OTHER };

struct tokenizer {
    struct arena arena; /* holds all that is pointed to */
    struct normalizer normalizer;
    struct wordpiece vocabulary;
    struct added_tokens raw;        /* matched before normalisation */
    struct added_tokens normalized; /* matched after it */
    uint8_t bytes[256];             /* byte_action, or the character in lower case */
    uint32_t vocabulary_size;
    uint32_t max_word_characters;
    int32_t unknown, cls, separator;
};

#endif
