/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number_text.h"

#include <stdio.h>
#include <string.h>

struct number_text number_text(double value, int digits) {
    struct number_text number;
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
