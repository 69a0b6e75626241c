/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/source.h"

#include <string.h>

#include "host/file.h"
#include "host/input_file.h"
#include "huggingface/json_file.h"

wisp_status hf_add_source(struct directory *dir, const char *folder, const char *name,
                          wisp_error *error) {
    char path[HF_PATH_BYTES];
    wisp_source source;
    uint32_t index;
    TRY(file_join(folder, name, path, sizeof path, error));
    const char *kept = arena_copy_text(&dir->arena, path, strlen(path));
    if (!kept)
        return fail_memory(error, strlen(path));
    TRY(file_source_open(kept, &source, error));
    return directory_add_source(dir, &source, &index, error);
}
