/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number_text.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT_DIGITS = 9 }; /* tell all floats apart */

/* Writes a float with FLOAT_DIGITS as printf does, a tenth of its time: embeddings as text are
 * hundreds of them. Returns its length, or 0, and writes nothing of use, outside of [1e-4, 1e9).
 *
 * A float has 24 bits and 5^12 has 28, so that its product with a power of ten up to 1e12 is a
 * double without rounding, and the digits are exact. */
static size_t write_float(char *written, double value) {
    static const double powers[] = {1e0, 1e1, 1e2, 1e3,  1e4,  1e5, 1e6,
                                    1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    const double size = fabs(value);
    if (!(size >= 1e-4 && size < 1e9) || (double)(float)value != value)
        return 0;
    /* Of the point: FLOAT_DIGITS are before it. No float is between a bound and its double. */
    int shift = FLOAT_DIGITS + (size < 0.1) + (size < 0.01) + (size < 0.001);
    while (size >= 1 && shift > 0 && size * powers[shift - 1] >= 1e8)
        shift--;
    const double exact = size * powers[shift];
    uint32_t number = (uint32_t)exact;
    const double rest = exact - (double)number;
    number += (uint32_t)((rest > 0.5) | ((rest == 0.5) & (int)(number % 2)));
    if (number == 1000000000) /* rounded up to another digit */
        return 0;
    /* Three parts, whose digits do not wait for one another. */
    const uint32_t parts[] = {number / 1000000, number / 1000 % 1000, number % 1000};
    char digits[FLOAT_DIGITS], *text = written;
    for (int i = 0; i < 3; i++) {
        digits[3 * i] = (char)('0' + parts[i] / 100);
        digits[3 * i + 1] = (char)('0' + parts[i] / 10 % 10);
        digits[3 * i + 2] = (char)('0' + parts[i] % 10);
    }
    *text = '-';
    text += value < 0;
    if (shift >= FLOAT_DIGITS) {
        memcpy(text, "0.000", 5);
        text += 2 + shift - FLOAT_DIGITS;
        memcpy(text, digits, FLOAT_DIGITS);
        text += FLOAT_DIGITS;
    } else {
        for (int i = 0; i < FLOAT_DIGITS; i++) {
            if (i == FLOAT_DIGITS - shift)
                *text++ = '.';
            *text++ = digits[i];
        }
        *text = '.'; /* where there was none */
        text += shift == 0;
    }
    while (text[-1] == '0')
        text--;
    text -= text[-1] == '.';
    *text = '\0';
    return (size_t)(text - written);
}

size_t number_write(char *text, double value, int digits) {
    const size_t length = digits == FLOAT_DIGITS ? write_float(text, value) : 0;
    if (length > 0)
        return length;
    snprintf(text, NUMBER_TEXT, "%.*g", digits, value);
    /* The locale's separator, which may have several bytes, is what none of these is part of. */
    static const char numeric[] = "0123456789+-einfa";
    char *separator = text + strspn(text, numeric);
    if (*separator) {
        char *rest = separator + strcspn(separator, numeric);
        *separator = '.';
        memmove(separator + 1, rest, strlen(rest) + 1);
    }
    return strlen(text);
}

struct number_text number_text(double value, int digits) {
    struct number_text number;
    number_write(number.text, value, digits);
    return number;
}
