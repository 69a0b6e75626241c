/* SPDX-License-Identifier: Apache-2.0
 * The filters whose subject is a single value.
 * Compiled for size in WebAssembly. */
#include <math.h>
#include <string.h>

#include "jinja/characters.h"
#include "jinja/format.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/texts.h"

static struct value filter_default(struct machine *m, const struct call *c) {
    static const uint32_t nothing[1];
    (void)m;
    if (c->subject.type != JINJA_UNDEFINED && !(value_truth(c->a[1]) && !value_truth(c->subject)))
        return c->subject;
    return c->a[0].type == JINJA_ABSENT ? value_text(nothing, 0) : c->a[0];
}

static struct value filter_length(struct machine *m, const struct call *c) {
    switch (c->subject.type) {
    case JINJA_UNDEFINED:
        return value_integer(0);
    case JINJA_TEXT:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        return value_integer(c->subject.n);
    default:
        machine_fail_use(m, c->subject, "it has no length");
        return value_integer(0);
    }
}

static struct value filter_string(struct machine *m, const struct call *c) {
    return print_value(m, c->subject);
}

static struct value filter_safe(struct machine *m, const struct call *c) {
    struct value text = print_value(m, c->subject);
    text.is_markup = true;
    return text;
}

static struct value filter_escape(struct machine *m, const struct call *c) {
    struct builder out = {0};
    const struct value text = print_value(m, c->subject);
    put_html(m, &out, text, !text.is_markup);
    struct value escaped = builder_text(&out);
    escaped.is_markup = true;
    return escaped;
}

static struct value filter_trim(struct machine *m, const struct call *c) {
    return text_strip(m, print_value(m, c->subject), c->a[0], true, true);
}

static struct value filter_lower(struct machine *m, const struct call *c) {
    return text_case(m, print_value(m, c->subject), CASE_LOWER);
}

static struct value filter_upper(struct machine *m, const struct call *c) {
    return text_case(m, print_value(m, c->subject), CASE_UPPER);
}

static struct value filter_capitalize(struct machine *m, const struct call *c) {
    return text_case(m, print_value(m, c->subject), CASE_CAPITALIZED);
}

static struct value filter_title(struct machine *m, const struct call *c) {
    return text_case(m, print_value(m, c->subject), CASE_TITLE);
}

static struct value filter_replace(struct machine *m, const struct call *c) {
    return text_replace(m, print_value(m, c->subject), print_value(m, c->a[0]),
                        print_value(m, c->a[1]), c->a[2]);
}

static struct value filter_format(struct machine *m, const struct call *c) {
    return format_percent(
        m, print_value(m, c->subject),
        (struct value){.type = JINJA_TUPLE, .n = c->given->n, .as.items = c->given->values});
}

static struct value filter_attr(struct machine *m, const struct call *c) {
    /* An entry of a dictionary is not an attribute of it. */
    if (c->subject.type == JINJA_DICT)
        return value_undefined("an attribute of a dictionary");
    return value_item(m, c->subject, c->a[0]);
}

/* Returns a text with so many spaces, or that text itself. */
static struct value indentation(struct machine *m, struct value width, int64_t fallback) {
    static const uint32_t space[] = {' '};
    int64_t n = fallback;
    if (width.type == JINJA_TEXT)
        return width;
    if (width.type != JINJA_ABSENT && !value_to_integer(width, &n))
        machine_fail_use(m, width, "it is not a width");
    return value_operate(m, OPERATION_MULTIPLY, value_text(space, 1), value_integer(n));
}

static struct value filter_indent(struct machine *m, const struct call *c) {
    const struct value space = indentation(m, c->a[0], 4);
    struct builder out = {0};
    if (c->subject.type != JINJA_TEXT)
        machine_fail_use(m, c->subject, "only texts are indented");
    /* Jinja takes the text with a line break after it: a break at its end is one more line. */
    struct builder text = {0};
    put_value(m, &text, c->subject);
    put_ascii(m, &text, "\n");
    const struct value lines = text_lines(m, builder_text(&text));
    for (uint32_t i = 0; i < lines.n && machine_runs(m); i++) {
        const bool first = i == 0 && !value_truth(c->a[1]);
        if (i > 0)
            put_ascii(m, &out, "\n");
        if (!first && (i == 0 || lines.as.items[i].n > 0 || value_truth(c->a[2])))
            put_value(m, &out, space);
        put_value(m, &out, lines.as.items[i]);
    }
    struct value indented = builder_text(&out);
    indented.is_markup = c->subject.is_markup;
    return indented;
}

static struct value filter_tojson(struct machine *m, const struct call *c) {
    const struct value absent = {.type = JINJA_ABSENT}, indent = c->a[1], pair = c->a[2];
    struct builder out = {0};
    struct json_style style = {.ascii = value_truth(c->a[0]), .sorted = value_truth(c->a[3])};
    const bool lines = indent.type != JINJA_ABSENT && indent.type != JINJA_NONE;
    style.indent = lines ? indentation(m, indent, 0) : absent;
    style.comma = machine_text(m, lines ? "," : ", ");
    style.colon = machine_text(m, ": ");
    if ((pair.type == JINJA_LIST || pair.type == JINJA_TUPLE) && pair.n == 2) {
        style.comma = pair.as.items[0];
        style.colon = pair.as.items[1];
    }
    put_json(m, &out, c->subject, &style);
    return builder_text(&out);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Returns a number, or the number that a text spells, or an undefined value. */
static struct value number_of(struct machine *m, struct value text) {
    if (text.type == JINJA_UNDEFINED)
        machine_fail_use(m, text, "expected a number");
    if (text.type != JINJA_TEXT)
        return text;
    char digits[64];
    uint32_t n = 0;
    struct arena arena = {0};
    const struct json *json;
    struct value number = value_undefined(NULL);
    text = text_strip(m, text, (struct value){.type = JINJA_ABSENT}, true, true);
    if (text.n > 0 && (text.as.text[0] & ~JINJA_GIVEN) == '+')
        text = text_part(text, 1, text.n);
    if (text.n >= sizeof digits)
        return number;
    for (; n < text.n; n++)
        digits[n] = (text.as.text[n] & ~JINJA_GIVEN) < 0x80 ? (char)text.as.text[n] : '?';
    digits[n] = 0;
    if (json_parse(&arena, digits, n, NULL, &json, NULL) == WISP_OK && json->type == JSON_NUMBER)
        m->status = value_from_number(m->arena, json_text(json), &number, m->error);
    arena_release(&arena);
    return number;
}

static struct value filter_int(struct machine *m, const struct call *c) {
    struct value number = number_of(m, c->subject);
    int64_t integer;
    if (c->a[1].type != JINJA_ABSENT && !(value_to_integer(c->a[1], &integer) && integer == 10))
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "the filter 'int' with another base than 10");
    if (number.type == JINJA_REAL && fabs(number.as.real->value) < 9e18)
        return value_integer((int64_t)number.as.real->value);
    if (value_to_integer(number, &integer))
        return value_integer(integer);
    return c->a[0].type == JINJA_ABSENT ? value_integer(0) : c->a[0];
}

static struct value filter_float(struct machine *m, const struct call *c) {
    struct value number = number_of(m, c->subject);
    double real = 0;
    if (!value_to_double(number, &real) && c->a[0].type != JINJA_ABSENT)
        return c->a[0];
    if (machine_runs(m) && number.type != JINJA_REAL)
        m->status = value_from_double(m->arena, real, &number, m->error);
    return number;
}

static struct value filter_abs(struct machine *m, const struct call *c) {
    const struct value zero = value_integer(0);
    return value_compare(m, c->subject, zero) < 0
               ? value_negate(m, c->subject)
               : value_operate(m, OPERATION_ADD, c->subject, zero);
}

static struct value filter_round(struct machine *m, const struct call *c) {
    struct value rounded = value_undefined(NULL);
    double number;
    int64_t precision = 0;
    const struct value method = c->a[1];
    if (!value_to_double(c->subject, &number))
        machine_fail_use(m, c->subject, "it is not a number");
    if (c->a[0].type != JINJA_ABSENT &&
        (!value_to_integer(c->a[0], &precision) || precision < 0 || precision > 15))
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "round with such a precision");
    if (!machine_runs(m))
        return rounded;
    double scale = 1;
    for (; precision > 0; precision--)
        scale *= 10;
    number = value_is(method, "ceil")    ? ceil(number * scale) / scale
             : value_is(method, "floor") ? floor(number * scale) / scale
                                         : rint(number * scale) / scale;
    m->status = value_from_double(m->arena, number, &rounded, m->error);
    return rounded;
}

const struct function jinja_value_filters[] = {
    {"abs", filter_abs, 0, ""},
    {"attr", filter_attr, 1, "name"},
    {"capitalize", filter_capitalize, 0, ""},
    {"count", filter_length, 0, ""},
    {"d", filter_default, 0, "default_value boolean"},
    {"default", filter_default, 0, "default_value boolean"},
    {"e", filter_escape, 0, ""},
    {"escape", filter_escape, 0, ""},
    {"float", filter_float, 0, "default"},
    {"format", filter_format, 0, NULL},
    {"indent", filter_indent, 0, "width first blank"},
    {"int", filter_int, 0, "default base"},
    {"length", filter_length, 0, ""},
    {"lower", filter_lower, 0, ""},
    {"replace", filter_replace, 2, "old new count"},
    {"round", filter_round, 0, "precision method"},
    {"safe", filter_safe, 0, ""},
    {"string", filter_string, 0, ""},
    {"title", filter_title, 0, ""},
    {"tojson", filter_tojson, 0, "ensure_ascii indent separators sort_keys"},
    {"trim", filter_trim, 0, "chars"},
    {"upper", filter_upper, 0, ""},
    {0},
};
