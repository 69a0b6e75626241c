/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pair_lines.h"

#include <string.h>

#include "cli/console.h"

size_t split_pairs(const struct batch *batch, wisp_text *first, wisp_text *second, bool *whole) {
    size_t n = 0;
    for (size_t i = 0; i < batch->n; i++) {
        const struct record *record = &batch->records[i];
        const wisp_text line = record->text;
        const char *tab = memchr(line.bytes, '\t', line.length);
        whole[i] = tab != NULL;
        if (!tab) {
            complain("%s: line %zu: no tab between two texts", record->name, record->line);
            continue;
        }
        const size_t length = (size_t)(tab - line.bytes);
        first[n] = (wisp_text){line.bytes, length};
        second[n++] = (wisp_text){tab + 1, line.length - length - 1};
    }
    return n;
}
