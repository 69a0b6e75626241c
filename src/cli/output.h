/* SPDX-License-Identifier: Apache-2.0
 * Writes embeddings to standard output in one of several formats. */
#ifndef WISP_CLI_OUTPUT_H
#define WISP_CLI_OUTPUT_H

#include <stdio.h>
#include <sys/types.h>

#include "cli/input.h"

enum output_format {
    OUTPUT_TEXT,
    OUTPUT_JSON,
    OUTPUT_NDJSON,
    OUTPUT_NPY,
    OUTPUT_F32,
    OUTPUT_SPARSE, /* NDJSON of the values that are not 0 */
    OUTPUT_TOKENS  /* NDJSON of a vector for each token */
};

struct output {
    enum output_format format;
    size_t dimensions;
    size_t rows;  /* written so far */
    FILE *stream; /* program_output or `spool` */
    /* The header of npy comes before the rows and has their number. In a regular file that was
     * opened without O_APPEND it is overwritten at the end; `start` is its offset. Elsewhere the
     * rows go to a temporary file first. */
    FILE *spool; /* NULL: none */
    off_t start;
    bool failed; /* writing failed, and a message has said so */
};

/* Locks standard output, if it is a regular file, against other runs of this program that write to
 * it. With `wait` it waits for them. A file system without locks is not an error. Returns an exit
 * code, after complaining of another run. */
int output_lock(bool wait);

/* Finds a format by its name, and the name of a format. Returns false if there is none. */
bool output_format_of(const char *name, enum output_format *format);
const char *output_format_name(enum output_format format);

/* Begins the output of rows of `dimensions` values. It continues a file if there are `rows` from an
 * earlier run (bulk.h). Returns, as output_rows and output_close do,
 * EXIT_GOOD, EXIT_CLOSED_PIPE, or another exit code after complaining. */
int output_open(struct output *output, enum output_format format, size_t dimensions, size_t rows);

/* Writes rows [batch->n, dimensions], one for each record of the batch, and flushes the stream. A
 * field "embedding" of an object in the input gives way to the new one. A record with a fault has
 * an object with "error" and "line", null in an array, or a row of NaN. */
int output_rows(struct output *output, const struct batch *batch, const float *rows);

/* Writes the vectors of tokens of each record of the batch, as output_rows does. */
int output_vectors(struct output *output, const struct batch *batch,
                   const wisp_token_vectors *vectors);

/* Begins an object with the path of a record's image, if it is one, and the fields of its object,
 * except its text and a member `name` that it may have, which is written next. The fields are
 * copied as they are in the input. */
void output_begin_object(FILE *stream, const struct record *record, const char *name);

/* Writes values as a JSON array. */
void output_json_row(FILE *stream, const float *values, size_t n);

/* Completes the output. */
int output_close(struct output *output);

#endif
