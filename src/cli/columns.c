/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/columns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "cli/cli.h"

size_t columns_row_length(const struct columns *columns, const char *bytes, size_t n,
                          size_t *lines) {
    bool quoted = false;
    *lines = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '"' && columns->separator == ',')
            quoted = !quoted;
        if (bytes[i] == '\n' && !quoted)
            return i;
        *lines += bytes[i] == '\n';
    }
    return n;
}

/* Takes the next value of a row, whose rest `row` becomes, into the arena. Returns false if there
 * is no memory, or at a value in quotes that does not end where one should: then `value` is NULL,
 * too, but *odd is set. */
static bool next_value(const struct columns *columns, wisp_text *row, struct arena *arena,
                       wisp_text *value, bool *odd) {
    const char *from = row->bytes, *end = row->bytes + row->length;
    const bool quoted = columns->separator == ',' && from < end && *from == '"';
    const char *start = from += quoted;
    while (from < end && (quoted ? *from != '"' || (from + 1 < end && from[1] == '"')
                                 : *from != columns->separator))
        from += quoted && *from == '"' ? 2 : 1;
    char *copy = arena_copy_text(arena, start, (size_t)(from - start));
    size_t length = 0;
    if (!copy)
        return false;
    for (const char *c = start; c < from; c++) {
        copy[length++] = *c;
        c += quoted && *c == '"'; /* of two quotes one is meant */
    }
    if (quoted) {
        *odd = from == end || (from + 1 < end && from[1] != columns->separator);
        from += from < end;
    }
    copy[length] = '\0';
    *value = (wisp_text){copy, length};
    row->length = (size_t)(end - from);
    row->bytes = from;
    return !*odd;
}

/* Moves past a separator. Returns false at the end of the row. */
static bool next_column(const struct columns *columns, wisp_text *row) {
    if (row->length == 0 || *row->bytes != columns->separator)
        return false;
    row->bytes++;
    row->length--;
    return true;
}

int columns_take_header(struct columns *c, wisp_text row, const char *name, const char *wanted) {
    bool odd = false, found = false;
    char known[256] = "";
    size_t used = 0;
    do {
        wisp_text value;
        if (list_grow((void *)&c->names, c->n, 1, &c->capacity, sizeof *c->names, NULL) != WISP_OK)
            return complain_of_memory();
        if (!next_value(c, &row, &c->arena, &value, &odd)) {
            if (!odd)
                return complain_of_memory();
            complain("%s: line 1: a quoted name does not end", name);
            return EXIT_INPUT;
        }
        c->names[c->n++] = value;
        found = found || strcmp(value.bytes, wanted) == 0;
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "",
                                     value.bytes);
    } while (next_column(c, &row));
    if (found)
        return EXIT_GOOD;
    complain("%s: the header has no column \"%s\": name one by --column: %s", name, wanted, known);
    return EXIT_INPUT;
}

int columns_to_json(const struct columns *c, wisp_text row, struct arena *arena, wisp_text *json,
                    char *fault, size_t fault_bytes) {
    char *text = NULL;
    size_t length = 0;
    uint32_t n = 0;
    bool odd = false, good = true;
    FILE *stream = open_memstream(&text, &length);
    if (!stream)
        return complain_of_memory();
    do {
        wisp_text value;
        good = next_value(c, &row, arena, &value, &odd);
        if (good && n < c->n) {
            fputs(n > 0 ? ", " : "{", stream);
            print_json_string(stream, c->names[n]);
            fputs(": ", stream);
            print_json_string(stream, value);
        }
        n++;
    } while (good && next_column(c, &row));
    fputc('}', stream);
    const bool kept = close_memstream(stream, &text);
    const char *copy = kept && good ? arena_copy_text(arena, text, length) : NULL;
    free(text);
    if (odd)
        snprintf(fault, fault_bytes, "a quoted value does not end");
    else if (copy && n != c->n)
        snprintf(fault, fault_bytes, "%u values; the header has %u", n, c->n);
    else if (!copy)
        return complain_of_memory();
    else
        return *json = (wisp_text){copy, length}, EXIT_GOOD;
    return EXIT_INPUT;
}

void columns_release(struct columns *c) {
    free(c->names);
    arena_release(&c->arena);
    *c = (struct columns){.separator = c->separator};
}
