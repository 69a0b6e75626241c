/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/date.h"

#include <stdio.h>
#include <string.h>

static const char days[][10] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                "Friday", "Saturday", "Sunday"};
static const char months[][10] = {"January",   "February", "March",    "April",
                                  "May",       "June",     "July",     "August",
                                  "September", "October",  "November", "December"};

/* Reads `width` digits, and `after` behind them, which may be 0. */
static bool read_number(const char **text, int width, char after, int least, int most,
                        int *number) {
    *number = 0;
    for (int i = 0; i < width; i++, (*text)++) {
        if (**text < '0' || **text > '9')
            return false;
        *number = *number * 10 + (**text - '0');
    }
    if (*number < least || *number > most || (after && **text != after))
        return false;
    *text += after != 0;
    return true;
}

static int days_of(int year, int month) {
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 ? 28 + leap : 30 + ((month + (month > 7)) & 1);
}

bool date_parse(const char *text, struct date *d) {
    *d = (struct date){.is_given = true};
    if (!read_number(&text, 4, '-', 1, 9999, &d->year) ||
        !read_number(&text, 2, '-', 1, 12, &d->month) ||
        !read_number(&text, 2, 0, 1, days_of(d->year, d->month), &d->day))
        return false;
    if (*text == 'T' || *text == ' ') {
        text++;
        if (!read_number(&text, 2, ':', 0, 23, &d->hour) ||
            !read_number(&text, 2, ':', 0, 59, &d->minute) ||
            !read_number(&text, 2, 0, 0, 60, &d->second))
            return false;
    }
    d->day_of_year = d->day;
    for (int month = 1; month < d->month; month++)
        d->day_of_year += days_of(d->year, month);
    const int before = d->year - 1;
    d->weekday = (before * 365 + before / 4 - before / 100 + before / 400 + d->day_of_year - 1) % 7;
    return *text == 0;
}

bool date_format(const struct date *d, char directive, bool padded, char out[DATE_BYTES]) {
    const int hour = d->hour % 12 == 0 ? 12 : d->hour % 12;
    const struct {
        char directive;
        int width, number;
    } numbers[] = {{'Y', 1, d->year},
                   {'y', 2, d->year % 100},
                   {'m', 2, d->month},
                   {'d', 2, d->day},
                   {'H', 2, d->hour},
                   {'I', 2, hour},
                   {'M', 2, d->minute},
                   {'S', 2, d->second},
                   {'j', 3, d->day_of_year},
                   {'u', 1, d->weekday + 1},
                   {'w', 1, (d->weekday + 1) % 7}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].directive == directive) {
            snprintf(out, DATE_BYTES, "%0*d", padded ? numbers[i].width : 1, numbers[i].number);
            return true;
        }
    const char *day = days[d->weekday], *month = months[d->month - 1];
    switch (directive) {
    case 'A':
    case 'a':
        snprintf(out, DATE_BYTES, "%.*s", directive == 'A' ? 9 : 3, day);
        return true;
    case 'B':
    case 'b':
        snprintf(out, DATE_BYTES, "%.*s", directive == 'B' ? 9 : 3, month);
        return true;
    case 'F':
        snprintf(out, DATE_BYTES, "%d-%02d-%02d", d->year, d->month, d->day);
        return true;
    case 'T':
        snprintf(out, DATE_BYTES, "%02d:%02d:%02d", d->hour, d->minute, d->second);
        return true;
    case 'p':
        snprintf(out, DATE_BYTES, "%s", d->hour < 12 ? "AM" : "PM");
        return true;
    case '%':
        snprintf(out, DATE_BYTES, "%%");
        return true;
    default:
        return false;
    }
}
