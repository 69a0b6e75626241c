/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_UTF8_H
#define WISP_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_INVALID 0xFFFFFFFFu

/* Decodes the code point at the start of `length` > 0 bytes and returns the number of bytes that it
 * takes. Where the start is ill-formed, *code_point is UTF8_INVALID and the result is the length of
 * the maximal ill-formed part (Unicode, section 3.9), which Python's errors="replace" turns into
 * one U+FFFD. */
size_t utf8_decode(const char *bytes, size_t length, uint32_t *code_point);

/* Writes a code point, at most 0x10FFFF, as 1 to 4 bytes and returns their number. */
size_t utf8_encode(uint32_t code_point, char *out);

#endif
