/* SPDX-License-Identifier: Apache-2.0 */
#include "huggingface/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tokens.h"
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
    return fail(error, WISP_ERROR_FORMAT, hf_path_of(path, folder, file), field, "expected %s",
                wanted);
}

bool hf_is_plain_name(const char *name) {
    return *name && *name != '.' && !strpbrk(name, "/\\");
}

bool hf_id_of_key(const struct json *member, uint64_t *id) {
    const struct json number = {
        .type = JSON_NUMBER, .text = member->key, .text_length = member->key_length};
    return member->key_length > 0 && json_to_u64(&number, id);
}

bool hf_read_bool(const struct json *entry, const char *key, bool *value) {
    const struct json *member = json_get(entry, key);
    return json_is_absent(member) || json_to_bool(member, value);
}

bool hf_read_added_flags(const struct json *entry, uint8_t *flags, bool *special) {
    static const struct {
        const char *key;
        uint8_t flag;
    } known[] = {{"single_word", ADDED_SINGLE_WORD},
                 {"lstrip", ADDED_STRIP_LEFT},
                 {"rstrip", ADDED_STRIP_RIGHT},
                 {"normalized", ADDED_NORMALIZED}};
    *flags = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        bool set = false;
        if (!hf_read_bool(entry, known[i].key, &set))
            return false;
        *flags |= set ? known[i].flag : 0;
    }
    return hf_read_bool(entry, "special", special);
}

static wisp_status parse(struct directory *dir, const struct file_bytes *file, const char *path,
                         enum json_type type, const struct json **root, wisp_error *error) {
    /* An error points to its file name after this function has returned. */
    const char *kept = arena_copy_text(&dir->arena, path, strlen(path));
    if (!kept)
        return fail_memory(error, strlen(path));
    TRY(json_parse(&dir->arena, file->data, file->size, kept, root, error));
    if ((*root)->type != type)
        return fail(error, WISP_ERROR_FORMAT, kept, NULL, "expected %s",
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
