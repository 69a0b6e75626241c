/* SPDX-License-Identifier: Apache-2.0
 * Reads files that other programs may truncate or overwrite meanwhile. Files are never mapped: the
 * system kills a process that touches a mapped page whose file has become shorter. Native only. */
#ifndef WISP_HOST_INPUT_FILE_H
#define WISP_HOST_INPUT_FILE_H

#include "base/status.h"

/* The whole contents of a small file. */
struct file_bytes {
    char *data;
    size_t size;
};

/* Reads a whole file. Fails with WISP_ERROR_NOT_FOUND if it does not exist, with
 * WISP_ERROR_MEMORY, and with WISP_ERROR_IO if it is not a regular file, cannot be read, or changes
 * while it is read. The caller calls free(bytes->data). */
wisp_status file_read(const char *path, struct file_bytes *bytes, wisp_error *error);

/* Opens a file as a source of a model: lasting, and with may_change set. The file stays open until
 * the source is closed. `path` becomes the name of the source and has to outlive it.
 *
 * A read returns WISP_SOURCE_CHANGED if the file is shorter than it was when it was opened.
 * Until file_source_loaded is called, it also does so if the file was modified since, so that
 * one model is never made of two versions of its file. Fails as file_read does. */
wisp_status file_source_open(const char *path, wisp_source *source, wisp_error *error);

/* Says that the model has been loaded: whoever reads from the source from now on checks the bytes
 * (layers/token_embedding.h). The file's times then no longer matter, since renaming a file or
 * changing its mode also changes them. Must be called before several threads read. Does nothing for
 * a source of another kind. */
void file_source_loaded(const wisp_source *source);

/* Returns whether a source is one of file_source_open. */
bool file_source_is(const wisp_source *source);

/* Tells the system that bytes [offset, offset + length) of a source of file_source_open, which it
 * has, will be read soon, so that it reads them meanwhile. */
void file_source_expect(const wisp_source *source, uint64_t offset, uint64_t length);

/* Checks that the file behind a source of file_source_open holds its bytes up to `end`, and was not
 * written to since it was opened: its size and its time of modification are the same. A file that
 * another one has replaced under its name is the same file to whoever opened it. Fails with
 * WISP_ERROR_IO, and names missing bytes, which begin at `start` or later. */
wisp_status file_source_check(const wisp_source *source, uint64_t start, uint64_t end,
                              wisp_error *error);

/* Returns whether two sources of file_source_open were opened on one file, which was not modified
 * between. */
bool file_source_same(const wisp_source *a, const wisp_source *b);

#endif
