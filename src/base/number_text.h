/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_BASE_NUMBER_TEXT_H
#define WISP_BASE_NUMBER_TEXT_H

/* A number as text. */
struct number_text {
    char text[40];
};

/* Returns `value` with at most `digits` significant digits, 1 to 17, as printf's %g writes it, but
 * with a point in any locale: the host program may have chosen one with decimal commas, and others
 * read what the library writes. */
struct number_text number_text(double value, int digits);

#endif
