/* SPDX-License-Identifier: Apache-2.0
 * The classes of code points that the patterns of byte-level BPE tell apart, as Oniguruma has them
 * (tools/generate_unicode.py says in which Unicode version). They have a file of their own so that
 * modules which only embed texts do not carry the tables. */
#ifndef WISP_TEXT_UNICODE_CLASSES_H
#define WISP_TEXT_UNICODE_CLASSES_H

#include <stdint.h>

enum unicode_class {
    UNICODE_OTHER,
    UNICODE_LETTER, /* \p{L} */
    UNICODE_NUMBER, /* \p{N} */
    UNICODE_BLANK   /* \s */
};

/* All code points from here on are UNICODE_OTHER. */
enum { UNICODE_CLASS_LIMIT = 0x32400 };

/* A block has two bits for each of its 128 code points. */
extern const uint8_t unicode_class_index[UNICODE_CLASS_LIMIT / 128];
extern const uint8_t unicode_class_blocks[];

static inline enum unicode_class unicode_class(uint32_t code_point) {
    if (code_point >= UNICODE_CLASS_LIMIT)
        return UNICODE_OTHER;
    const uint32_t block = unicode_class_index[code_point >> 7], four = code_point >> 2 & 31;
    return (enum unicode_class)(unicode_class_blocks[block * 32 + four] >> (code_point & 3) * 2 &
                                3);
}

#endif
