/* SPDX-License-Identifier: Apache-2.0
 * Keeps the files of a folder within a bound. Native only. */
#ifndef WISP_HOST_OLD_FILES_H
#define WISP_HOST_OLD_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deletes files of the folder whose names `counts` accepts, those used longest ago first, until all
 * of them take at most `most` bytes of the disk; if that is 0, empty files too. A file that
 * somebody has locked stays. Returns how many were deleted. */
size_t old_files_delete(const char *folder, uint64_t most, bool (*counts)(const char *name));

#endif
