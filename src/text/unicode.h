/* SPDX-License-Identifier: Apache-2.0
 * What Hugging Face tokenizers knows about code points, property by property in the Unicode
 * version it has (tools/generate_unicode.py lists them). Code points are at most 0x10FFFF. */
#ifndef WISP_TEXT_UNICODE_H
#define WISP_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum unicode_flag {
    UNICODE_CONTROL = 1,     /* BERT's text cleaning drops it */
    UNICODE_SPACE = 2,       /* White_Space */
    UNICODE_PUNCTUATION = 4, /* a word of its own to BERT */
    UNICODE_MARK = 8,        /* Mn: an accent to BERT */
    UNICODE_NONSTARTER = 16, /* the combining classes of its decomposition are not 0 */
    UNICODE_DECOMPOSES = 32, /* unicode_strip changes it */
    UNICODE_HAS_LOWER = 64   /* unicode_lower changes it */
};

unsigned unicode_flags(uint32_t code_point);

/* Full lower case, without regard to context: 1 or 2 code points. */
size_t unicode_lower(uint32_t code_point, uint32_t lower[2]);

/* What is left of the canonical decomposition of a code point that is no mark once the marks in it
 * are dropped: 1 to 3 code points, starters before nonstarters. */
size_t unicode_strip(uint32_t code_point, uint32_t left[3]);

/* The place of a nonstarter's combining class, from 1, among the classes that nonstarters other
 * than marks have; 0 for all others. */
enum { UNICODE_MAX_RANK = 6 };
unsigned unicode_rank(uint32_t code_point);

bool unicode_is_word(uint32_t code_point); /* \w of Rust's regex */

#endif
