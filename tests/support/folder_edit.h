/* SPDX-License-Identifier: Apache-2.0
 * One change to a Hugging Face folder, and what opening it then says. */
#ifndef TESTS_FOLDER_EDIT_H
#define TESTS_FOLDER_EDIT_H

#include "support/decoder_folder.h"
#include "support/folder.h"
#include "support/opening.h"

/* Writes the folder and opens it. */
struct opening folder_open(const struct folder *folder);

/* Replaces the first `old` in a file of the folder, opens it, expects status, field and message as
 * expect_outcome does, and releases the folder. */
void folder_check_edit(struct folder *folder, const char *file, const char *old, const char *with,
                       int status, const char *field, const char *says);

/* A change to a folder of tests/data/models. */
struct model_edit {
    const char *model, *file, *old, *with;
    int status;
    const char *field, *says;
};
void check_model_edits(const struct model_edit *edits, size_t count);

/* A change to the folder of a family of decoders. */
struct family_edit {
    enum decoder_family family;
    const char *file, *old, *with;
    int status;
    const char *field, *says;
};
void check_family_edits(const struct family_edit *edits, size_t count);

#endif
