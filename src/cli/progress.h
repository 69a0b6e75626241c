/* SPDX-License-Identifier: Apache-2.0
 * Progress of long work, shown in a line on stderr if that is a terminal. */
#ifndef WISP_CLI_PROGRESS_H
#define WISP_CLI_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

struct progress {
    const char *what; /* the things counted: "texts", "tensors" */
    double started, shown;
    bool visible;
    bool logs;     /* elsewhere than on a terminal, print a line each minute */
    size_t before; /* things that were done before this run, and their fraction */
    double before_part;
};

void progress_start(struct progress *progress, const char *what);

/* Shows that `done` things are done, which are `fraction` of all. A negative fraction is unknown.
 */
void progress_show(struct progress *progress, size_t done, double fraction);

/* Shows that `done` of `total` things are done. `progress` is a struct progress: the function is
 * what wisp_convert calls. Returns false if Ctrl-C came. */
bool progress_of_total(void *progress, size_t done, size_t total);

/* Removes the line. */
void progress_end(struct progress *progress);

#endif
