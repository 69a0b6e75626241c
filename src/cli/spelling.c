/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/spelling.h"

#include <stddef.h>
#include <string.h>

enum { MOST_LENGTH = 31, LONG_NAME = 5 };

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* Returns the number of changes between two texts of at most MOST_LENGTH characters: the optimal
 * string alignment distance (Damerau 1964; no part is changed twice). */
static unsigned count_changes(const char *a, const char *b) {
    unsigned rows[3][MOST_LENGTH + 1]; /* the last three rows of the table over a and b */
    const size_t m = strlen(a), n = strlen(b);
    for (size_t i = 0; i <= m; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3], *twice_above = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = i == 0 ? (unsigned)j
                            : least(least(above[j], row[j - 1]) + 1,
                                    above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], twice_above[j - 2] + 1);
        }
    }
    return rows[m % 3][n];
}

void spelling_compare(struct spelling *spelling, const char *name) {
    const size_t length = strlen(name);
    if (length > MOST_LENGTH || strlen(spelling->typed) > MOST_LENGTH)
        return;
    const unsigned changes = count_changes(spelling->typed, name);
    if (changes > (length < LONG_NAME ? 1 : 2) ||
        (spelling->nearest && changes >= spelling->changes))
        return;
    spelling->nearest = name;
    spelling->changes = changes;
}
