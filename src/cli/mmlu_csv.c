/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mmlu_csv.h"

/* Tells whether a line ends at `at`. */
static bool is_line_end(const struct mmlu_csv *csv, const char *at) {
    return at == csv->end || *at == '\n' || (*at == '\r' && (at + 1 == csv->end || at[1] == '\n'));
}

/* Tells whether the next record has `wanted` fields if each quote within a field in quotes is
 * doubled. */
static bool is_regular(const struct mmlu_csv *csv, size_t wanted) {
    const char *at = csv->at;
    for (size_t n = 1;; n++, at++) {
        if (at < csv->end && *at == '"') {
            for (at++; at < csv->end && (*at != '"' || (at + 1 < csv->end && at[1] == '"')); at++)
                at += *at == '"';
            if (at == csv->end)
                return false;
            at++;
            if (!is_line_end(csv, at) && *at != ',')
                return false;
        }
        while (!is_line_end(csv, at) && *at != ',')
            at++;
        if (is_line_end(csv, at))
            return n == wanted;
    }
}

/* Tells whether a quote before `at` ends its field in a record that is not regular. */
static bool is_field_end(const struct mmlu_csv *csv, const char *at) {
    if (is_line_end(csv, at))
        return true;
    if (*at != ',' || at + 1 == csv->end)
        return false;
    return at[1] == '"' || is_line_end(csv, at + 2);
}

/* Reads a field in quotes, the first of which is at csv->at. Returns false if it does not end.
 */
static bool read_quoted(struct mmlu_csv *csv, bool regular, wisp_text *field) {
    char *at = csv->at + 1, *to = at;
    field->bytes = to;
    while (at < csv->end) {
        if (*at != '"') {
            csv->line += *at == '\n';
            *to++ = *at++;
            continue;
        }
        size_t quotes = 0;
        for (; at < csv->end && *at == '"'; at++)
            quotes++;
        const bool ends = regular ? quotes % 2 == 1 : is_field_end(csv, at);
        for (quotes = (quotes + !ends) / 2; quotes > 0; quotes--)
            *to++ = '"';
        if (ends) {
            field->length = (size_t)(to - field->bytes);
            csv->at = at;
            return true;
        }
    }
    return false;
}

bool mmlu_csv_next(struct mmlu_csv *csv, wisp_text *fields, size_t wanted, size_t *count) {
    *count = 0;
    if (csv->at == csv->end)
        return false;
    const bool regular = is_regular(csv, wanted);
    for (size_t n = 1;; n++, csv->at++) {
        wisp_text field = {csv->at, 0};
        if (csv->at < csv->end && *csv->at == '"') {
            if (!read_quoted(csv, regular, &field))
                return false;
        } else {
            for (; !is_line_end(csv, csv->at) && *csv->at != ','; csv->at++)
                field.length++;
        }
        if (n <= wanted)
            fields[n - 1] = field;
        if (csv->at < csv->end && *csv->at == ',')
            continue;
        if (csv->at < csv->end && *csv->at == '\r')
            csv->at++;
        if (csv->at < csv->end) {
            csv->at++;
            csv->line++;
        }
        *count = n;
        return true;
    }
}
