/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/operators.h"

#include <math.h>
#include <string.h>

#include "jinja/format.h"
#include "jinja/print.h"

/* ---- comparing ------------------------------------------------------------------------------ */

static bool equal_texts(struct value a, struct value b) {
    bool equal = a.n == b.n;
    for (uint32_t i = 0; equal && i < a.n; i++)
        equal = ((a.as.text[i] ^ b.as.text[i]) & ~JINJA_GIVEN) == 0;
    return equal;
}

static const struct value *find_key(struct machine *m, struct value dict, struct value key) {
    for (uint32_t i = 0; i < dict.n && machine_spend(m, 1); i++)
        if (value_equal(m, dict.as.entries[i].key, key))
            return &dict.as.entries[i].value;
    return NULL;
}

static bool equal_lists(struct machine *m, struct value a, struct value b) {
    bool equal = a.n == b.n;
    for (uint32_t i = 0; equal && i < a.n && machine_spend(m, 1); i++)
        equal = value_equal(m, a.as.items[i], b.as.items[i]);
    return equal;
}

static bool equal_dicts(struct machine *m, struct value a, struct value b) {
    bool equal = a.n == b.n;
    for (uint32_t i = 0; equal && i < a.n && machine_spend(m, 1); i++) {
        const struct value *other = find_key(m, b, a.as.entries[i].key);
        equal = other && value_equal(m, a.as.entries[i].value, *other);
    }
    return equal;
}

bool value_equal(struct machine *m, struct value a, struct value b) {
    int64_t i, j;
    double x, y;
    if (value_to_integer(a, &i) && value_to_integer(b, &j))
        return i == j;
    if (value_to_double(a, &x) && value_to_double(b, &y))
        return x == y;
    if (a.type != b.type || !machine_spend(m, 1 + a.n / 16))
        return false;
    switch (a.type) {
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return true;
    case JINJA_TEXT:
        return equal_texts(a, b);
    case JINJA_LIST:
    case JINJA_TUPLE:
        return equal_lists(m, a, b);
    case JINJA_DICT:
        return equal_dicts(m, a, b);
    default:
        return a.as.macro == b.as.macro;
    }
}

static int compare_lists(struct machine *m, struct value a, struct value b) {
    for (uint32_t i = 0; i < a.n && i < b.n; i++)
        if (!value_equal(m, a.as.items[i], b.as.items[i]))
            return value_compare(m, a.as.items[i], b.as.items[i]);
    return (a.n > b.n) - (a.n < b.n);
}

int value_compare(struct machine *m, struct value a, struct value b) {
    int64_t i, j;
    double x, y;
    if (value_to_integer(a, &i) && value_to_integer(b, &j))
        return (i > j) - (i < j);
    if (value_to_double(a, &x) && value_to_double(b, &y))
        return (x > y) - (x < y);
    if (!machine_spend(m, 1 + a.n / 16))
        return 0;
    if (a.type == JINJA_TEXT && b.type == JINJA_TEXT)
        return text_compare(a, b);
    if (a.type == b.type && (a.type == JINJA_LIST || a.type == JINJA_TUPLE))
        return compare_lists(m, a, b);
    const bool first = a.type != JINJA_TEXT && !value_to_double(a, &x);
    machine_fail_use(m, first ? a : b, "it has no order with the other value");
    return 0;
}

/* ---- searching ------------------------------------------------------------------------------ */

static bool stands_at(struct value text, struct value part, uint32_t at) {
    return equal_texts(text_part(text, at, at + part.n), part);
}

int64_t text_find(struct machine *m, struct value text, struct value part, uint32_t from) {
    for (uint32_t at = from; at <= text.n && part.n <= text.n - at; at++) {
        if (at % 16 == 0 && !machine_spend(m, 1))
            break;
        if (stands_at(text, part, at))
            return at;
    }
    return -1;
}

int64_t text_find_last(struct machine *m, struct value text, struct value part) {
    if (part.n > text.n || !machine_spend(m, text.n / 16))
        return -1;
    for (uint32_t at = text.n - part.n;; at--) {
        if (stands_at(text, part, at))
            return at;
        if (at == 0)
            return -1;
    }
}

/* Returns whether `item in container`. */
static bool value_contains(struct machine *m, struct value container, struct value item) {
    uint32_t n;
    if (container.type == JINJA_TEXT && item.type == JINJA_TEXT)
        return text_find(m, container, item, 0) >= 0;
    if (container.type == JINJA_TEXT) {
        machine_fail_use(m, item, "it is looked for in a text");
        return false;
    }
    if (container.type == JINJA_DICT)
        return find_key(m, container, item) != NULL;
    const struct value *items = value_items(m, container, &n);
    for (uint32_t i = 0; i < n && machine_spend(m, 1); i++)
        if (value_equal(m, items[i], item))
            return true;
    return false;
}

const struct value *value_items(struct machine *m, struct value value, uint32_t *n) {
    struct value *items;
    *n = 0;
    if (value.type == JINJA_UNDEFINED)
        return NULL;
    if (value.type != JINJA_LIST && value.type != JINJA_TUPLE && value.type != JINJA_DICT &&
        value.type != JINJA_TEXT) {
        machine_fail_use(m, value, "it is not a list");
        return NULL;
    }
    if (value.type == JINJA_LIST || value.type == JINJA_TUPLE) {
        *n = value.n;
        return value.as.items;
    }
    items = machine_take(m, value.n, sizeof *items);
    if (!items)
        return NULL;
    for (uint32_t i = 0; i < value.n; i++)
        items[i] = value.type == JINJA_DICT ? value.as.entries[i].key : text_part(value, i, i + 1);
    *n = value.n;
    return items;
}

/* ---- arithmetic ----------------------------------------------------------------------------- */

static struct value make_double(struct machine *m, double number) {
    struct value value = value_undefined(NULL);
    if (machine_runs(m))
        m->status = value_from_double(m->arena, number, &value, m->error);
    return value;
}

/* Computes base to the power of exponent >= 0. Returns whether that overflows. */
static bool overflows_power(int64_t base, int64_t exponent, int64_t *result) {
    bool overflow = false;
    if (base >= -1 && base <= 1)
        exponent = exponent == 0 ? 0 : 2 - exponent % 2;
    for (*result = 1; exponent > 0 && !overflow; exponent--)
        overflow = __builtin_mul_overflow(*result, base, result);
    return overflow;
}

static struct value operate_integers(struct machine *m, enum operation operation, int64_t a,
                                     int64_t b) {
    int64_t result = 0;
    bool overflow = false;
    switch (operation) {
    case OPERATION_ADD:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case OPERATION_SUBTRACT:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case OPERATION_MULTIPLY:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case OPERATION_POWER:
        overflow = overflows_power(a, b, &result);
        break;
    default: /* rounded down, as Python does */
        overflow = b == -1 && a == INT64_MIN;
        if (!overflow) {
            const bool down = a % b != 0 && (a % b < 0) != (b < 0);
            result = operation == OPERATION_FLOOR ? a / b - down : a % b + (down ? b : 0);
        }
    }
    if (overflow)
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "an integer of more than 64 bits");
    return value_integer(result);
}

static struct value operate_numbers(struct machine *m, enum operation operation, double a,
                                    double b) {
    switch (operation) {
    case OPERATION_ADD:
        return make_double(m, a + b);
    case OPERATION_SUBTRACT:
        return make_double(m, a - b);
    case OPERATION_MULTIPLY:
        return make_double(m, a * b);
    case OPERATION_DIVIDE:
        return make_double(m, a / b);
    case OPERATION_FLOOR:
        return make_double(m, floor(a / b));
    case OPERATION_REMAINDER:
        return make_double(m, a - b * floor(a / b));
    default:
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "powers of numbers that are not integers");
        return value_undefined(NULL);
    }
}

static struct value add_texts(struct machine *m, struct value a, struct value b) {
    struct builder text = {0};
    const bool markup = a.is_markup || b.is_markup;
    put_html(m, &text, a, markup && !a.is_markup);
    put_html(m, &text, b, markup && !b.is_markup);
    struct value sum = builder_text(&text);
    sum.is_markup = markup;
    return sum;
}

/* Returns a list `times` times, and then another. */
static struct value repeat_list(struct machine *m, struct value list, int64_t times,
                                struct value more) {
    const uint64_t n = times > 0 ? (uint64_t)times * list.n : 0;
    struct value *items =
        n <= UINT32_MAX ? machine_take(m, (size_t)n + more.n, sizeof *items) : NULL;
    if (!items) {
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "a list that is too long");
        return list;
    }
    for (uint64_t i = 0; i < n; i++)
        items[i] = list.as.items[i % list.n];
    for (uint32_t i = 0; i < more.n; i++)
        items[n + i] = more.as.items[i];
    list.as.items = items;
    list.n = (uint32_t)n + more.n;
    return list;
}

static struct value repeat_text(struct machine *m, struct value text, int64_t times) {
    struct builder repeated = {0};
    for (int64_t i = 0; i < times && text.n > 0 && machine_spend(m, 1); i++)
        put_characters(m, &repeated, text.as.text, text.n);
    return builder_text(&repeated);
}

static struct value join(struct machine *m, struct value a, struct value b) {
    struct builder text = {0};
    put_value(m, &text, a);
    put_value(m, &text, b);
    return builder_text(&text);
}

static bool is_list(struct value value) {
    return value.type == JINJA_LIST || value.type == JINJA_TUPLE;
}

static struct value calculate(struct machine *m, enum operation operation, struct value a,
                              struct value b) {
    int64_t i = 0, j = 0;
    double x, y;
    const bool integers = value_to_integer(a, &i) && value_to_integer(b, &j);
    if (value_to_double(a, &x) && value_to_double(b, &y)) {
        const bool divides = operation == OPERATION_DIVIDE || operation == OPERATION_FLOOR ||
                             operation == OPERATION_REMAINDER;
        if (divides && y == 0)
            machine_fail(m, WISP_ERROR_ARGUMENT, "a division by zero");
        else if (integers && operation != OPERATION_DIVIDE &&
                 !(operation == OPERATION_POWER && j < 0))
            return operate_integers(m, operation, i, j);
        else
            return operate_numbers(m, operation, x, y);
        return value_undefined(NULL);
    }
    if (operation == OPERATION_ADD && a.type == JINJA_TEXT && b.type == JINJA_TEXT)
        return add_texts(m, a, b);
    if (operation == OPERATION_ADD && is_list(a) && a.type == b.type)
        return repeat_list(m, a, 1, b);
    if (operation == OPERATION_MULTIPLY && a.type == JINJA_TEXT && value_to_integer(b, &j))
        return repeat_text(m, a, j);
    if (operation == OPERATION_MULTIPLY && b.type == JINJA_TEXT && value_to_integer(a, &i))
        return repeat_text(m, b, i);
    if (operation == OPERATION_MULTIPLY && is_list(a) && value_to_integer(b, &j))
        return repeat_list(m, a, j, machine_list(NULL, 0));
    if (operation == OPERATION_MULTIPLY && is_list(b) && value_to_integer(a, &i))
        return repeat_list(m, b, i, machine_list(NULL, 0));
    if (operation == OPERATION_REMAINDER && a.type == JINJA_TEXT)
        return format_percent(m, a, b);
    const bool first = a.type == JINJA_UNDEFINED || (a.type == JINJA_NONE && b.type != a.type) ||
                       b.type == JINJA_TEXT;
    machine_fail_use(m, first ? a : b, "the operator does not take it beside the other value");
    return value_undefined(NULL);
}

struct value value_operate(struct machine *m, enum operation operation, struct value a,
                           struct value b) {
    switch (operation) {
    case OPERATION_JOIN:
        return join(m, a, b);
    case OPERATION_EQUAL:
        return value_boolean(value_equal(m, a, b));
    case OPERATION_UNEQUAL:
        return value_boolean(!value_equal(m, a, b));
    case OPERATION_LESS:
        return value_boolean(value_compare(m, a, b) < 0);
    case OPERATION_LESS_EQUAL:
        return value_boolean(value_compare(m, a, b) <= 0);
    case OPERATION_GREATER:
        return value_boolean(value_compare(m, a, b) > 0);
    case OPERATION_GREATER_EQUAL:
        return value_boolean(value_compare(m, a, b) >= 0);
    case OPERATION_IN:
        return value_boolean(value_contains(m, b, a));
    case OPERATION_NOT_IN:
        return value_boolean(!value_contains(m, b, a));
    default:
        return calculate(m, operation, a, b);
    }
}

struct value value_negate(struct machine *m, struct value value) {
    double number;
    if (value.type == JINJA_REAL)
        return make_double(m, -value.as.real->value);
    if (!value_to_double(value, &number))
        machine_fail_use(m, value, "it is not a number");
    return calculate(m, OPERATION_SUBTRACT, value_integer(0), value);
}

/* ---- parts of values ------------------------------------------------------------------------ */

static struct value bind_method(struct machine *m, const struct function *function,
                                struct value subject) {
    struct method *method = machine_take(m, 1, sizeof *method);
    if (!method)
        return value_undefined(NULL);
    *method = (struct method){subject, function};
    return (struct value){.type = JINJA_METHOD, .as.method = method};
}

static const struct function *find_method(struct value value, const char *name) {
    return value.type == JINJA_TEXT   ? function_find(jinja_text_methods, name)
           : value.type == JINJA_DICT ? function_find(jinja_dict_methods, name)
           : value.type == JINJA_LOOP ? function_find(jinja_loop_methods, name)
                                      : NULL;
}

/* Returns an attribute that is not a method. */
static struct value find_attribute(struct machine *m, struct value value, const char *name) {
    const struct value *found = value_find(value, name);
    if (found)
        return *found;
    if (value.type == JINJA_NAMESPACE) {
        const struct variable *variable = scope_find(value.as.scope, name);
        return variable ? variable->value : value_undefined(name);
    }
    if (value.type == JINJA_LOOP)
        return loop_attribute(value.as.loop, name);
    if (value.type == JINJA_UNDEFINED)
        machine_fail_use(m, value, "so are its parts");
    return value_undefined(name);
}

struct value value_attribute(struct machine *m, struct value value, const char *name) {
    const struct function *method = find_method(value, name);
    return method ? bind_method(m, method, value) : find_attribute(m, value, name);
}

struct value value_item(struct machine *m, struct value value, struct value index) {
    int64_t at;
    if ((value.type == JINJA_TEXT || is_list(value)) && value_to_integer(index, &at)) {
        at += at < 0 ? value.n : 0;
        if (at < 0 || at >= value.n)
            return value_undefined(NULL);
        if (value.type != JINJA_TEXT)
            return value.as.items[at];
        return text_part(value, (uint32_t)at, (uint32_t)at + 1);
    }
    if (value.type == JINJA_UNDEFINED)
        machine_fail_use(m, value, "so are its parts");
    if (value.type == JINJA_DICT) {
        const struct value *found = find_key(m, value, index);
        if (found)
            return *found;
    }
    if (index.type != JINJA_TEXT)
        return value_undefined(NULL);
    char *name = machine_take(m, index.n + 1, 1);
    for (uint32_t i = 0; name && i < index.n; i++) {
        const uint32_t c = index.as.text[i] & ~JINJA_GIVEN;
        name[i] = c < 0x80 ? (char)c : 0x7F; /* no attribute has such a name */
    }
    return name ? value_attribute(m, value, name) : value_undefined(NULL);
}

/* Reads one end of a slice, which counts from the end if it is negative. */
static int64_t slice_end(struct machine *m, struct value part, int64_t n, int64_t least,
                         int64_t most, int64_t absent) {
    int64_t at;
    if (part.type == JINJA_ABSENT || part.type == JINJA_NONE)
        return absent;
    if (!value_to_integer(part, &at))
        machine_fail_use(m, part, "it is not an index");
    if (at < 0)
        at = at < -n ? least : at + n;
    return at < least ? least : at > most ? most : at;
}

struct value value_slice(struct machine *m, struct value value, const struct value parts[3]) {
    int64_t step = 1;
    const int64_t n = value.n;
    if (value.type != JINJA_TEXT && !is_list(value)) {
        machine_fail_use(m, value, "it has no slices");
        return value;
    }
    if (parts[2].type != JINJA_ABSENT && parts[2].type != JINJA_NONE &&
        (!value_to_integer(parts[2], &step) || step == 0))
        machine_fail_use(m, parts[2], "it is not a step");
    if (!machine_runs(m))
        return value;
    const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    const int64_t first = slice_end(m, parts[0], n, least, most, step < 0 ? n - 1 : 0);
    const int64_t end = slice_end(m, parts[1], n, least, most, step < 0 ? -1 : n);
    struct builder text = {0};
    struct value *items = is_list(value) ? machine_take(m, value.n, sizeof *items) : NULL;
    uint32_t count = 0;
    for (int64_t at = first; (step < 0 ? at > end : at < end) && machine_runs(m);
         at = step > n    ? n
              : step < -n ? -1
                          : at + step) {
        if (items)
            items[count++] = value.as.items[at];
        else
            put_character(m, &text, value.as.text[at]);
    }
    if (value.type == JINJA_TEXT) {
        const bool markup = value.is_markup;
        value = builder_text(&text);
        value.is_markup = markup;
        return value;
    }
    value.as.items = items;
    value.n = count;
    return value;
}
