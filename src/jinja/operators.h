/* SPDX-License-Identifier: Apache-2.0
 * Operators on values, which behave like Python's. */
#ifndef WISP_JINJA_OPERATORS_H
#define WISP_JINJA_OPERATORS_H

#include "jinja/machine.h"
#include "jinja/node.h"

bool value_equal(struct machine *m, struct value a, struct value b);

/* Returns less than, equal to or more than 0 as `a` comes before, with or after `b`. Fails if
 * values of their types have no order. */
int value_compare(struct machine *m, struct value a, struct value b);

struct value value_operate(struct machine *m, enum operation operation, struct value a,
                           struct value b);

struct value value_negate(struct machine *m, struct value value);

/* Return what value.name and value[index] are, and value[first:end:step], whose parts may be
 * JINJA_ABSENT. */
struct value value_attribute(struct machine *m, struct value value, const char *name);
struct value value_item(struct machine *m, struct value value, struct value index);
struct value value_slice(struct machine *m, struct value value, const struct value parts[3]);

/* Returns the n values that a loop over a value gives. */
const struct value *value_items(struct machine *m, struct value value, uint32_t *n);

/* Return the number of the first (or the last) character from which on `part` is in a text from
 * character `from` on, or -1. */
int64_t text_find(struct machine *m, struct value text, struct value part, uint32_t from);
int64_t text_find_last(struct machine *m, struct value text, struct value part);

#endif
