/* SPDX-License-Identifier: Apache-2.0
 * The filters whose subject is a list, and the methods of dictionaries.
 * Compiled for size in WebAssembly. */

#include <string.h>

#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/texts.h"

static const struct value absent = {.type = JINJA_ABSENT};

/* ---- orders --------------------------------------------------------------------------------- */

/* Sorts values by their keys, and keeps the order of those whose keys are equal. */
static void sort_values(struct machine *m, struct value *values, struct value *keys, uint32_t n,
                        bool reversed) {
    for (uint32_t i = 1; i < n; i++) {
        const struct value value = values[i], key = keys[i];
        uint32_t at = i;
        for (; at > 0 && machine_spend(m, 1); at--) {
            const int order = value_compare(m, keys[at - 1], key);
            if (reversed ? order >= 0 : order <= 0)
                break;
            values[at] = values[at - 1];
            keys[at] = keys[at - 1];
        }
        values[at] = value;
        keys[at] = key;
    }
}

/* Returns a value as it is compared if case does not count. */
static struct value without_case(struct machine *m, struct value value,
                                 struct value case_sensitive) {
    return value.type == JINJA_TEXT && !value_truth(case_sensitive)
               ? text_case(m, value, CASE_LOWER)
               : value;
}

/* Returns a list of the entries of a dictionary, each a tuple. */
static struct value entries_of(struct machine *m, struct value dict) {
    struct value *items = machine_take(m, dict.n, sizeof *items);
    struct value *pairs = machine_take(m, 2 * (size_t)dict.n, sizeof *pairs);
    for (uint32_t i = 0; i < dict.n && pairs; i++) {
        pairs[2 * i] = dict.as.entries[i].key;
        pairs[2 * i + 1] = dict.as.entries[i].value;
        items[i] = (struct value){.type = JINJA_TUPLE, .n = 2, .as.items = pairs + 2 * i};
    }
    return machine_list(items, pairs ? dict.n : 0);
}

/* Returns the part of an item that a path such as "function.name" leads to. `fallback`, unless it
 * is JINJA_ABSENT, takes the place of what is undefined. */
static struct value item_at_path(struct machine *m, struct value item, struct value path,
                                 struct value fallback) {
    static const uint32_t dot[] = {'.'};
    if (path.type != JINJA_TEXT)
        return value_item(m, item, path);
    const struct value parts = text_split(m, path, value_text(dot, 1), -1, false);
    for (uint32_t i = 0; i < parts.n && machine_runs(m); i++) {
        struct value part = parts.as.items[i];
        int64_t index = 0;
        bool is_number = part.n > 0 && part.n < 10;
        for (uint32_t k = 0; k < part.n; k++) {
            const uint32_t c = part.as.text[k] & ~JINJA_GIVEN;
            is_number = is_number && c >= '0' && c <= '9';
            index = is_number ? index * 10 + (c - '0') : 0;
        }
        item = value_item(m, item, is_number ? value_integer(index) : part);
        if (item.type == JINJA_UNDEFINED && fallback.type != JINJA_ABSENT)
            item = fallback;
    }
    return item;
}

/* Returns copies of a list's items, and of what they are compared by. */
static struct value *copy_items(struct machine *m, struct value list, struct value path,
                                struct value case_sensitive, struct value **keys, uint32_t *n) {
    const struct value *items = value_items(m, list, n);
    struct value *copies = machine_take(m, *n, sizeof *copies);
    *keys = machine_take(m, *n, sizeof **keys);
    for (uint32_t i = 0; i < *n && *keys; i++) {
        copies[i] = items[i];
        (*keys)[i] = path.type == JINJA_ABSENT || path.type == JINJA_NONE
                         ? items[i]
                         : item_at_path(m, items[i], path, absent);
        (*keys)[i] = without_case(m, (*keys)[i], case_sensitive);
    }
    if (!machine_runs(m))
        *n = 0;
    return copies;
}

static struct value filter_sort(struct machine *m, const struct call *c) {
    struct value *keys;
    uint32_t n;
    struct value *copies = copy_items(m, c->subject, c->a[2], c->a[1], &keys, &n);
    sort_values(m, copies, keys, n, value_truth(c->a[0]));
    return machine_list(copies, n);
}

static struct value filter_dictsort(struct machine *m, const struct call *c) {
    if (c->subject.type != JINJA_DICT)
        machine_fail_use(m, c->subject, "it is not a dictionary");
    const bool by_value = c->a[1].type != JINJA_ABSENT && value_is(c->a[1], "value");
    struct value *keys;
    uint32_t n;
    if (!machine_runs(m))
        return c->subject;
    struct value *copies =
        copy_items(m, entries_of(m, c->subject), value_integer(by_value), c->a[0], &keys, &n);
    sort_values(m, copies, keys, n, value_truth(c->a[2]));
    return machine_list(copies, n);
}

static struct value filter_extreme(struct machine *m, const struct call *c, int sign) {
    struct value *keys;
    uint32_t n, best = 0;
    struct value *copies = copy_items(m, c->subject, c->a[1], c->a[0], &keys, &n);
    for (uint32_t i = 1; i < n; i++)
        if (sign * value_compare(m, keys[i], keys[best]) > 0)
            best = i;
    return n > 0 ? copies[best] : value_undefined("min or max of nothing");
}

static struct value filter_least(struct machine *m, const struct call *c) {
    return filter_extreme(m, c, -1);
}

static struct value filter_most(struct machine *m, const struct call *c) {
    return filter_extreme(m, c, 1);
}

static struct value filter_unique(struct machine *m, const struct call *c) {
    struct value *keys;
    uint32_t n, count = 0;
    struct value *copies = copy_items(m, c->subject, c->a[1], c->a[0], &keys, &n);
    for (uint32_t i = 0; i < n && machine_spend(m, 1); i++) {
        bool is_new = true;
        for (uint32_t k = 0; k < count && is_new && machine_spend(m, 1); k++)
            is_new = !value_equal(m, keys[k], keys[i]);
        if (is_new) {
            copies[count] = copies[i];
            keys[count++] = keys[i];
        }
    }
    return machine_list(copies, count);
}

/* ---- items ---------------------------------------------------------------------------------- */

static struct value filter_list(struct machine *m, const struct call *c) {
    uint32_t n;
    const struct value *items = value_items(m, c->subject, &n);
    return machine_list(items, n);
}

static struct value filter_first(struct machine *m, const struct call *c) {
    uint32_t n;
    const struct value *items = value_items(m, c->subject, &n);
    return n > 0 ? items[0] : value_undefined("the first item");
}

static struct value filter_last(struct machine *m, const struct call *c) {
    uint32_t n;
    const struct value *items = value_items(m, c->subject, &n);
    return n > 0 ? items[n - 1] : value_undefined("the last item");
}

static struct value filter_reverse(struct machine *m, const struct call *c) {
    const struct value back[3] = {
        {.type = JINJA_ABSENT}, {.type = JINJA_ABSENT}, value_integer(-1)};
    uint32_t n;
    if (c->subject.type == JINJA_TEXT)
        return value_slice(m, c->subject, back);
    const struct value *items = value_items(m, c->subject, &n);
    return value_slice(m, machine_list(items, n), back);
}

static struct value filter_items(struct machine *m, const struct call *c) {
    if (c->subject.type != JINJA_DICT && c->subject.type != JINJA_UNDEFINED)
        machine_fail_use(m, c->subject, "it is not a dictionary");
    return entries_of(m, c->subject.type == JINJA_DICT ? c->subject
                                                       : (struct value){.type = JINJA_DICT});
}

static struct value filter_keys(struct machine *m, const struct call *c) {
    return filter_list(m, c);
}

static struct value filter_values(struct machine *m, const struct call *c) {
    struct value *copies = machine_take(m, c->subject.n, sizeof *copies);
    for (uint32_t i = 0; copies && i < c->subject.n; i++)
        copies[i] = c->subject.as.entries[i].value;
    return machine_list(copies, copies ? c->subject.n : 0);
}

static struct value filter_get(struct machine *m, const struct call *c) {
    for (uint32_t i = 0; i < c->subject.n && machine_spend(m, 1); i++)
        if (value_equal(m, c->subject.as.entries[i].key, c->a[0]))
            return c->subject.as.entries[i].value;
    const struct value none = {.type = JINJA_NONE};
    return c->a[1].type == JINJA_ABSENT ? none : c->a[1];
}

const struct function jinja_dict_methods[] = {
    {"get", filter_get, 1, "key default"},
    {"items", filter_items, 0, ""},
    {"keys", filter_keys, 0, ""},
    {"values", filter_values, 0, ""},
    {0},
};

static struct value filter_join(struct machine *m, const struct call *c) {
    static const uint32_t nothing[1];
    uint32_t n;
    const struct value *parts = value_items(m, c->subject, &n);
    struct value *texts = machine_take(m, n, sizeof *texts);
    for (uint32_t i = 0; texts && i < n; i++)
        texts[i] = print_value(m, c->a[1].type == JINJA_ABSENT
                                      ? parts[i]
                                      : item_at_path(m, parts[i], c->a[1], absent));
    const struct value between =
        c->a[0].type == JINJA_ABSENT ? value_text(nothing, 0) : print_value(m, c->a[0]);
    return text_join(m, between, texts, texts ? n : 0);
}

static struct value filter_sum(struct machine *m, const struct call *c) {
    uint32_t n;
    const struct value *parts = value_items(m, c->subject, &n);
    struct value total = c->a[1].type == JINJA_ABSENT ? value_integer(0) : c->a[1];
    for (uint32_t i = 0; i < n && machine_spend(m, 1); i++)
        total = value_operate(
            m, OPERATION_ADD, total,
            c->a[0].type == JINJA_ABSENT ? parts[i] : item_at_path(m, parts[i], c->a[0], absent));
    return total;
}

/* ---- filters and tests of items ------------------------------------------------------------- */

/* Calls the filter or test that argument `at` names with the arguments after it. */
static struct value apply(struct machine *m, const struct call *c, uint32_t at, bool tests,
                          struct value subject) {
    const struct value named = c->given->values[at];
    char name[32] = "";
    for (uint32_t i = 0; named.type == JINJA_TEXT && i < named.n && i < sizeof name - 1; i++)
        name[i] = (char)(named.as.text[i] & 0x7F);
    const struct function *function = tests ? function_find(jinja_tests, name) : filter_find(name);
    const struct arguments rest = {c->given->values + at + 1, c->given->names + at + 1,
                                   c->given->n - at - 1};
    if (!function)
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "the %s '%s'", tests ? "test" : "filter", name);
    return function ? machine_call(m, tests ? "test" : "filter", function, subject, &rest)
                    : value_undefined(NULL);
}

/* Returns the items that select, reject and map take: none of anything that counts as false. */
static const struct value *items_if_true(struct machine *m, struct value value, uint32_t *n) {
    *n = 0;
    return value_truth(value) ? value_items(m, value, n) : NULL;
}

/* Keeps the items for which a test, or without one the item or its attribute, is `wanted`. */
static struct value keep(struct machine *m, const struct call *c, bool by_attribute, bool wanted) {
    uint32_t n, count = 0;
    const struct value *all = items_if_true(m, c->subject, &n);
    struct value *kept = machine_take(m, n, sizeof *kept);
    if (by_attribute && c->given->n == 0)
        machine_fail(m, WISP_ERROR_ARGUMENT, "a filter lacks the name of an attribute");
    for (uint32_t i = 0; kept && i < n && machine_spend(m, 1); i++) {
        struct value tested =
            by_attribute ? item_at_path(m, all[i], c->given->values[0], absent) : all[i];
        if (c->given->n > by_attribute)
            tested = apply(m, c, by_attribute ? 1 : 0, true, tested);
        if (value_truth(tested) == wanted)
            kept[count++] = all[i];
    }
    return machine_list(kept, count);
}

static struct value filter_select(struct machine *m, const struct call *c) {
    return keep(m, c, false, true);
}

static struct value filter_reject(struct machine *m, const struct call *c) {
    return keep(m, c, false, false);
}

static struct value filter_selectattr(struct machine *m, const struct call *c) {
    return keep(m, c, true, true);
}

static struct value filter_rejectattr(struct machine *m, const struct call *c) {
    return keep(m, c, true, false);
}

/* Returns the named argument of a call, or JINJA_ABSENT. */
static struct value named_argument(const struct call *c, const char *name) {
    for (uint32_t i = 0; i < c->given->n; i++)
        if (c->given->names[i] && strcmp(c->given->names[i], name) == 0)
            return c->given->values[i];
    return (struct value){.type = JINJA_ABSENT};
}

static struct value filter_map(struct machine *m, const struct call *c) {
    const struct value path = named_argument(c, "attribute"),
                       fallback = named_argument(c, "default");
    uint32_t n;
    const struct value *all = items_if_true(m, c->subject, &n);
    struct value *mapped = machine_take(m, n, sizeof *mapped);
    if (path.type == JINJA_ABSENT && c->given->n == 0)
        machine_fail(m, WISP_ERROR_ARGUMENT, "map lacks a filter");
    for (uint32_t i = 0; mapped && i < n && machine_spend(m, 1); i++) {
        mapped[i] = path.type == JINJA_ABSENT ? apply(m, c, 0, false, all[i])
                                              : item_at_path(m, all[i], path, fallback);
    }
    return machine_list(mapped, mapped ? n : 0);
}

const struct function jinja_list_filters[] = {
    {"dictsort", filter_dictsort, 0, "case_sensitive by reverse"},
    {"first", filter_first, 0, ""},
    {"items", filter_items, 0, ""},
    {"join", filter_join, 0, "d attribute"},
    {"last", filter_last, 0, ""},
    {"list", filter_list, 0, ""},
    {"map", filter_map, 0, NULL},
    {"max", filter_most, 0, "case_sensitive attribute"},
    {"min", filter_least, 0, "case_sensitive attribute"},
    {"reject", filter_reject, 0, NULL},
    {"rejectattr", filter_rejectattr, 0, NULL},
    {"reverse", filter_reverse, 0, ""},
    {"select", filter_select, 0, NULL},
    {"selectattr", filter_selectattr, 0, NULL},
    {"sort", filter_sort, 0, "reverse case_sensitive attribute"},
    {"sum", filter_sum, 0, "attribute start"},
    {"unique", filter_unique, 0, "case_sensitive attribute"},
    {0},
};
