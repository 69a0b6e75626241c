/* SPDX-License-Identifier: Apache-2.0
 * Embeddings on standard output, in the format that was asked for. */
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
    FILE *spool; /* npy to a pipe: rows wait here, since the header says how many there are */
};

/* By name; false for an unknown one. */
bool output_format_of(const char *name, enum output_format *format);

/* Each returns an exit code: EXIT_GOOD, EXIT_CLOSED_PIPE, or EXIT_FAILED after complaining. */
int output_open(struct output *output, enum output_format format, size_t dimensions);

/* One row for each record of the batch, flushed. */
int output_rows(struct output *output, const struct batch *batch, const float *rows);

/* Ends the document. */
int output_close(struct output *output);

/* Flushes a stream and says what became of it, as above. */
int finish_stream(FILE *stream);

#endif
