/* SPDX-License-Identifier: Apache-2.0
 * Writes files that appear under their names only when they are complete, and handles paths.
 * input_file.h reads files. Native only. */
#ifndef WISP_HOST_FILE_H
#define WISP_HOST_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/status.h"

bool file_exists(const char *path);

bool file_is_folder(const char *path);

/* Makes the folders above a path, with this mode if they do not exist. Fails with WISP_ERROR_IO. */
wisp_status file_make_folders(const char *path, mode_t mode, wisp_error *error);

/* Writes "folder/name" to `path`. Fails with WISP_ERROR_ARGUMENT if it takes more than
 * `capacity` bytes. */
wisp_status file_join(const char *folder, const char *name, char *path, size_t capacity,
                      wisp_error *error);

/* Writes a file under a temporary name beside its own. If the path is a symbolic link, the file
 * that it leads to is replaced. The new file has the mode of the one that it replaces, and its
 * owner if this process may give files to another user. */
struct file_writer {
    FILE *stream;
    const char *path;              /* the path as the caller gave it, for errors; borrowed */
    char target[PATH_MAX];         /* the file that is replaced */
    char temporary[PATH_MAX + 32]; /* the file that is written until the commit */
    uint64_t written;              /* the number of bytes written so far */
};

/* Starts to write the file at `path`, which has to outlive the writer. Fails with
 * WISP_ERROR_ARGUMENT if the path is too long, with WISP_ERROR_IO if the file cannot be
 * created or replaced (a missing folder is such a case), and with WISP_ERROR_MEMORY. */
wisp_status file_writer_open(struct file_writer *writer, const char *path, wisp_error *error);

/* Appends `length` bytes. */
wisp_status file_write(struct file_writer *writer, const void *bytes, size_t length,
                       wisp_error *error);

/* The `write` of a sink (base/byte_sink.h) whose context is a struct file_writer. */
wisp_status file_sink_write(void *writer, const void *bytes, size_t length, wisp_error *error);

/* Writes `length` bytes over those that were written from `offset` on. */
wisp_status file_write_again(struct file_writer *writer, uint64_t offset, const void *bytes,
                             size_t length, wisp_error *error);

/* Syncs the file, gives it its name, and syncs its folder. If that fails it deletes the
 * temporary file. */
wisp_status file_writer_commit(struct file_writer *writer, wisp_error *error);

/* Deletes the temporary file. Does nothing after a commit or another discard. */
void file_writer_discard(struct file_writer *writer);

/* Describes a file well enough to tell that another one took its place, or that it was written to.
 */
struct file_mark {
    char path[PATH_MAX]; /* absolute, without symbolic links */
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of the last change */
};

/* Returns false if there is no such file. */
bool file_mark(const char *path, struct file_mark *mark);

/* Returns whether two marks of one path describe the same file with the same bytes. */
bool file_mark_same(const struct file_mark *a, const struct file_mark *b);

/* Syncs the folder that holds the file at `path`: a rename is durable only then. */
void file_sync_folder_of(const char *path);

/* Fails if file_writer_open would, as far as that can be known without creating a file. Long
 * work that ends with writing a file calls it first. */
wisp_status file_check_output(const char *path, wisp_error *error);

#endif
