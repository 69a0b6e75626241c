/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/file.h"
#include "host/input_file.h"

const char *hf_shown(const struct json *value) {
    static const char *const names[] = {"null", "false", "true", "", "", "an array", "an object"};
    if (!value)
        return "(none)";
    return value->text ? value->text : names[value->type];
}

const char *hf_path_of(char *path, const char *folder, const char *file) {
    const int length = snprintf(path, HF_PATH_BYTES, "%s/%s", folder, file);
    return length < 0 ? file : path;
}

wisp_status hf_wrong_value(const char *folder, const char *file, const char *field,
                           const char *wanted, wisp_error *error) {
    char path[HF_PATH_BYTES];
    return fail(error, WISP_ERROR_FORMAT, hf_path_of(path, folder, file), field, "%s belongs here",
                wanted);
}

bool hf_is_plain_name(const char *name) {
    return *name && *name != '.' && !strpbrk(name, "/\\");
}

static wisp_status parse(struct directory *dir, const struct file_bytes *file, const char *path,
                         enum json_type type, const struct json **root, wisp_error *error) {
    /* An error points to its file name after this function has returned. */
    const char *kept = arena_copy_text(&dir->arena, path, strlen(path));
    if (!kept)
        return fail_memory(error, strlen(path));
    TRY(json_parse(&dir->arena, file->data, file->size, kept, root, error));
    if ((*root)->type != type)
        return fail(error, WISP_ERROR_FORMAT, kept, NULL, "%s belongs here",
                    type == JSON_ARRAY ? "an array" : "an object");
    return WISP_OK;
}

wisp_status hf_read_json(struct directory *dir, const char *folder, const char *name, bool required,
                         enum json_type type, const struct json **root, wisp_error *error) {
    char path[HF_PATH_BYTES];
    struct file_bytes file;
    *root = NULL;
    TRY(file_join(folder, name, path, sizeof path, error));
    if (!required && !file_exists(path))
        return WISP_OK;
    TRY(file_read(path, &file, error));
    const wisp_status status = parse(dir, &file, path, type, root, error);
    free(file.data);
    return status;
}
