/* SPDX-License-Identifier: Apache-2.0
 * The numbers by which files describe tokens, and how they spell a space. */
#ifndef WISP_FORMATS_TOKENS_H
#define WISP_FORMATS_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The values of GGUF's tokenizer.ggml.token_type. */
enum token_type {
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
};

/* Bits of the values of KEY_TOKENIZER_ADDED_FLAGS. */
enum added_flag {
    ADDED_SINGLE_WORD = 1, /* matches only if no word character is beside it */
    ADDED_STRIP_LEFT = 2,  /* takes the white space before it as well */
    ADDED_STRIP_RIGHT = 4, /* takes the white space after it as well */
    ADDED_NORMALIZED = 8,  /* is matched in normalised text, others in raw text */
    ADDED_ALL_FLAGS = 15
};

/* SentencePiece's pieces spell a space as U+2581. */
#define SPELLED_SPACE "\xE2\x96\x81"
enum { SPELLED_SPACE_BYTES = 3 };

/* Returns whether a spelled space begins at `at`. */
static inline bool spelled_space_at(const char *at, const char *end) {
    return (size_t)(end - at) >= SPELLED_SPACE_BYTES &&
           memcmp(at, SPELLED_SPACE, SPELLED_SPACE_BYTES) == 0;
}

/* The longest token that texts are made of, in bytes. */
enum { PIECE_MAX_BYTES = 512 };

#endif
