/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_NUMBER_TEXT_H
#define WISP_BASE_NUMBER_TEXT_H

#include <stddef.h>

enum { NUMBER_TEXT = 40 }; /* bytes that a number as text has room in */

/* Writes `value` with at most `digits` significant digits, 1 to 17, as printf's %g writes it, but
 * with a point in any locale: the host program may have chosen one with decimal commas, and others
 * read what the library writes. Writes a zero byte behind it, and perhaps to all NUMBER_TEXT bytes.
 * Returns the length. */
size_t number_write(char *text, double value, int digits);

/* Returns such a text. */
struct number_text {
    char text[NUMBER_TEXT];
} number_text(double value, int digits);

#endif
