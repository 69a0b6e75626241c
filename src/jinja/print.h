/* SPDX-License-Identifier: Apache-2.0
 * Values as texts. */
#ifndef WISP_JINJA_PRINT_H
#define WISP_JINJA_PRINT_H

#include "jinja/machine.h"

/* Append what str and repr of Python make of a value. */
void put_value(struct machine *m, struct builder *b, struct value value);
void put_repr(struct machine *m, struct builder *b, struct value value);

/* Appends a text, and escapes what HTML gives a meaning if asked for. */
void put_html(struct machine *m, struct builder *b, struct value text, bool escapes);

/* Returns a value as a text. A text keeps being markup. */
struct value print_value(struct machine *m, struct value value);

/* How json.dumps writes. A text of no characters as `indent` begins lines too; JINJA_ABSENT writes
 * one line. */
struct json_style {
    bool ascii, sorted;
    struct value indent, comma, colon;
};

void put_json(struct machine *m, struct builder *b, struct value value,
              const struct json_style *style);

#endif
