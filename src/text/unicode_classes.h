/* SPDX-License-Identifier: Apache-2.0
 * The kinds of code points that the patterns of byte-level BPE tell apart, as Oniguruma has them
 * (tools/generate_unicode.py says in which Unicode version). They have a file of their own so that
 * modules which only embed texts do not carry the tables. */
#ifndef WISP_TEXT_UNICODE_CLASSES_H
#define WISP_TEXT_UNICODE_CLASSES_H

#include <stdint.h>

enum unicode_kind {
    KIND_OTHER,
    KIND_UPPER,        /* \p{Lu} */
    KIND_LOWER,        /* \p{Ll} */
    KIND_TITLE,        /* \p{Lt} */
    KIND_OTHER_LETTER, /* \p{Lm} and \p{Lo} */
    KIND_MARK,         /* \p{M} */
    KIND_DIGIT,        /* \p{Nd} */
    KIND_OTHER_NUMBER, /* \p{Nl} and \p{No} */
    KIND_CONNECTOR,    /* \p{Pc} */
    KIND_PUNCTUATION,  /* \p{P} without \p{Pc} */
    KIND_SYMBOL,       /* \p{S} */
    KIND_BLANK         /* \s */
};

enum unicode_class {
    UNICODE_OTHER,
    UNICODE_LETTER, /* \p{L} */
    UNICODE_NUMBER, /* \p{N} */
    UNICODE_BLANK   /* \s */
};

/* All code points from here on are KIND_OTHER, except the supplementary variation selectors, which
 * are marks. */
enum { UNICODE_KIND_LIMIT = 0x32400 };

/* A block has four bits for each of its 128 code points. */
extern const uint8_t unicode_kind_index[UNICODE_KIND_LIMIT / 128];
extern const uint8_t unicode_kind_blocks[];

static inline enum unicode_kind unicode_kind(uint32_t code_point) {
    if (code_point >= UNICODE_KIND_LIMIT)
        return code_point >= 0xE0100 && code_point <= 0xE01EF ? KIND_MARK : KIND_OTHER;
    const uint32_t block = unicode_kind_index[code_point >> 7], pair = code_point >> 1 & 63;
    return (enum unicode_kind)(unicode_kind_blocks[block * 64 + pair] >> (code_point & 1) * 4 & 15);
}

static inline enum unicode_class unicode_class(uint32_t code_point) {
    /* Two bits for each kind. */
    const uint32_t classes =
        UNICODE_LETTER << 2 * KIND_UPPER | UNICODE_LETTER << 2 * KIND_LOWER |
        UNICODE_LETTER << 2 * KIND_TITLE | UNICODE_LETTER << 2 * KIND_OTHER_LETTER |
        UNICODE_NUMBER << 2 * KIND_DIGIT | UNICODE_NUMBER << 2 * KIND_OTHER_NUMBER |
        UNICODE_BLANK << 2 * KIND_BLANK;
    return (enum unicode_class)(classes >> 2 * unicode_kind(code_point) & 3);
}

#endif
