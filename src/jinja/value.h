/* SPDX-License-Identifier: Apache-2.0
 * Values of templates. They never change once they are made, but for namespaces, and live in an
 * arena. */
#ifndef WISP_JINJA_VALUE_H
#define WISP_JINJA_VALUE_H

#include "base/arena.h"
#include "base/json.h"

/* A character of a text is a code point, and this bit if it came from a variable and not from
 * the template: from a message, a tool, a document. All that is done to texts keeps the bit. */
#define JINJA_GIVEN 0x80000000u

enum jinja_type {
    JINJA_UNDEFINED,
    JINJA_ABSENT, /* an argument that was not given */
    JINJA_NONE,
    JINJA_FALSE,
    JINJA_TRUE,
    JINJA_INTEGER,
    JINJA_REAL,
    JINJA_TEXT,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_FUNCTION, /* a global function */
    JINJA_METHOD    /* a method of a value, not yet called */
};

struct value {
    enum jinja_type type : 8;
    bool is_markup : 1; /* a text that is not to be escaped if it meets others */
    uint32_t n;         /* characters, items or entries */
    union {
        int64_t integer;
        const struct real *real;
        const uint32_t *text;        /* [n] */
        const struct value *items;   /* [n] */
        const struct entry *entries; /* [n], in the order in which they were added */
        struct scope *scope;         /* of a namespace */
        const struct loop *loop;
        const struct macro *macro;
        const struct function *function;
        const struct method *method;
        const char *name; /* of what is undefined; NULL: none */
    } as;
};

struct entry {
    struct value key, value;
};

/* `digits` is how Python writes the number. */
struct real {
    double value;
    const char *digits;
};

static inline bool value_is_boolean(struct value value) {
    return value.type == JINJA_FALSE || value.type == JINJA_TRUE;
}

static inline struct value value_boolean(bool is_true) {
    return (struct value){.type = is_true ? JINJA_TRUE : JINJA_FALSE};
}

static inline struct value value_integer(int64_t integer) {
    return (struct value){.type = JINJA_INTEGER, .as.integer = integer};
}

/* `text` may be NULL if n is 0. */
static inline struct value value_text(const uint32_t *text, uint32_t n) {
    static const uint32_t nothing[1];
    return (struct value){.type = JINJA_TEXT, .n = n, .as.text = text ? text : nothing};
}

static inline struct value value_undefined(const char *name) {
    return (struct value){.type = JINJA_UNDEFINED, .as.name = name};
}

/* Convert UTF-8 and JSON to a value in the arena. Each character of its texts has the bits `mark`.
 * Ill-formed UTF-8 becomes U+FFFD. */
wisp_status value_from_text(struct arena *arena, wisp_text text, uint32_t mark, struct value *value,
                            wisp_error *error);
wisp_status value_from_json(struct arena *arena, const struct json *json, uint32_t mark,
                            struct value *value, wisp_error *error);

/* Converts a number that was computed; and the characters of one in JSON, which may be an integer.
 */
wisp_status value_from_double(struct arena *arena, double number, struct value *value,
                              wisp_error *error);
wisp_status value_from_number(struct arena *arena, wisp_text digits, struct value *value,
                              wisp_error *error);

/* Returns whether a value is the text `ascii`. */
bool value_is(struct value value, const char *ascii);

/* Returns whether a value counts as true. */
bool value_truth(struct value value);

/* Return false if a value is not an integer, or not a number. true and false are 1 and 0. */
bool value_to_integer(struct value value, int64_t *integer);
bool value_to_double(struct value value, double *number);

/* Returns less than, equal to or more than 0 as a text comes before, with or after another. */
int text_compare(struct value a, struct value b);

/* Returns the characters from `begin` to `end` of a text. */
static inline struct value text_part(struct value text, uint32_t begin, uint32_t end) {
    text.as.text += begin;
    text.n = end - begin;
    return text;
}

/* Returns the value of a dictionary's key, or NULL. */
const struct value *value_find(struct value dict, const char *key);

#endif
