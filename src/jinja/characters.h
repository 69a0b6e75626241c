/* SPDX-License-Identifier: Apache-2.0
 * Characters of texts as Python classes them. Each function takes them with or without the bit
 * JINJA_GIVEN. */
#ifndef WISP_JINJA_CHARACTERS_H
#define WISP_JINJA_CHARACTERS_H

#include "jinja/value.h"
#include "text/unicode.h"

/* Returns whether str.isspace holds. */
static inline bool character_is_space(uint32_t c) {
    c &= ~JINJA_GIVEN;
    return (c >= 0x1C && c <= 0x1F) || (unicode_flags(c) & UNICODE_SPACE);
}

/* Returns whether str.splitlines ends a line there. */
static inline bool character_is_break(uint32_t c) {
    c &= ~JINJA_GIVEN;
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

/* Returns whether repr writes a character as it is. */
static inline bool character_is_printed(uint32_t c) {
    c &= ~JINJA_GIVEN;
    return c == ' ' || (c > ' ' && !(unicode_flags(c) & (UNICODE_SPACE | UNICODE_CONTROL)));
}

#endif
