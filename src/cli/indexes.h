/* SPDX-License-Identifier: Apache-2.0
 * What the commands that read indexes share. */
#ifndef WISP_CLI_INDEXES_H
#define WISP_CLI_INDEXES_H

#include <stdio.h>

#include "wisp.h"

/* Opens the index at `path`. Returns an exit code, after complaining where it is not EXIT_GOOD. */
int open_index(const char *path, wisp_index **index);

/* Write a row's id as a JSON string, and its metadata as JSON in one line: null where there is
 * none. */
void write_id(FILE *stream, wisp_text id);
void write_metadata(FILE *stream, wisp_text metadata);

/* Checks that the metadata of a row is JSON, which the library checks only where it adds some.
 * Returns an exit code, after complaining where it is not EXIT_GOOD. */
int check_metadata(const char *path, uint64_t row, wisp_text metadata);

/* Writes the member "text" of metadata where it is an object with such a string, else all of the
 * metadata, so that it cannot control a terminal. */
void write_metadata_text(FILE *stream, wisp_text metadata);

/* `wisp index list` and `wisp index info`. Return an exit code. */
int index_list(const wisp_index *index, const char *path, bool ndjson);
int index_info(const wisp_index *index, bool json);

#endif
