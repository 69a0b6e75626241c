/* SPDX-License-Identifier: Apache-2.0 */
#include "host/part_names.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DIGITS = 5 };

static bool read_digits(const char *text, uint32_t *number) {
    *number = 0;
    for (int i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = 10 * *number + (uint32_t)(text[i] - '0');
    }
    return true;
}

bool part_name_read(const char *name, size_t length, struct part_name *found) {
    static const char of[] = "-of-", end[] = ".gguf";
    enum { ENDING = 1 + DIGITS + sizeof of - 1 + DIGITS + sizeof end - 1 };
    if (length < ENDING)
        return false;
    const char *ending = name + length - ENDING, *numbers = ending + 1;
    found->at = (size_t)(numbers - name);
    return *ending == '-' && read_digits(numbers, &found->part) &&
           strncasecmp(numbers + DIGITS, of, sizeof of - 1) == 0 &&
           read_digits(numbers + DIGITS + sizeof of - 1, &found->count) &&
           strncasecmp(numbers + 2 * DIGITS + sizeof of - 1, end, sizeof end - 1) == 0 &&
           found->part >= 1 && found->part <= found->count;
}

void part_name_set(char *name, const struct part_name *found, uint32_t part) {
    char digits[16];
    snprintf(digits, sizeof digits, "%05u", part);
    memcpy(name + found->at, digits, DIGITS);
}
