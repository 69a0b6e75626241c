/* SPDX-License-Identifier: Apache-2.0
 * JSON (RFC 8259) into a tree. Stricter than the standard where leniency would hide a fault: a
 * repeated key, a lone surrogate and nesting deeper than JSON_MAX_DEPTH are errors. */
#ifndef WISP_BASE_JSON_H
#define WISP_BASE_JSON_H

#include "base/arena.h"

enum { JSON_MAX_DEPTH = 64 };

enum json_type {
    JSON_NULL,
    JSON_FALSE,
    JSON_TRUE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
};

struct json {
    enum json_type type;
    uint32_t count;  /* members of an array or object */
    const char *key; /* in an object; terminated UTF-8 */
    size_t key_length;
    const char *text; /* of a string, terminated UTF-8, or the digits of a number */
    size_t text_length;
    const char *raw_key; /* in an object: the key's opening quote in the parsed text */
    const char *raw;     /* the value as it stands in the parsed text, which the caller keeps */
    size_t raw_length;
    const struct json *first; /* member */
    const struct json *next;  /* sibling */
};

/* Parses `length` bytes. The tree lives in `arena`. `file` names the text in errors. */
wisp_status json_parse(struct arena *arena, const char *text, size_t length, const char *file,
                       const struct json **root, wisp_error *error);

/* Member `key` of an object, or NULL (also for NULL and for what is no object). */
const struct json *json_get(const struct json *object, const char *key);

static inline bool json_is(const struct json *value, enum json_type type) {
    return value && value->type == type;
}

/* A string equal to `text`. */
bool json_equals(const struct json *value, const char *text);

/* A number without fraction or exponent that fits. */
bool json_to_i64(const struct json *value, int64_t *result);
bool json_to_u64(const struct json *value, uint64_t *result);

/* Any number, correct to the last bit or the one before it. */
bool json_to_double(const struct json *value, double *result);

bool json_to_bool(const struct json *value, bool *result);

#endif
