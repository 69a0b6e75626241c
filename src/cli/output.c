/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/byte_order.h"
#include "cli/cli.h"

enum { NPY_HEADER_BYTES = 128 };

static const char *const format_names[] = {"text", "json",   "ndjson", "npy",
                                           "f32",  "sparse", "tokens"};

const char *output_format_name(enum output_format format) {
    return format_names[format];
}

bool output_format_of(const char *name, enum output_format *format) {
    for (size_t i = 0; i < sizeof format_names / sizeof *format_names; i++)
        if (strcmp(name, format_names[i]) == 0) {
            *format = (enum output_format)i;
            return true;
        }
    return false;
}

/* Flushes the rows written so far. */
static int finish_rows(struct output *output) {
    if (!output->spool)
        return finish_output();
    if (!output->failed && fflush(output->spool) == 0 && !ferror(output->spool))
        return EXIT_GOOD;
    if (!output->failed)
        complain("cannot write the temporary file: %s", strerror(errno));
    output->failed = true;
    return EXIT_FAILED;
}

/* ---- npy ------------------------------------------------------------------------------------ */

/* Makes a header of NPY's version 1.0: magic, version, length of the header, then a Python
 * dictionary padded with spaces. The size does not depend on the number of rows, so the header can
 * be overwritten when that is known. Source: NumPy's description of the format (numpy.lib.format).
 */
static void make_npy_header(const struct output *output, char header[NPY_HEADER_BYTES + 1]) {
    const int length = snprintf(header, NPY_HEADER_BYTES + 1,
                                "\x93NUMPY\x01%c\x76%c{'descr': '<f4', 'fortran_order': False, "
                                "'shape': (%zu, %zu), }",
                                0, 0, output->rows, output->dimensions);
    memset(header + length, ' ', (size_t)(NPY_HEADER_BYTES - length));
    header[NPY_HEADER_BYTES - 1] = '\n';
}

static void write_npy_header(const struct output *output) {
    char header[NPY_HEADER_BYTES + 1];
    make_npy_header(output, header);
    fwrite(header, 1, NPY_HEADER_BYTES, program_output);
}

/* If there are no locks, position_is_ours notices most other writers. */
int output_lock(bool wait) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    struct stat info;
    if (fstat(STDOUT_FILENO, &info) != 0 || !S_ISREG(info.st_mode))
        return EXIT_GOOD;
    while (fcntl(STDOUT_FILENO, wait ? F_SETLKW : F_SETLK, &whole) != 0) {
        if (errno == EACCES || errno == EAGAIN) {
            complain("another run of wisp writes to the same file");
            return EXIT_FAILED;
        }
        if (errno != EINTR)
            return EXIT_GOOD;
        if (was_interrupted())
            return EXIT_INTERRUPTED;
    }
    return EXIT_GOOD;
}

static int open_npy(struct output *output) {
    struct stat info;
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    output->start = lseek(STDOUT_FILENO, 0, SEEK_CUR);
    const bool is_file = fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode);
    if (is_file && output->start >= 0 && flags >= 0 && !(flags & O_APPEND)) {
        const int code = output_lock(false);
        if (code != EXIT_GOOD)
            return code;
        if (output->rows > 0)
            output->start = 0;
        else
            write_npy_header(output);
        return finish_output();
    }
    output->spool = output->stream = tmpfile();
    if (output->spool)
        return EXIT_GOOD;
    complain("cannot create a temporary file: %s", strerror(errno));
    return EXIT_FAILED;
}

/* Writes the header and the spooled rows to standard output. */
static int copy_spool(struct output *output) {
    char buffer[65536];
    size_t length;
    int code = finish_rows(output);
    if (code == EXIT_GOOD)
        code = output_lock(true);
    if (code == EXIT_GOOD && fseek(output->spool, 0, SEEK_SET) == 0) {
        write_npy_header(output);
        while ((length = fread(buffer, 1, sizeof buffer, output->spool)) > 0)
            fwrite(buffer, 1, length, program_output);
        code = finish_output();
    }
    if (code == EXIT_GOOD && (ferror(output->spool) || !feof(output->spool))) {
        complain("cannot read the temporary file");
        code = EXIT_FAILED;
    }
    fclose(output->spool);
    return code;
}

/* Tells whether standard output is where this run's rows end: whether no other program has written
 * or moved since. */
static bool position_is_ours(const struct output *output) {
    const uint64_t values = (uint64_t)output->rows * output->dimensions;
    const uint64_t bytes = NPY_HEADER_BYTES + values * sizeof(float);
    return lseek(STDOUT_FILENO, 0, SEEK_CUR) == output->start + (off_t)bytes;
}

/* Overwrites the header, which has the number of rows. */
static int complete_npy(const struct output *output) {
    char header[NPY_HEADER_BYTES + 1];
    const int code = finish_output();
    if (code != EXIT_GOOD)
        return code;
    make_npy_header(output, header);
    if (!position_is_ours(output)) {
        complain("the output is damaged: another program wrote to the same file");
        return EXIT_FAILED;
    }
    for (size_t done = 0; done < NPY_HEADER_BYTES;) {
        const ssize_t count = pwrite(STDOUT_FILENO, header + done, NPY_HEADER_BYTES - done,
                                     output->start + (off_t)done);
        if (count < 0 && errno != EINTR) {
            complain("cannot write the output: %s", strerror(errno));
            return EXIT_FAILED;
        }
        done += count > 0 ? (size_t)count : 0;
    }
    return EXIT_GOOD;
}

/* ---- all formats ---------------------------------------------------------------------------- */

int output_open(struct output *output, enum output_format format, size_t dimensions, size_t rows) {
    *output = (struct output){
        .format = format, .dimensions = dimensions, .rows = rows, .stream = program_output};
    if (format == OUTPUT_JSON)
        fputc('[', program_output);
    return format == OUTPUT_NPY ? open_npy(output) : EXIT_GOOD;
}

static void write_numbers(FILE *stream, const float *row, size_t n, const char *separator) {
    for (size_t i = 0; i < n; i++)
        fprintf(stream, "%s%.9g", i ? separator : "", (double)row[i]);
}

void output_json_row(FILE *stream, const float *values, size_t n) {
    fputc('[', stream);
    write_numbers(stream, values, n, ",");
    fputc(']', stream);
}

/* Writes the values that are not 0, and before them their places. */
static void write_sparse(FILE *stream, const float *row, size_t n) {
    const char *separator = "";
    fputs("{\"indices\":[", stream);
    for (size_t i = 0; i < n; i++)
        if (row[i] != 0) {
            fprintf(stream, "%s%zu", separator, i);
            separator = ",";
        }
    fputs("],\"values\":[", stream);
    separator = "";
    for (size_t i = 0; i < n; i++)
        if (row[i] != 0) {
            fprintf(stream, "%s%.9g", separator, (double)row[i]);
            separator = ",";
        }
    fputs("]}", stream);
}

/* Writes numbers as floats with their low byte first, as files of both binary formats have them. */
static void write_floats(FILE *stream, const float *row, size_t n) {
    float some[256];
    for (size_t done = 0, count; done < n; done += count) {
        count = n - done < 256 ? n - done : 256;
        memcpy(some, row + done, count * sizeof *some);
        swap_file_numbers(some, count, sizeof *some);
        fwrite(some, sizeof *some, count, stream);
    }
}

void output_begin_object(FILE *stream, const struct record *record, const char *name) {
    const struct json *object = record->object;
    fputc('{', stream);
    if (record->image) {
        fputs("\"image\":", stream);
        print_json_string(stream, record->text);
        fputc(',', stream);
    }
    for (const struct json *field = object ? object->first : NULL; field; field = field->next) {
        if (strcmp(field->key, "text") == 0 || strcmp(field->key, name) == 0 ||
            (record->image && strcmp(field->key, "image") == 0))
            continue;
        print_member(stream, field);
        fputc(',', stream);
    }
    fprintf(stream, "\"%s\":", name);
}

static void write_object(FILE *stream, const struct record *record, const float *row, size_t n,
                         bool sparse) {
    output_begin_object(stream, record, "embedding");
    if (sparse)
        write_sparse(stream, row, n);
    else
        output_json_row(stream, row, n);
    fputs("}\n", stream);
}

/* Writes what stands for the row of a record without a text, in a format of JSON. */
static void write_fault(FILE *stream, const struct record *record) {
    fputs("{\"error\":", stream);
    print_json_string(stream, wisp_text_of(record->fault));
    if (record->image) {
        fputs(",\"image\":", stream);
        print_json_string(stream, record->text);
        fputs("}\n", stream);
    } else {
        fprintf(stream, ",\"line\":%zu}\n", record->line);
    }
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
        if (record->fault)
            fputs("null", output->stream);
        else
            output_json_row(output->stream, row, n);
        break;
    case OUTPUT_TOKENS: /* output_vectors writes them */
        break;
    case OUTPUT_NDJSON:
    case OUTPUT_SPARSE:
        if (record->fault)
            write_fault(output->stream, record);
        else
            write_object(output->stream, record, row, n, output->format == OUTPUT_SPARSE);
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
    return finish_rows(output);
}

int output_vectors(struct output *output, const struct batch *batch,
                   const wisp_token_vectors *vectors) {
    for (size_t i = 0; i < batch->n; i++, output->rows++) {
        const struct record *record = &batch->records[i];
        size_t count;
        const float *row = wisp_token_vectors_get(vectors, i, &count);
        if (record->fault) {
            write_fault(output->stream, record);
            continue;
        }
        output_begin_object(output->stream, record, "embeddings");
        fputc('[', output->stream);
        for (size_t t = 0; t < count; t++, row += output->dimensions) {
            fputs(t > 0 ? "," : "", output->stream);
            output_json_row(output->stream, row, output->dimensions);
        }
        fputs("]}\n", output->stream);
    }
    return finish_rows(output);
}

int output_close(struct output *output) {
    if (output->format == OUTPUT_NPY)
        return output->spool ? copy_spool(output) : complete_npy(output);
    if (output->format == OUTPUT_JSON)
        fputs("]\n", program_output);
    return finish_output();
}
