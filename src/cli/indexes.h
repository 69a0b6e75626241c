/* SPDX-License-Identifier: Apache-2.0
 * Functions shared by the commands that read indexes. */
#ifndef WISP_CLI_INDEXES_H
#define WISP_CLI_INDEXES_H

#include <stdio.h>

#include "base/arena.h"

/* Opens the index at `path`. Returns an exit code, after complaining if it is not EXIT_GOOD. */
int open_index(const char *path, wisp_index **index);

/* Writes a row's metadata as JSON in one line: null if there is none. */
void write_metadata(FILE *stream, wisp_text metadata);

/* Checks that the metadata of a row is JSON, which the library checks only if it adds some. Sets
 * *text to the member "text" if it is an object with such a string, else to all of it. The text may
 * be in the arena. Metadata that is not JSON is complained of and becomes null: the caller goes on,
 * and in the end returns EXIT_MODEL, which this function returns then. All other codes but
 * EXIT_GOOD end the command. */
int read_metadata(const char *path, uint64_t row, wisp_text *metadata, struct arena *arena,
                  wisp_text *text);

enum listing_format { LISTING_TEXT, LISTING_JSON, LISTING_NDJSON };

/* Finds a --format by its name, of those for lists if `is_list` is set. Returns an exit code, after
 * complaining of another name. */
int find_listing_format(const char *name, bool is_list, enum listing_format *format);

/* `wisp index list` and `wisp index info`. Return an exit code. */
int index_list(const wisp_index *index, const char *path, enum listing_format format,
               bool with_vectors);
int index_info(const wisp_index *index, bool json);

#endif
