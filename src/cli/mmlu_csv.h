/* SPDX-License-Identifier: Apache-2.0
 * Comma-separated values as files of MMLU have them. If a record has the wanted number of fields
 * by RFC 4180, these are its fields. In other records a field in quotes may have quotes that are
 * neither doubled nor the field's end: a quote ends its field if a comma and a quote, a comma
 * and an answer of one letter or digit that ends the line, or the end of the line follow. */
#ifndef WISP_CLI_MMLU_CSV_H
#define WISP_CLI_MMLU_CSV_H

#include "wisp.h"

struct mmlu_csv {
    char *at, *end; /* the text that is left; fields are unquoted in place */
    size_t line;    /* of `at`, counted from 1 */
};

/* Reads the next record, which should have `wanted` fields. Sets *count to its fields, of which the
 * first `wanted` are stored. Returns false at the end of the text, and if a quoted field does
 * not end, in which case *count is 0 and `at` is before `end`. */
bool mmlu_csv_next(struct mmlu_csv *csv, wisp_text *fields, size_t wanted, size_t *count);

#endif
