/* SPDX-License-Identifier: Apache-2.0 */
#include "base/number_text.h"

#include <stdio.h>
#include <string.h>

struct number_text number_text(double value, int digits) {
    struct number_text number;
    snprintf(number.text, sizeof number.text, "%.*g", digits, value);
    /* The locale's separator, which may have several bytes, is all that is none of these: */
    static const char others[] = "0123456789+-einfa";
    char *separator = number.text + strspn(number.text, others);
    if (*separator) {
        char *rest = separator + strcspn(separator, others);
        *separator = '.';
        memmove(separator + 1, rest, strlen(rest) + 1);
    }
    return number;
}
