/* SPDX-License-Identifier: Apache-2.0
 * `wisp index build` and `wisp index add`: embed records and add them to an index. */
#ifndef WISP_CLI_INDEX_BUILD_H
#define WISP_CLI_INDEX_BUILD_H

#include "cli/images.h"
#include "cli/prompt.h"

struct index_build {
    struct model_arguments model;
    struct input input;
    const char *path; /* of the index */
    wisp_index_kind kind;
    unsigned long dimensions; /* 0: the model's */
    struct prompt_choice prompt;
    bool no_text, chunk, resume, images;
    bool is_new; /* not all records may be without a text */
};

/* Embeds the records of the input and adds them to *index, which is made first if it is NULL. With
 * `resume` the index is saved now and then. *added is the number of pieces that were added, and
 * *faults that of malformed records, which were complained of. Returns an exit code. */
int index_build(struct index_build *build, wisp_index **index, size_t *added, size_t *faults);

/* Drops removed rows if they are more than a quarter of all, and writes the file. Returns an exit
 * code. */
int save_index(wisp_index *index, const char *path);

#endif
