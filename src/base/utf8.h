/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_UTF8_H
#define WISP_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_INVALID 0xFFFFFFFFu

/* Decodes the code point at the start of `length` > 0 bytes and returns the number of bytes that it
 * takes. If the start is ill-formed, *code_point is UTF8_INVALID and the result is the length of
 * the maximal ill-formed part (Unicode, section 3.9), which Python's errors="replace" turns into
 * one U+FFFD. */
size_t utf8_decode(const char *bytes, size_t length, uint32_t *code_point);

/* Returns the number of bytes of the byte order mark that a text begins with, which some editors
 * write and which is not part of the text: 3 or 0. */
size_t utf8_mark(const char *bytes, size_t length);

/* Writes the characters of n bytes to `out` (NULL: nowhere), and U+FFFD for what is none: at most 3
 * n bytes. Returns their number. Sets *rest to the number of bytes at the end that may begin a
 * character, which are not written. */
size_t utf8_repair(const char *bytes, size_t n, char *out, size_t *rest);

/* Writes a code point, at most 0x10FFFF, as 1 to 4 bytes and returns their number. */
size_t utf8_encode(uint32_t code_point, char *out);

/* Returns whether a terminal may act on the character: controls (C0, DEL, C1), line and paragraph
 * separators, and the marks, embeddings and isolates by which text changes direction. */
bool utf8_controls_terminal(uint32_t code_point);

#endif
