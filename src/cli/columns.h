/* SPDX-License-Identifier: Apache-2.0
 * Rows of values with a header: comma-separated ones, of which those in quotes may have commas,
 * newlines and doubled quotes (RFC 4180), and tab-separated ones, which have no quotes. A row
 * becomes a JSON object whose keys are the names of the header, so that what holds for such objects
 * holds for rows. */
#ifndef WISP_CLI_COLUMNS_H
#define WISP_CLI_COLUMNS_H

#include "base/arena.h"

struct columns {
    char separator; /* ',' or '\t' */
    wisp_text *names;
    uint32_t n, capacity; /* n is 0 until the header is taken */
    struct arena arena;   /* has the names */
};

/* Returns where the row at the beginning of n bytes ends: the place of a newline that is not within
 * quotes, or n if there is none. Sets *lines to the newlines within the row. */
size_t columns_row_length(const struct columns *columns, const char *bytes, size_t n,
                          size_t *lines);

/* Takes the header. Returns an exit code, after complaining of a file `name` without the column
 * `wanted`. */
int columns_take_header(struct columns *columns, wisp_text row, const char *name,
                        const char *wanted);

/* Makes JSON of a row, in the arena. Returns an exit code: EXIT_INPUT with `fault` set if the row
 * is not like the header, which was not complained of. */
int columns_to_json(const struct columns *columns, wisp_text row, struct arena *arena,
                    wisp_text *json, char *fault, size_t fault_bytes);

/* Forgets the header. */
void columns_release(struct columns *columns);

#endif
