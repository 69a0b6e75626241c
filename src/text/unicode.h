/* SPDX-License-Identifier: Apache-2.0
 * Properties of code points as Hugging Face tokenizers has them: each in the Unicode version that
 * it uses (tools/generate_unicode.py lists them). Code points are at most 0x10FFFF. */
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

/* Writes the full lower case of a code point, without regard to context, and returns the number of
 * its code points, 1 or 2. */
size_t unicode_lower(uint32_t code_point, uint32_t lower[2]);

/* Writes the canonical decomposition of a code point that is not a mark, without the marks in it,
 * and returns the number of its code points, 1 to 3. Starters come before nonstarters. */
size_t unicode_strip(uint32_t code_point, uint32_t left[3]);

/* Returns the rank, from 1, of a nonstarter's combining class among the classes that nonstarters
 * other than marks have. Returns 0 for all other code points. */
enum { UNICODE_MAX_RANK = 6 };
unsigned unicode_rank(uint32_t code_point);

bool unicode_is_word(uint32_t code_point); /* \w of Rust's regex */

#endif
