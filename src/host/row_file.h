/* SPDX-License-Identifier: Apache-2.0
 * A file of rows of one length, by keys. It has room for a fixed number of them: a row that comes
 * when its place is taken replaces the least recently used one of a few. Any number of
 * processes read and write a file at the same time without waiting for each other. Each row has a
 * checksum, so that one that is damaged, or written by two at a time, counts as absent. Native
 * only. */
#ifndef WISP_HOST_ROW_FILE_H
#define WISP_HOST_ROW_FILE_H

#include <limits.h>
#include <stdbool.h>

#include "base/status.h"

enum { ROW_KEY_BYTES = 32 };

struct row_file {
    int descriptor;
    size_t row_bytes;
    uint64_t sets;
    char path[PATH_MAX + 80];
};

/* Opens the file of a digest in a folder of this user, and makes both if they do not exist. It has
 * at most `bytes`. A file of another size or length of rows is replaced. Then files that no process
 * uses are deleted, those used longest ago first, until all in the folder have at most `bytes`.
 * `option` is what names another folder in errors (host/own_file.h). Fails with WISP_ERROR_ARGUMENT
 * if not even a few rows have room, and with WISP_ERROR_IO. */
wisp_status row_file_open(struct row_file *file, const char *folder,
                          const unsigned char digest[ROW_KEY_BYTES], size_t row_bytes,
                          uint64_t bytes, const char *option, wisp_error *error);

/* Does nothing to a file that is not open: whose descriptor is -1. */
void row_file_close(struct row_file *file);

/* Reads the row of a key into `entry` [ROW_KEY_BYTES + row_bytes], behind the key. Returns false if
 * there is none, or it cannot be read. */
bool row_file_read(const struct row_file *file, const unsigned char key[ROW_KEY_BYTES],
                   unsigned char *entry);

/* Writes the row that is in `entry` behind its key. Returns false if it cannot be written,
 * which damages no other row but that whose place it takes. */
bool row_file_write(const struct row_file *file, const unsigned char *entry);

#endif
