/* SPDX-License-Identifier: Apache-2.0
 * host/file.h and host/input_file.h for the module that converts: files are JavaScript's. It checks
 * the output's path before a conversion, and gives the file its name after it, so only the bytes
 * pass through here. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "host/file.h"
#include "host/input_file.h"

#define IMPORT(name) __attribute__((import_module("wisp"), import_name(name)))

/* Results of host_kind. */
enum { NO_FILE, SOME_FILE, SOME_FOLDER };

/* Results of host_open and host_read that are neither a file nor 0. A file that has changed is
 * WISP_SOURCE_CHANGED. */
enum { MISSING = -1, FAILED = -3, NOT_REGULAR = -4 };

IMPORT("kind") int host_kind(const char *path);

/* Opens a file for reading, and sets *size. Returns its number. */
IMPORT("open") int host_open(const char *path, double *size);

IMPORT("read") int host_read(int file, double offset, void *buffer, size_t length);
IMPORT("close") void host_close(int file);

/* Appends bytes to the output, or writes over those from `offset` on. Return 0, or FAILED. */
IMPORT("write") int host_write(const void *bytes, size_t length);
IMPORT("write_again") int host_write_again(double offset, const void *bytes, size_t length);

/* Writes the reason for the last result FAILED, terminated. */
IMPORT("reason") void host_reason(char *text, size_t capacity);

static wisp_status fail_by_host(wisp_error *error, const char *path, const char *action) {
    char reason[256];
    host_reason(reason, sizeof reason);
    return fail(error, WISP_ERROR_IO, path, NULL, "cannot %s: %s", action, reason);
}

/* ---- paths ---------------------------------------------------------------------------------- */

bool file_exists(const char *path) {
    return host_kind(path) != NO_FILE;
}

bool file_is_folder(const char *path) {
    return host_kind(path) == SOME_FOLDER;
}

wisp_status file_join(const char *folder, const char *name, char *path, size_t capacity,
                      wisp_error *error) {
    const int length = snprintf(path, capacity, "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= capacity)
        return fail(error, WISP_ERROR_ARGUMENT, folder, name, "the path is too long");
    return WISP_OK;
}

/* ---- input ---------------------------------------------------------------------------------- */

/* The context of a source is the number of its file. */
static int file_of(void *context) {
    return (int)(intptr_t)context;
}

static int read_input(void *context, uint64_t offset, void *buffer, size_t length) {
    return host_read(file_of(context), (double)offset, buffer, length);
}

static void close_input(void *context) {
    host_close(file_of(context));
}

wisp_status file_source_open(const char *path, wisp_source *source, wisp_error *error) {
    double size;
    const int file = host_open(path, &size);
    if (file == MISSING)
        return fail(error, WISP_ERROR_NOT_FOUND, path, NULL,
                    "cannot open: No such file or directory");
    if (file == NOT_REGULAR)
        return fail(error, WISP_ERROR_IO, path, NULL, "not a regular file");
    if (file < 0)
        return fail_by_host(error, path, "open");
    *source = (wisp_source){.size = (uint64_t)size,
                            .read = read_input,
                            .close = close_input,
                            .context = (void *)(intptr_t)file, /* never followed */
                            .name = path,
                            .lasting = true,
                            .may_change = true};
    return WISP_OK;
}

wisp_status file_read(const char *path, struct file_bytes *bytes, wisp_error *error) {
    wisp_source source;
    *bytes = (struct file_bytes){0};
    TRY(file_source_open(path, &source, error));
    wisp_status status = WISP_OK;
    if (!checked_size(source.size, &bytes->size) || bytes->size == SIZE_MAX ||
        !(bytes->data = malloc(bytes->size + 1)))
        status = fail_memory(error, source.size);
    const int failed =
        status == WISP_OK ? read_input(source.context, 0, bytes->data, bytes->size) : 0;
    if (failed == WISP_SOURCE_CHANGED)
        status = fail(error, WISP_ERROR_IO, path, NULL, "the file changed while it was read");
    else if (failed)
        status = fail_by_host(error, path, "read");
    close_input(source.context);
    if (status != WISP_OK) {
        free(bytes->data);
        *bytes = (struct file_bytes){0};
    }
    return status;
}

/* ---- output --------------------------------------------------------------------------------- */

/* Collects what is written in small pieces, because a call of JavaScript takes longer than a copy.
 * An instance writes one file. */
static struct {
    unsigned char bytes[256 * 1024];
    size_t length;
} held;

static wisp_status flush(const struct file_writer *writer, wisp_error *error) {
    const size_t length = held.length;
    held.length = 0;
    return length == 0 || host_write(held.bytes, length) == 0
               ? WISP_OK
               : fail_by_host(error, writer->path, "write");
}

wisp_status file_writer_open(struct file_writer *writer, const char *path, wisp_error *error) {
    (void)error;
    *writer = (struct file_writer){.path = path};
    return WISP_OK;
}

wisp_status file_write(struct file_writer *writer, const void *bytes, size_t length,
                       wisp_error *error) {
    const unsigned char *from = bytes;
    writer->written += length;
    while (length > 0) {
        const size_t room = sizeof held.bytes - held.length;
        const size_t step = length < room ? length : room;
        memcpy(held.bytes + held.length, from, step);
        held.length += step;
        from += step;
        length -= step;
        if (held.length == sizeof held.bytes)
            TRY(flush(writer, error));
    }
    return WISP_OK;
}

wisp_status file_write_again(struct file_writer *writer, uint64_t offset, const void *bytes,
                             size_t length, wisp_error *error) {
    TRY(flush(writer, error));
    return host_write_again((double)offset, bytes, length) == 0
               ? WISP_OK
               : fail_by_host(error, writer->path, "write");
}

wisp_status file_writer_commit(struct file_writer *writer, wisp_error *error) {
    return flush(writer, error);
}

/* JavaScript discards what was written if the conversion fails. */
void file_writer_discard(struct file_writer *writer) {
    (void)writer;
}

wisp_status file_check_output(const char *path, wisp_error *error) {
    (void)path;
    (void)error;
    return WISP_OK;
}
