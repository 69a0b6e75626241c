/* SPDX-License-Identifier: Apache-2.0
 * The numbers by which files describe tokens. */
#ifndef WISP_FORMATS_TOKENS_H
#define WISP_FORMATS_TOKENS_H

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
    ADDED_SINGLE_WORD = 1, /* matches only where no word character stands beside it */
    ADDED_STRIP_LEFT = 2,  /* takes the white space before it as well */
    ADDED_STRIP_RIGHT = 4, /* takes the white space after it as well */
    ADDED_NORMALIZED = 8,  /* is matched in normalised text, others in raw text */
    ADDED_ALL_FLAGS = 15
};

#endif
