/* SPDX-License-Identifier: Apache-2.0
 * Reading the characters of well-formed UTF-8. */
#ifndef WISP_TOKENIZERS_CHARACTERS_H
#define WISP_TOKENIZERS_CHARACTERS_H

#include <stdint.h>

/* Returns the character at `at`, which is not the end of the text, and sets *next to where the
 * following one begins. The lead byte tells the length. */
static inline uint32_t character_at(const char *at, const char **next) {
    const unsigned char *b = (const unsigned char *)at;
    if (b[0] < 0x80) {
        *next = at + 1;
        return b[0];
    }
    if (b[0] < 0xE0) {
        *next = at + 2;
        return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
    }
    if (b[0] < 0xF0) {
        *next = at + 3;
        return (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
    }
    *next = at + 4;
    return (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
}

/* Returns where the character before `at`, which is not the beginning of the text, begins. */
static inline const char *character_before(const char *at) {
    do
        at--;
    while (((unsigned char)*at & 0xC0) == 0x80);
    return at;
}

#endif
