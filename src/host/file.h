/* SPDX-License-Identifier: Apache-2.0
 * Files: whole ones mapped for reading, and writing that is all or nothing. Native only. */
#ifndef WISP_HOST_FILE_H
#define WISP_HOST_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

struct mapped_file {
    const void *data; /* NULL when the file is empty */
    uint64_t size;
};

/* Maps a regular file for reading. */
wisp_status file_map(const char *path, struct mapped_file *file, wisp_error *error);

void file_unmap(struct mapped_file *file);

bool file_exists(const char *path);

bool file_is_folder(const char *path);

/* folder/name, in `path` of `capacity` bytes; fails where it does not fit. */
wisp_status file_join(const char *folder, const char *name, char *path, size_t capacity,
                      wisp_error *error);

/* A file that is written under a temporary name beside its own. A symbolic link is followed: the
 * file it leads to is replaced. The new file has the mode of the one it replaces, and its owner
 * where this process may give files away. */
struct file_writer {
    FILE *stream;
    const char *path;      /* as it was given, for errors; borrowed */
    char target[PATH_MAX]; /* the file that is replaced */
    char temporary[PATH_MAX + 32];
    uint64_t written;
};

wisp_status file_writer_open(struct file_writer *writer, const char *path, wisp_error *error);

wisp_status file_write(struct file_writer *writer, const void *bytes, size_t length,
                       wisp_error *error);

/* Syncs the file and its folder and gives it its name. On failure the temporary file is gone. */
wisp_status file_writer_commit(struct file_writer *writer, wisp_error *error);

/* Drops what was written. Does nothing after a commit or another discard. */
void file_writer_discard(struct file_writer *writer);

#endif
