/* SPDX-License-Identifier: Apache-2.0 */
#include "support/folder_edit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#undef fail /* cmocka has one of its own */
#include <cmocka.h>

struct opening folder_open(const struct folder *folder) {
    const char *path = temporary_path("model");
    folder_write(folder, path);
    return open_path(path, folder_size(folder));
}

void folder_check_edit(struct folder *folder, const char *file, const char *old, const char *with,
                       int status, const char *field, const char *says) {
    folder_replace(folder, file, old, with);
    const struct opening opening = folder_open(folder);
    if ((int)opening.status != status)
        fail_msg("%s: %s", with, opening.error.message);
    expect_outcome(&opening, (wisp_status)status, field, says);
    folder_release(folder);
}

void check_model_edits(const struct model_edit *edits, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const struct model_edit *e = &edits[i];
        struct folder folder;
        folder_read_model(&folder, e->model);
        folder_check_edit(&folder, e->file, e->old, e->with, e->status, e->field, e->says);
    }
}

void check_family_edits(const struct family_edit *edits, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct folder folder;
        decoder_folder_make_family(&folder, edits[i].family);
        folder_check_edit(&folder, edits[i].file, edits[i].old, edits[i].with, edits[i].status,
                          edits[i].field, edits[i].says);
    }
}
