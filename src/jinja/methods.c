/* SPDX-License-Identifier: Apache-2.0
 * The methods of texts and of the loop, and the functions that every template has.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "jinja/characters.h"
#include "jinja/format.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/texts.h"

/* ---- texts ---------------------------------------------------------------------------------- */

/* Returns whether a text begins, or ends, with a text or one of a tuple's. */
static bool stands_at_end(struct machine *m, struct value text, struct value part, bool at_start) {
    for (uint32_t i = 0; part.type == JINJA_TUPLE && i < part.n; i++)
        if (stands_at_end(m, text, part.as.items[i], at_start))
            return true;
    if (part.type == JINJA_TUPLE)
        return false;
    if (part.type != JINJA_TEXT)
        machine_fail_use(m, part, "expected a text");
    if (!machine_runs(m) || part.n > text.n)
        return false;
    return value_equal(
        m, part, at_start ? text_part(text, 0, part.n) : text_part(text, text.n - part.n, text.n));
}

static struct value method_startswith(struct machine *m, const struct call *c) {
    return value_boolean(stands_at_end(m, c->subject, c->a[0], true));
}

static struct value method_endswith(struct machine *m, const struct call *c) {
    return value_boolean(stands_at_end(m, c->subject, c->a[0], false));
}

static struct value method_removeprefix(struct machine *m, const struct call *c) {
    return stands_at_end(m, c->subject, c->a[0], true)
               ? text_part(c->subject, c->a[0].n, c->subject.n)
               : c->subject;
}

static struct value method_removesuffix(struct machine *m, const struct call *c) {
    return stands_at_end(m, c->subject, c->a[0], false)
               ? text_part(c->subject, 0, c->subject.n - c->a[0].n)
               : c->subject;
}

static struct value method_strip(struct machine *m, const struct call *c) {
    return text_strip(m, c->subject, c->a[0], true, true);
}

static struct value method_lstrip(struct machine *m, const struct call *c) {
    return text_strip(m, c->subject, c->a[0], true, false);
}

static struct value method_rstrip(struct machine *m, const struct call *c) {
    return text_strip(m, c->subject, c->a[0], false, true);
}

static struct value split(struct machine *m, const struct call *c, bool from_right) {
    int64_t most = -1;
    if (c->a[1].type != JINJA_ABSENT && !value_to_integer(c->a[1], &most))
        machine_fail_use(m, c->a[1], "expected a number");
    return text_split(m, c->subject, c->a[0], most, from_right);
}

static struct value method_split(struct machine *m, const struct call *c) {
    return split(m, c, false);
}

static struct value method_rsplit(struct machine *m, const struct call *c) {
    return split(m, c, true);
}

static struct value method_splitlines(struct machine *m, const struct call *c) {
    return text_lines(m, c->subject);
}

static struct value method_replace(struct machine *m, const struct call *c) {
    return text_replace(m, c->subject, c->a[0], c->a[1], c->a[2]);
}

static struct value method_lower(struct machine *m, const struct call *c) {
    return text_case(m, c->subject, CASE_LOWER);
}

static struct value method_upper(struct machine *m, const struct call *c) {
    return text_case(m, c->subject, CASE_UPPER);
}

static struct value method_capitalize(struct machine *m, const struct call *c) {
    return text_case(m, c->subject, CASE_CAPITALIZED);
}

static struct value method_join(struct machine *m, const struct call *c) {
    uint32_t n;
    const struct value *texts = value_items(m, c->a[0], &n);
    return text_join(m, c->subject, texts, n);
}

static struct value method_format(struct machine *m, const struct call *c) {
    return format_braces(m, c->subject, c->given);
}

static struct value find(struct machine *m, const struct call *c, bool last) {
    if (c->a[0].type != JINJA_TEXT)
        machine_fail_use(m, c->a[0], "expected a text");
    if (!machine_runs(m))
        return value_integer(-1);
    return value_integer(last ? text_find_last(m, c->subject, c->a[0])
                              : text_find(m, c->subject, c->a[0], 0));
}

static struct value method_find(struct machine *m, const struct call *c) {
    return find(m, c, false);
}

static struct value method_rfind(struct machine *m, const struct call *c) {
    return find(m, c, true);
}

static struct value method_count(struct machine *m, const struct call *c) {
    const struct value parts = text_split(m, c->subject, c->a[0], -1, false);
    return value_integer((int64_t)parts.n - 1);
}

static struct value method_isdigit(struct machine *m, const struct call *c) {
    bool digits = c->subject.n > 0;
    for (uint32_t i = 0; i < c->subject.n; i++) {
        const uint32_t character = c->subject.as.text[i] & ~JINJA_GIVEN;
        digits = digits && character >= '0' && character <= '9';
        if (character >= 0x80)
            machine_fail(m, WISP_ERROR_UNSUPPORTED, "isdigit of other characters than ASCII");
    }
    return value_boolean(digits);
}

const struct function jinja_text_methods[] = {
    {"capitalize", method_capitalize, 0, ""},
    {"count", method_count, 1, "sub"},
    {"endswith", method_endswith, 1, "suffix"},
    {"find", method_find, 1, "sub"},
    {"format", method_format, 0, NULL},
    {"isdigit", method_isdigit, 0, ""},
    {"join", method_join, 1, "iterable"},
    {"lower", method_lower, 0, ""},
    {"lstrip", method_lstrip, 0, "chars"},
    {"removeprefix", method_removeprefix, 1, "prefix"},
    {"removesuffix", method_removesuffix, 1, "suffix"},
    {"replace", method_replace, 2, "old new count"},
    {"rfind", method_rfind, 1, "sub"},
    {"rsplit", method_rsplit, 0, "sep maxsplit"},
    {"rstrip", method_rstrip, 0, "chars"},
    {"split", method_split, 0, "sep maxsplit"},
    {"splitlines", method_splitlines, 0, ""},
    {"startswith", method_startswith, 1, "prefix"},
    {"strip", method_strip, 0, "chars"},
    {"upper", method_upper, 0, ""},
    {0},
};

/* ---- the loop ------------------------------------------------------------------------------- */

struct value loop_attribute(const struct loop *loop, const char *name) {
    const uint32_t left = loop->n - loop->index;
    const struct {
        const char *name;
        struct value value;
    } attributes[] = {
        {"index", value_integer((int64_t)loop->index + 1)},
        {"index0", value_integer(loop->index)},
        {"revindex", value_integer(left)},
        {"revindex0", value_integer((int64_t)left - 1)},
        {"first", value_boolean(loop->index == 0)},
        {"last", value_boolean(left == 1)},
        {"length", value_integer(loop->n)},
        {"depth", value_integer((int64_t)loop->depth + 1)},
        {"depth0", value_integer(loop->depth)},
        {"previtem",
         loop->index > 0 ? loop->items[loop->index - 1] : value_undefined("loop.previtem")},
        {"nextitem", left > 1 ? loop->items[loop->index + 1] : value_undefined("loop.nextitem")},
    };
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (strcmp(attributes[i].name, name) == 0)
            return attributes[i].value;
    return value_undefined(name);
}

static struct value method_cycle(struct machine *m, const struct call *c) {
    if (c->given->n == 0)
        machine_fail(m, WISP_ERROR_ARGUMENT, "loop.cycle lacks values");
    return c->given->n > 0 ? c->given->values[c->subject.as.loop->index % c->given->n]
                           : value_undefined(NULL);
}

const struct function jinja_loop_methods[] = {{"cycle", method_cycle, 0, NULL}, {0}};

/* ---- functions ------------------------------------------------------------------------------ */

static struct value function_range(struct machine *m, const struct call *c) {
    int64_t n[3] = {0, 0, 1};
    for (int i = 0; i < 3; i++)
        if (c->a[i].type != JINJA_ABSENT && !value_to_integer(c->a[i], &n[i]))
            machine_fail_use(m, c->a[i], "expected a number");
    if (c->a[1].type == JINJA_ABSENT) {
        n[1] = n[0];
        n[0] = 0;
    }
    const int64_t most = 1 << 20;
    if (n[2] == 0 || n[2] > most || n[2] < -most || n[0] > most || n[0] < -most || n[1] > most ||
        n[1] < -most)
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "range with such numbers");
    if (n[2] == 0 || !machine_runs(m))
        return value_undefined(NULL);
    const int64_t span = n[2] > 0 ? n[1] - n[0] : n[0] - n[1], step = n[2] > 0 ? n[2] : -n[2];
    const size_t count = span > 0 ? (size_t)((span + step - 1) / step) : 0;
    struct value *items = machine_take(m, count, sizeof *items);
    for (size_t i = 0; items && i < count && machine_spend(m, 1); i++)
        items[i] = value_integer(n[0] + (int64_t)i * n[2]);
    return machine_list(items, items ? count : 0);
}

/* Returns the named arguments, and before them the entries of a dictionary, as entries. */
static struct value collect(struct machine *m, const struct call *c) {
    const struct arguments *given = c->given;
    const bool first = given->n > 0 && !given->names[0] && given->values[0].type == JINJA_DICT;
    const struct value dict = first ? given->values[0] : (struct value){.type = JINJA_DICT};
    struct entry *entries = machine_take(m, (size_t)dict.n + given->n, sizeof *entries);
    uint32_t n = dict.n;
    if (!entries)
        return dict;
    for (uint32_t i = 0; i < dict.n; i++)
        entries[i] = dict.as.entries[i];
    for (uint32_t i = first; i < given->n; i++) {
        uint32_t at = 0;
        if (!given->names[i]) {
            machine_fail_use(m, given->values[i], "it is not a dictionary");
            break;
        }
        while (at < n && !value_is(entries[at].key, given->names[i]))
            at++;
        if (at == n)
            entries[n++].key = machine_text(m, given->names[i]);
        entries[at].value = given->values[i];
    }
    return (struct value){.type = JINJA_DICT, .n = n, .as.entries = entries};
}

static struct value function_namespace(struct machine *m, const struct call *c) {
    const struct value dict = collect(m, c);
    struct scope *scope = machine_take(m, 1, sizeof *scope);
    for (uint32_t i = 0; scope && i < dict.n && machine_runs(m); i++) {
        const struct value key = dict.as.entries[i].key;
        char *name = machine_take(m, key.n + 1, 1);
        for (uint32_t k = 0; name && key.type == JINJA_TEXT && k < key.n; k++)
            name[k] = (char)(key.as.text[k] & 0x7F);
        if (name)
            scope_set(m, scope, name, dict.as.entries[i].value);
    }
    return scope ? (struct value){.type = JINJA_NAMESPACE, .as.scope = scope}
                 : value_undefined(NULL);
}

static struct value function_raise(struct machine *m, const struct call *c) {
    const struct value text = print_value(m, c->a[0]);
    char message[160];
    size_t n = 0;
    for (uint32_t i = 0; i < text.n && n < sizeof message - 1; i++) {
        const uint32_t character = text.as.text[i] & ~JINJA_GIVEN;
        message[n++] = character >= ' ' && character < 0x7F ? (char)character : '?';
    }
    message[n] = 0;
    machine_fail(m, WISP_ERROR_ARGUMENT, "the template refuses: %s", message);
    return value_undefined(NULL);
}

static struct value function_strftime(struct machine *m, const struct call *c) {
    const struct value format = print_value(m, c->a[0]);
    struct builder out = {0};
    for (uint32_t i = 0; i < format.n && machine_runs(m); i++) {
        char written[DATE_BYTES];
        if ((format.as.text[i] & ~JINJA_GIVEN) != '%') {
            put_character(m, &out, format.as.text[i]);
            continue;
        }
        const bool unpadded = i + 1 < format.n && (format.as.text[i + 1] & ~JINJA_GIVEN) == '-';
        i += 1 + unpadded;
        const uint32_t directive = i < format.n ? format.as.text[i] & ~JINJA_GIVEN : 0;
        if (directive < 0x7F && date_format(&m->date, (char)directive, !unpadded, written))
            put_ascii(m, &out, written);
        else
            machine_fail(m, WISP_ERROR_UNSUPPORTED, "strftime_now with %%%c",
                         directive > ' ' && directive < 0x7F ? (char)directive : '?');
    }
    return builder_text(&out);
}

const struct function jinja_functions[] = {
    {"dict", collect, 0, NULL},
    {"namespace", function_namespace, 0, NULL},
    {"raise_exception", function_raise, 1, "message"},
    {"range", function_range, 1, "start stop step"},
    {"strftime_now", function_strftime, 1, "format"},
    {0},
};
