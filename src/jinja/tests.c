/* SPDX-License-Identifier: Apache-2.0
 * The tests of `value is name`.
 * Compiled for size in WebAssembly. */
#include "jinja/operators.h"

static struct value is_defined(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type != JINJA_UNDEFINED);
}

static struct value is_undefined(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_UNDEFINED);
}

static struct value is_none(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_NONE);
}

static struct value is_true(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_TRUE);
}

static struct value is_false(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_FALSE);
}

static struct value is_boolean(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(value_is_boolean(c->subject));
}

static struct value is_string(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_TEXT);
}

static struct value is_mapping(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_DICT);
}

/* An undefined value counts as an empty sequence. */
static struct value is_sequence(struct machine *m, const struct call *c) {
    const enum jinja_type type = c->subject.type;
    (void)m;
    return value_boolean(type == JINJA_UNDEFINED || type == JINJA_TEXT || type == JINJA_LIST ||
                         type == JINJA_TUPLE || type == JINJA_DICT);
}

static struct value is_number(struct machine *m, const struct call *c) {
    double number;
    (void)m;
    return value_boolean(value_to_double(c->subject, &number));
}

static struct value is_integer(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_INTEGER);
}

static struct value is_float(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type == JINJA_REAL);
}

static struct value is_callable(struct machine *m, const struct call *c) {
    (void)m;
    return value_boolean(c->subject.type >= JINJA_MACRO || c->subject.type == JINJA_UNDEFINED);
}

/* Returns the remainder of a division. */
static struct value remainder_of(struct machine *m, struct value value, struct value divisor) {
    return value_operate(m, OPERATION_REMAINDER, value, divisor);
}

static struct value is_divisible(struct machine *m, const struct call *c) {
    return value_boolean(!value_truth(remainder_of(m, c->subject, c->a[0])));
}

static struct value is_even(struct machine *m, const struct call *c) {
    return value_boolean(!value_truth(remainder_of(m, c->subject, value_integer(2))));
}

static struct value is_odd(struct machine *m, const struct call *c) {
    return value_boolean(value_truth(remainder_of(m, c->subject, value_integer(2))));
}

static struct value is_equal(struct machine *m, const struct call *c) {
    return value_operate(m, OPERATION_EQUAL, c->subject, c->a[0]);
}

static struct value is_unequal(struct machine *m, const struct call *c) {
    return value_operate(m, OPERATION_UNEQUAL, c->subject, c->a[0]);
}

static struct value is_less(struct machine *m, const struct call *c) {
    return value_operate(m, OPERATION_LESS, c->subject, c->a[0]);
}

static struct value is_at_most(struct machine *m, const struct call *c) {
    return value_operate(m, OPERATION_LESS_EQUAL, c->subject, c->a[0]);
}

static struct value is_greater(struct machine *m, const struct call *c) {
    return value_operate(m, OPERATION_GREATER, c->subject, c->a[0]);
}

static struct value is_at_least(struct machine *m, const struct call *c) {
    return value_operate(m, OPERATION_GREATER_EQUAL, c->subject, c->a[0]);
}

static struct value is_in(struct machine *m, const struct call *c) {
    return value_operate(m, OPERATION_IN, c->subject, c->a[0]);
}

const struct function jinja_tests[] = {
    {"!=", is_unequal, 1, "other"},
    {"<", is_less, 1, "other"},
    {"<=", is_at_most, 1, "other"},
    {"==", is_equal, 1, "other"},
    {">", is_greater, 1, "other"},
    {">=", is_at_least, 1, "other"},
    {"boolean", is_boolean, 0, ""},
    {"callable", is_callable, 0, ""},
    {"defined", is_defined, 0, ""},
    {"divisibleby", is_divisible, 1, "num"},
    {"eq", is_equal, 1, "other"},
    {"equalto", is_equal, 1, "other"},
    {"even", is_even, 0, ""},
    {"false", is_false, 0, ""},
    {"float", is_float, 0, ""},
    {"ge", is_at_least, 1, "other"},
    {"greaterthan", is_greater, 1, "other"},
    {"gt", is_greater, 1, "other"},
    {"in", is_in, 1, "seq"},
    {"integer", is_integer, 0, ""},
    {"iterable", is_sequence, 0, ""},
    {"le", is_at_most, 1, "other"},
    {"lessthan", is_less, 1, "other"},
    {"lt", is_less, 1, "other"},
    {"mapping", is_mapping, 0, ""},
    {"ne", is_unequal, 1, "other"},
    {"none", is_none, 0, ""},
    {"number", is_number, 0, ""},
    {"odd", is_odd, 0, ""},
    {"sequence", is_sequence, 0, ""},
    {"string", is_string, 0, ""},
    {"true", is_true, 0, ""},
    {"undefined", is_undefined, 0, ""},
    {0},
};
