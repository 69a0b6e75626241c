/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "formats/hf.h"

#include <string.h>

enum { PATH_BYTES = 4096 };

wisp_status hf_read_json(struct directory *dir, const char *folder, const char *name, bool required,
                         const struct json **root, wisp_error *error) {
    char path[PATH_BYTES];
    struct mapped_file file;
    *root = NULL;
    TRY(file_join(folder, name, path, sizeof path, error));
    if (!required && !file_exists(path))
        return WISP_OK;
    TRY(file_map(path, &file, error));
    /* Errors keep pointing at the name after the path's buffer is gone. */
    const char *kept = arena_copy_text(&dir->arena, path, strlen(path));
    const wisp_status status =
        kept ? json_parse(&dir->arena, file.data, (size_t)file.size, kept, root, error)
             : fail_memory(error, strlen(path));
    file_unmap(&file);
    return status;
}
