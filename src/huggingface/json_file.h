/* SPDX-License-Identifier: Apache-2.0
 * The JSON files of a folder, and errors about them. */
#ifndef WISP_HUGGINGFACE_JSON_FILE_H
#define WISP_HUGGINGFACE_JSON_FILE_H

#include "base/json.h"
#include "formats/directory.h"

enum { HF_PATH_BYTES = 4096 };

/* Parses folder/name, which must be a value of `type`, into dir's arena. Where the file is absent:
 * *root is NULL, and that is an error only if it is `required`. */
wisp_status hf_read_json(struct directory *dir, const char *folder, const char *name, bool required,
                         enum json_type type, const struct json **root, wisp_error *error);

/* Returns folder/file as errors name it, in a buffer of HF_PATH_BYTES. */
const char *hf_path_of(char *path, const char *folder, const char *file);

/* Reports a value of a JSON file that has not the type it must have: "`wanted` belongs here". */
wisp_status hf_wrong_value(const char *folder, const char *file, const char *field,
                           const char *wanted, wisp_error *error);

/* Returns how errors show a value; "(none)" for NULL. */
const char *hf_shown(const struct json *value);

/* Whether this is a name within a folder: no file may make us read files elsewhere. */
bool hf_is_plain_name(const char *name);

#endif
