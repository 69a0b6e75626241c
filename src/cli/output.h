/* SPDX-License-Identifier: Apache-2.0
 * Writes embeddings to standard output in one of several formats. */
#ifndef WISP_CLI_OUTPUT_H
#define WISP_CLI_OUTPUT_H

#include <stdio.h>

#include "cli/input.h"

enum output_format { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_NDJSON, OUTPUT_NPY, OUTPUT_F32 };

struct output {
    enum output_format format;
    size_t dimensions;
    size_t rows; /* written so far */
    FILE *stream;
    FILE *spool; /* a temporary file for the rows of npy to a pipe: the header, which comes before
                    them, has their number. Else NULL */
};

/* Finds a format by its name. Returns false where there is none. */
bool output_format_of(const char *name, enum output_format *format);

/* The next four return EXIT_GOOD, EXIT_CLOSED_PIPE, or EXIT_FAILED after complaining. */
int output_open(struct output *output, enum output_format format, size_t dimensions);

/* Writes one row for each record of the batch and flushes the stream. */
int output_rows(struct output *output, const struct batch *batch, const float *rows);

/* Completes the output. */
int output_close(struct output *output);

/* Flushes a stream and reports whether all of it was written. */
int finish_stream(FILE *stream);

#endif
