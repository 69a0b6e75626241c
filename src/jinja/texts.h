/* SPDX-License-Identifier: Apache-2.0
 * The filters and methods of texts, which behave like those of Python's str. */
#ifndef WISP_JINJA_TEXTS_H
#define WISP_JINJA_TEXTS_H

#include "jinja/machine.h"

/* Removes the characters of `set` (JINJA_ABSENT or none: white space) from the ends. */
struct value text_strip(struct machine *m, struct value text, struct value set, bool left,
                        bool right);

/* Replaces the first `count` parts (JINJA_ABSENT or below 0: all) that equal `old`. */
struct value text_replace(struct machine *m, struct value text, struct value old,
                          struct value replacement, struct value count);

/* Split a text at `separator`, or at white space if it is JINJA_ABSENT or
 * none, at most `most` times (below 0: everywhere), from the right if asked for; and into lines. */
struct value text_split(struct machine *m, struct value text, struct value separator, int64_t most,
                        bool from_right);
struct value text_lines(struct machine *m, struct value text);

/* Joins texts with this one between. */
struct value text_join(struct machine *m, struct value between, const struct value *texts,
                       uint32_t n);

enum letter_case { CASE_LOWER, CASE_UPPER, CASE_CAPITALIZED, CASE_TITLE };

/* Changes the case of letters, if CASE_TITLE has the rule of Jinja's filter. */
struct value text_case(struct machine *m, struct value text, enum letter_case wanted);

#endif
