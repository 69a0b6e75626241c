/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <string.h>

#include "base/byte_order.h"
#include "cli/cli.h"

enum { NPY_HEADER_BYTES = 128 };

bool output_format_of(const char *name, enum output_format *format) {
    static const char *const names[] = {"text", "json", "ndjson", "npy", "f32"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *format = (enum output_format)i;
            return true;
        }
    return false;
}

int finish_stream(FILE *stream) {
    if (fflush(stream) == 0 && !ferror(stream))
        return EXIT_GOOD;
    if (errno == EPIPE)
        return EXIT_CLOSED_PIPE;
    complain("cannot write the output: %s", strerror(errno));
    return EXIT_FAILED;
}

/* Writes a header of NPY's version 1.0: magic, version, length of the header, then a Python
 * dictionary padded with spaces. The size does not depend on the number of rows, so the header can
 * be overwritten when that is known. Source: NumPy's description of the format (numpy.lib.format).
 */
static void write_npy_header(FILE *stream, size_t rows, size_t dimensions) {
    char header[NPY_HEADER_BYTES + 1];
    const int length = snprintf(header, sizeof header,
                                "\x93NUMPY\x01%c\x76%c{'descr': '<f4', 'fortran_order': False, "
                                "'shape': (%zu, %zu), }",
                                0, 0, rows, dimensions);
    memset(header + length, ' ', (size_t)(NPY_HEADER_BYTES - length));
    header[NPY_HEADER_BYTES - 1] = '\n';
    fwrite(header, 1, NPY_HEADER_BYTES, stream);
}

int output_open(struct output *output, enum output_format format, size_t dimensions) {
    *output = (struct output){.format = format, .dimensions = dimensions, .stream = stdout};
    if (format == OUTPUT_JSON)
        fputc('[', stdout);
    if (format != OUTPUT_NPY)
        return EXIT_GOOD;
    if (fseek(stdout, 0, SEEK_CUR) != 0) {
        output->spool = output->stream = tmpfile();
        if (!output->spool) {
            complain("cannot create a temporary file: %s", strerror(errno));
            return EXIT_FAILED;
        }
        return EXIT_GOOD;
    }
    write_npy_header(stdout, 0, dimensions);
    return finish_stream(stdout);
}

static void write_numbers(FILE *stream, const float *row, size_t n, const char *separator) {
    for (size_t i = 0; i < n; i++)
        fprintf(stream, "%s%.9g", i ? separator : "", (double)row[i]);
}

static void write_array(FILE *stream, const float *row, size_t n) {
    fputc('[', stream);
    write_numbers(stream, row, n, ",");
    fputc(']', stream);
}

/* Writes numbers as floats with their low byte first, as files of both binary formats have them. */
static void write_floats(FILE *stream, const float *row, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float value = row[i];
        swap_file_numbers(&value, 1, sizeof value);
        fwrite(&value, sizeof value, 1, stream);
    }
}

/* Writes an object with the fields of the input's object, except its text, and the embedding. The
 * fields are copied as they are in the input. */
static void write_object(FILE *stream, const struct json *object, const float *row, size_t n) {
    fputc('{', stream);
    for (const struct json *field = object ? object->first : NULL; field; field = field->next) {
        if (strcmp(field->key, "text") == 0)
            continue;
        fwrite(field->raw_key, 1, (size_t)(field->raw + field->raw_length - field->raw_key),
               stream);
        fputc(',', stream);
    }
    fputs("\"embedding\":", stream);
    write_array(stream, row, n);
    fputs("}\n", stream);
}

static void write_row(struct output *output, const struct record *record, const float *row) {
    const size_t n = output->dimensions;
    switch (output->format) {
    case OUTPUT_TEXT:
        write_numbers(output->stream, row, n, " ");
        fputc('\n', output->stream);
        break;
    case OUTPUT_JSON:
        fputs(output->rows ? ",\n" : "", output->stream);
        write_array(output->stream, row, n);
        break;
    case OUTPUT_NDJSON:
        write_object(output->stream, record->object, row, n);
        break;
    case OUTPUT_NPY:
    case OUTPUT_F32:
        write_floats(output->stream, row, n);
        break;
    }
    output->rows++;
}

int output_rows(struct output *output, const struct batch *batch, const float *rows) {
    for (size_t i = 0; i < batch->n; i++)
        write_row(output, &batch->records[i], rows + i * output->dimensions);
    return finish_stream(output->stream);
}

/* Writes the header and the spooled rows to standard output. */
static int copy_spool(struct output *output) {
    char buffer[65536];
    size_t length;
    write_npy_header(stdout, output->rows, output->dimensions);
    bool good = fseek(output->spool, 0, SEEK_SET) == 0;
    while (good && (length = fread(buffer, 1, sizeof buffer, output->spool)) > 0)
        good = fwrite(buffer, 1, length, stdout) == length;
    if (good && ferror(output->spool)) {
        complain("cannot read the temporary file");
        good = false;
    }
    fclose(output->spool);
    const int code = finish_stream(stdout);
    return good || code != EXIT_GOOD ? code : EXIT_FAILED;
}

int output_close(struct output *output) {
    if (output->format == OUTPUT_JSON)
        fputs("]\n", stdout);
    if (output->spool)
        return copy_spool(output);
    if (output->format == OUTPUT_NPY && fseek(stdout, 0, SEEK_SET) == 0) {
        write_npy_header(stdout, output->rows, output->dimensions);
        fseek(stdout, 0, SEEK_END);
    }
    return finish_stream(stdout);
}
