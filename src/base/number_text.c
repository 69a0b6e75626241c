/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { FLOAT_DIGITS = 9 }; /* tell all floats apart */

/* Writes a float with FLOAT_DIGITS as printf does, a tenth of its time: embeddings as text are
 * hundreds of them. Returns false, and writes nothing, outside of [1e-4, 1e9).
 *
 * A float has 24 bits and 5^12 has 28, so that its product with a power of ten up to 1e12 is a
 * double without rounding, and the digits are exact. */
static bool write_float(double value, struct number_text *written) {
    static const double powers[] = {1e0, 1e1, 1e2, 1e3,  1e4,  1e5, 1e6,
                                    1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    const double size = fabs(value);
    if (!(size >= 1e-4 && size < 1e9) || (double)(float)value != value)
        return false;
    int shift = size < 1 ? FLOAT_DIGITS : 0; /* of the point: FLOAT_DIGITS are before it */
    while (size * powers[shift] < 1e8)
        shift++;
    const double exact = size * powers[shift];
    uint64_t number = (uint64_t)exact;
    const double rest = exact - (double)number;
    number += rest > 0.5 || (rest == 0.5 && number % 2 == 1);
    if (number == 1000000000) /* rounded up to another digit */
        return false;
    char digits[2 * FLOAT_DIGITS]; /* zeros before the number, then its digits */
    int n = 2 * FLOAT_DIGITS,
        first = shift < FLOAT_DIGITS ? FLOAT_DIGITS : 2 * FLOAT_DIGITS - 1 - shift;
    memset(digits, '0', FLOAT_DIGITS);
    uint32_t left = (uint32_t)number;
    for (int i = n - 1; i >= FLOAT_DIGITS; i--, left /= 10)
        digits[i] = (char)('0' + left % 10);
    while (n > 2 * FLOAT_DIGITS - shift && digits[n - 1] == '0')
        n--;
    char *text = written->text;
    if (value < 0)
        *text++ = '-';
    const int whole = 2 * FLOAT_DIGITS - shift - first; /* digits before the point */
    memcpy(text, digits + first, (size_t)whole);
    text += whole;
    if (n > first + whole) {
        *text++ = '.';
        memcpy(text, digits + first + whole, (size_t)(n - first - whole));
        text += n - first - whole;
    }
    *text = '\0';
    return true;
}

struct number_text number_text(double value, int digits) {
    struct number_text number;
    if (digits == FLOAT_DIGITS && write_float(value, &number))
        return number;
    snprintf(number.text, sizeof number.text, "%.*g", digits, value);
    /* The locale's separator, which may have several bytes, is what none of these is part of. */
    static const char numeric[] = "0123456789+-einfa";
    char *separator = number.text + strspn(number.text, numeric);
    if (*separator) {
        char *rest = separator + strcspn(separator, numeric);
        *separator = '.';
        memmove(separator + 1, rest, strlen(rest) + 1);
    }
    return number;
}
