/* SPDX-License-Identifier: Apache-2.0
 * Files that commands write: a file that exists is replaced only if it is of the kind that is
 * written, or if the user says so. */
#ifndef WISP_CLI_OUTPUT_FILE_H
#define WISP_CLI_OUTPUT_FILE_H

#include <stdbool.h>

enum output_kind {
    OUTPUT_MODEL,
    OUTPUT_INDEX,
    OUTPUT_STATE,
    OUTPUT_REPORT,
    OUTPUT_PICTURE,
    OUTPUT_MODULE
};

/* Checks that the file at `path` can be written, is not the standard output, too, and, without
 * `force`, that an existing file is empty or of this kind. Returns an exit code, after complaining
 * if it is not EXIT_GOOD. */
int check_output(const char *what, const char *path, enum output_kind kind, bool force);

#endif
