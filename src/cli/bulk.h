/* SPDX-License-Identifier: Apache-2.0
 * Rows in a file that a later run continues, so that a run that is killed loses nothing.
 *
 * Beside the file FILE is FILE.progress, a line of JSON: the settings of the run, how many rows
 * and bytes of FILE are complete, and a digest of the texts of these rows. It is replaced after
 * each batch, when the batch is on disk. A run that continues truncates FILE to these bytes and
 * skips these texts. As a row has the same bits in any batch, FILE becomes what one run would have
 * written. */
#ifndef WISP_CLI_BULK_H
#define WISP_CLI_BULK_H

#include <limits.h>

#include "base/sha256.h"
#include "cli/input.h"

/* Settings that must be the same in all runs that write a file. */
struct bulk_settings {
    char model[65];  /* a digest of what the model computes with the options of the run */
    char format[16]; /* of the file */
    char dimensions[24], shard[48];
};

struct bulk {
    const char *path;   /* NULL: rows go to standard output, and none of these functions is
                           called */
    bool resume, force; /* continue a file; replace a file */
    struct bulk_settings settings;
    char progress[PATH_MAX]; /* the path of the file with this name */
    struct sha256 texts;     /* of the records so far */
    uint64_t rows, bytes;    /* that the file has */
    uint64_t resumed;        /* rows that it had before this run */
    char expected[65];       /* the digest of their texts */
};

/* Opens the file and makes it the standard output, so that what holds for a redirected output holds
 * for it, too. Without `resume` and `force` a file with contents is refused. Sets `rows` and
 * `bytes` to what the file has from an earlier run. Returns, as the functions below, an exit code,
 * after complaining if it is not EXIT_GOOD. */
int bulk_open(struct bulk *bulk, const struct bulk_settings *settings);

/* Removes the records from a batch that the file already has. Fails with EXIT_INPUT if their texts
 * are not those of the earlier run. */
int bulk_skip(struct bulk *bulk, struct batch *batch);

/* Fails if the input ended before all rows that the file already has. */
int bulk_check_end(const struct bulk *bulk);

/* Notes that the records of a batch are written to the standard output, and that it was flushed. */
int bulk_wrote(struct bulk *bulk, const struct batch *batch);

#endif
