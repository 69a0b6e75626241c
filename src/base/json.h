/* SPDX-License-Identifier: Apache-2.0
 * Parses JSON (RFC 8259) into a tree. The parser is stricter than the standard if leniency would
 * hide a fault: a repeated key, a lone surrogate and nesting deeper than JSON_MAX_DEPTH are errors.
 */
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
    uint32_t count;  /* the number of members of an array or object */
    const char *key; /* the key of an object's member, as terminated UTF-8 */
    size_t key_length;
    const char *text; /* a string as terminated UTF-8, or the characters of a number */
    size_t text_length;
    const char *raw_key; /* the opening quote of a member's key in the parsed text */
    const char *raw;     /* the value in the parsed text, which has to outlive the tree */
    size_t raw_length;
    const struct json *first; /* the first member of an array or object */
    const struct json *next;  /* the next member of the array or object that holds this one */
};

/* Parses `length` bytes. The tree lives in `arena`. `file` names the text in errors, which are
 * WISP_ERROR_FORMAT with the line and column, and WISP_ERROR_MEMORY. */
wisp_status json_parse(struct arena *arena, const char *text, size_t length, const char *file,
                       const struct json **root, wisp_error *error);

/* Sets *beginning to an array of the first elements of an array, in about `most` bytes: whole ones
 * if these fill half of that, else the last of them has a text that is cut. It is the arena's.
 * Returns false if there is no such place to cut, or no memory. The text need not be well-formed,
 * and then the beginning need not be either. */
bool json_begin_array(struct arena *arena, wisp_text array, size_t most, wisp_text *beginning);

/* Returns the member `key` of an object. Returns NULL if there is none, and if `object` is
 * NULL or no object. */
const struct json *json_get(const struct json *object, const char *key);

static inline bool json_is(const struct json *value, enum json_type type) {
    return value && value->type == type;
}

/* Returns whether a value is missing or null. */
static inline bool json_is_absent(const struct json *value) {
    return !value || value->type == JSON_NULL;
}

/* Returns the text of a string. */
static inline wisp_text json_text(const struct json *string) {
    return (wisp_text){string->text, string->text_length};
}

/* Tells whether `value` is a string that equals `text`. `value` may be NULL, here and below. */
bool json_equals(const struct json *value, const char *text);

/* Return false unless `value` is a number without fraction and exponent that fits. The least
 * int64_t counts as one that does not. */
bool json_to_i64(const struct json *value, int64_t *result);
bool json_to_u64(const struct json *value, uint64_t *result);

/* Returns false unless `value` is a number. The result is correct except for its last bit or two.
 */
bool json_to_double(const struct json *value, double *result);

/* Returns false unless `value` is true or false. */
bool json_to_bool(const struct json *value, bool *result);

#endif
