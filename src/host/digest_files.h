/* SPDX-License-Identifier: Apache-2.0
 * A folder of files that are named by digests of what is in them. A file never changes: it appears
 * complete, and is deleted to make room for others. So any number of processes share a folder
 * without waiting for each other. Native only. */
#ifndef WISP_HOST_DIGEST_FILES_H
#define WISP_HOST_DIGEST_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { DIGEST_BYTES = 32 };

struct digest_files {
    char path[PATH_MAX];
    uint64_t bytes; /* that all files together have at most */
};

/* Opens a folder of this user, and makes it if it does not exist. `option` is what names another
 * one in errors (host/own_file.h). */
wisp_status digest_files_open(struct digest_files *files, const char *path, uint64_t bytes,
                              const char *option, wisp_error *error);

bool digest_files_has(const struct digest_files *files, const unsigned char *digest);

/* Reads a file of at most `capacity` bytes, and sets *length. *found is false if there is no such
 * file. Fails with WISP_ERROR_IO if it cannot be read, has more bytes, or is not a regular file of
 * this user. */
wisp_status digest_files_read(const struct digest_files *files, const unsigned char *digest,
                              void *bytes, size_t capacity, size_t *length, bool *found,
                              wisp_error *error);

/* Writes a file. It is on the disk before it has its name. */
wisp_status digest_files_write(const struct digest_files *files, const unsigned char *digest,
                               const void *bytes, size_t length, wisp_error *error);

/* Says that a file was used now. Of files that are used together those with a higher `rank` go
 * first when room is made. */
void digest_files_use(const struct digest_files *files, const unsigned char *digest, size_t rank);

void digest_files_remove(const struct digest_files *files, const unsigned char *digest);

/* Deletes the files that were used longest ago until all others keep the bound, and what writers
 * left that ended before they were done. Returns how many files were deleted to keep the bound. */
size_t digest_files_make_room(const struct digest_files *files);

#endif
