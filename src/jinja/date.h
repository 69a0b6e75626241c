/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_JINJA_DATE_H
#define WISP_JINJA_DATE_H

#include <stdbool.h>
#include <stddef.h>

/* A day and a time of the caller's clock. */
struct date {
    int year, month, day, hour, minute, second;
    int weekday, day_of_year; /* from Monday as 0, and from 1 */
    bool is_given;
};

/* Reads "2026-11-26" or "2026-11-26T05:47:20". Returns false if it is neither. */
bool date_parse(const char *text, struct date *date);

enum { DATE_BYTES = 16 };

/* Writes what Python's strftime writes for %`directive` in the locale C, with `padded` numbers.
 * Returns false if the directive is not known. */
bool date_format(const struct date *date, char directive, bool padded, char out[DATE_BYTES]);

#endif
