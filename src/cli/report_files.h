/* SPDX-License-Identifier: Apache-2.0
 * Reports as JSON and as a picture, in two files whose names differ only in their endings. */
#ifndef WISP_CLI_REPORT_FILES_H
#define WISP_CLI_REPORT_FILES_H

#include <stdio.h>

#include "cli/cli.h"

/* Checks that BASE.json and BASE.svg can be written, as check_output does (cli/output_file.h). */
int report_files_check(const char *base, bool force);

/* Writes BASE.json and BASE.svg, whose contents the functions print for the report. Returns an exit
 * code, after complaining if it is not EXIT_GOOD. */
int report_files_write(const char *base, void (*json)(FILE *stream, const void *report),
                       void (*svg)(FILE *stream, const void *report), const void *report);

#endif
