/* SPDX-License-Identifier: Apache-2.0
 * The JSON files of a folder, and errors about them. */
#ifndef WISP_HUGGINGFACE_JSON_FILE_H
#define WISP_HUGGINGFACE_JSON_FILE_H

#include "base/json.h"
#include "formats/directory.h"

enum { HF_PATH_BYTES = 4096 };

/* Parses folder/name, which must be a value of `type`, into dir's arena. If the file is absent,
 * *root is NULL; that is an error only if the file is `required`. */
wisp_status hf_read_json(struct directory *dir, const char *folder, const char *name, bool required,
                         enum json_type type, const struct json **root, wisp_error *error);

/* Writes folder/file to `path` [HF_PATH_BYTES] for an error, cut if it is too long, and returns
 * it. */
const char *hf_path_of(char *path, const char *folder, const char *file);

/* Reports a value of the wrong type as WISP_ERROR_FORMAT: "`wanted` belongs here". */
wisp_status hf_wrong_value(const char *folder, const char *file, const char *field,
                           const char *wanted, wisp_error *error);

/* Returns how errors show a value; "(none)" for NULL. */
const char *hf_shown(const struct json *value);

/* Returns whether a name stands for a file of the folder itself: no file may make wisp read files
 * elsewhere. */
bool hf_is_plain_name(const char *name);

/* Reads a member of `object`. If that is absent or null, *value stays. Returns false if it is
 * anything but true and false. */
bool hf_read_bool(const struct json *object, const char *key, bool *value);

/* Reads the key of a member of added_tokens_decoder, which is an id. Returns false if it is no
 * whole number. */
bool hf_id_of_key(const struct json *member, uint64_t *id);

/* Reads how the entry of an added token says that it is found (enum added_flag), and whether it is
 * a special one. If the entry does not say that, *special stays. Returns false if one of
 * these is neither true nor false. */
bool hf_read_added_flags(const struct json *entry, uint8_t *flags, bool *special);

#endif
