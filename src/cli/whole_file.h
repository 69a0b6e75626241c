/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WISP_CLI_WHOLE_FILE_H
#define WISP_CLI_WHOLE_FILE_H

#include <stddef.h>
#include <stdio.h>

/* Reads all of a text file ("-": standard input), at most 64 MB, without a byte order mark, with
 * newlines instead of CR LF, and without a newline at its end.
 * *text must be NULL. Returns an exit code, after complaining if it is not EXIT_GOOD. The caller
 * frees *text in either case. */
int read_whole_file(const char *path, char **text, size_t *length);

/* Writes a file that `print` prints; it appears whole or not at all. Returns an exit code, after
 * complaining if it is not EXIT_GOOD. */
int write_whole_file(const char *path, void (*print)(FILE *stream, const void *context),
                     const void *context);

#endif
