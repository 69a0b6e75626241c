/* SPDX-License-Identifier: Apache-2.0
 * tools/udf_template.mjs describes the files that this appends to, and js/program/udf-module.js
 * does the same. */
#include "cli/udf_module.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/byte_order.h"
#include "host/file.h"
#include "host/input_file.h"

static const char section_name[] = "wisp-udf";

enum { NAME_LENGTH = sizeof section_name - 1, LEB_BYTES = 5, PLACE_BYTES = 4 };

/* A template, and where it has the numbers that change with the model. */
struct template {
    struct file_bytes bytes;
    unsigned char *size, *section, *segment; /* of the model, the last section and its segment */
    wisp_text sql;
};

/* ---- the template --------------------------------------------------------------------------- */

/* Reads a number in LEB128 of at most LEB_BYTES. Returns the byte after it, or NULL. */
static unsigned char *read_leb(unsigned char *at, const unsigned char *end, uint64_t *value) {
    *value = 0;
    for (unsigned i = 0; i < LEB_BYTES && at < end; i++) {
        *value |= (uint64_t)(*at & 0x7F) << (7 * i);
        if (!(*at++ & 0x80))
            return at;
    }
    return NULL;
}

static void write_leb(unsigned char *at, uint64_t value) {
    for (unsigned i = 0; i < LEB_BYTES; i++)
        at[i] = (unsigned char)(value >> (7 * i) & 0x7F) | (i + 1 < LEB_BYTES ? 0x80 : 0);
}

/* Finds what the first section says. Returns false if it is not that of a template. */
static bool find_places(struct template *t) {
    unsigned char *const begin = (unsigned char *)t->bytes.data, *end = begin + t->bytes.size;
    uint64_t length = 0;
    if (t->bytes.size < 16 || memcmp(begin, "\0asm\1\0\0\0", 9) != 0)
        return false;
    unsigned char *at = read_leb(begin + 9, end, &length);
    const size_t before = 1 + NAME_LENGTH + 3 * PLACE_BYTES; /* the SQL */
    if (!at || length < before || length > (uint64_t)(end - at) || *at != NAME_LENGTH ||
        memcmp(at + 1, section_name, NAME_LENGTH) != 0)
        return false;
    const struct {
        unsigned char **place;
        size_t bytes;
    } numbers[] = {{&t->size, sizeof(double)}, {&t->section, LEB_BYTES}, {&t->segment, LEB_BYTES}};
    for (size_t i = 0; i < 3; i++) {
        const uint32_t place = load_u32(at + 1 + NAME_LENGTH + i * PLACE_BYTES);
        if (place + numbers[i].bytes > t->bytes.size)
            return false;
        *numbers[i].place = begin + place;
    }
    t->sql = (wisp_text){(char *)at + before, (size_t)length - before};
    return true;
}

static wisp_status open_template(struct template *t, const char *path, wisp_error *error) {
    *t = (struct template){0};
    TRY(file_read(path, &t->bytes, error));
    return find_places(t)
               ? WISP_OK
               : fail(error, WISP_ERROR_FORMAT, path, NULL, "not a module of wisp for databases");
}

/* ---- the module ----------------------------------------------------------------------------- */

/* Writes the numbers of a model of so many bytes into the template. */
static wisp_status set_size(struct template *t, uint64_t bytes, wisp_error *error) {
    uint64_t section;
    const double size = (double)bytes;
    uint64_t bits;
    read_leb(t->section, t->section + LEB_BYTES, &section);
    if (section + bytes > UINT32_MAX)
        return fail(error, WISP_ERROR_UNSUPPORTED, NULL, "udf",
                    "the model has %llu bytes, more than a module holds",
                    (unsigned long long)bytes);
    memcpy(&bits, &size, sizeof bits);
    store_u64(t->size, bits);
    write_leb(t->section, section + bytes);
    write_leb(t->segment, bytes);
    return WISP_OK;
}

static wisp_status copy_model(const char *path, const wisp_source *source,
                              struct file_writer *writer, wisp_error *error) {
    enum { PART = 1 << 20 };
    char *part = malloc(PART);
    wisp_status status = part ? WISP_OK : fail_memory(error, PART);
    for (uint64_t at = 0; at < source->size && status == WISP_OK;) {
        const size_t n = source->size - at < PART ? (size_t)(source->size - at) : PART;
        if (source->read(source->context, at, part, n) != 0)
            status = fail(error, WISP_ERROR_IO, path, NULL, "cannot be read, or has changed");
        else
            status = file_write(writer, part, n, error);
        at += n;
    }
    free(part);
    return status;
}

static wisp_status write_module(struct template *t, const char *model, const char *output,
                                wisp_error *error) {
    wisp_source source;
    struct file_writer writer;
    TRY(file_source_open(model, &source, error));
    wisp_status status = set_size(t, source.size, error);
    if (status == WISP_OK)
        status = file_writer_open(&writer, output, error);
    if (status == WISP_OK) {
        status = file_write(&writer, t->bytes.data, t->bytes.size, error);
        if (status == WISP_OK)
            status = copy_model(model, &source, &writer, error);
        if (status == WISP_OK)
            status = file_writer_commit(&writer, error);
        file_writer_discard(&writer);
    }
    source.close(source.context);
    return status;
}

/* ---- the SQL -------------------------------------------------------------------------------- */

static void print_quoted(const char *text) {
    for (; *text; text++)
        fprintf(program_output, strchr("'\\", *text) ? "\\%c" : "%c", *text);
}

/* Prints the SQL of a template with the name of the module and of its file. */
static int print_sql(wisp_text sql, const char *file) {
    const char *at = sql.bytes, *end = sql.bytes + sql.length;
    while (at < end) {
        const size_t left = (size_t)(end - at);
        if (left >= 6 && memcmp(at, "{name}", 6) == 0) {
            fputs("wisp", program_output);
            at += 6;
        } else if (left >= 6 && memcmp(at, "{file}", 6) == 0) {
            print_quoted(file);
            at += 6;
        } else
            fputc(*at++, program_output);
    }
    return finish_output();
}

wisp_status udf_module_try(const char *model_path, wisp_error *error) {
    const wisp_model_options options = {.portable = true};
    const wisp_text text = wisp_text_of("The cat sat on the mat.");
    wisp_model *model = NULL;
    wisp_session *session = NULL;
    float *row = NULL;
    wisp_status status = wisp_model_open(model_path, &options, &model, error);
    if (status == WISP_OK)
        status = wisp_session_open(model, NULL, &session, error);
    if (status == WISP_OK) {
        const size_t bytes = wisp_model_dimensions(model) * sizeof *row;
        row = malloc(bytes);
        status = row ? wisp_embed(session, &text, 1, NULL, row, error) : fail_memory(error, bytes);
    }
    free(row);
    wisp_session_close(session);
    wisp_model_close(model);
    return status;
}

int udf_module_write(const char *model, const char *output, bool relaxed) {
    const char *name = relaxed ? "wisp-udf-relaxed.wasm" : "wisp-udf-simd128.wasm";
    char path[PATH_MAX];
    struct template t;
    wisp_error error;
    if (!find_shipped("js", name, path, sizeof path)) {
        complain("there is no %s beside the program: installations with wisp's WebAssembly modules "
                 "have it (make wasm)",
                 name);
        return EXIT_FAILED;
    }
    wisp_status status = open_template(&t, path, &error);
    if (status == WISP_OK)
        status = write_module(&t, model, output, &error);
    const int code = status == WISP_OK ? print_sql(t.sql, output) : complain_of(&error);
    free(t.bytes.data);
    return code;
}
