/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/format.h"

#include <string.h>

#include "jinja/print.h"

struct value format_percent(struct machine *m, struct value text, struct value value) {
    const bool many = value.type == JINJA_TUPLE;
    const struct value *values = many ? value.as.items : &value;
    const uint32_t n = many ? value.n : 1;
    struct builder out = {0};
    uint32_t used = 0;
    for (uint32_t i = 0; i < text.n && machine_runs(m); i++) {
        const uint32_t c = text.as.text[i] & ~JINJA_GIVEN;
        const uint32_t kind = i + 1 < text.n ? text.as.text[i + 1] & ~JINJA_GIVEN : 0;
        int64_t integer;
        if (c != '%') {
            put_character(m, &out, text.as.text[i]);
            continue;
        }
        i++;
        if (kind == '%') {
            put_character(m, &out, text.as.text[i]);
            continue;
        }
        if (used == n) {
            machine_fail(m, WISP_ERROR_ARGUMENT, "the format has more places than values");
            break;
        }
        const struct value next = values[used++];
        if (kind == 's')
            put_value(m, &out, next);
        else if (kind == 'r')
            put_repr(m, &out, next);
        else if ((kind == 'd' || kind == 'i') && value_to_integer(next, &integer))
            put_repr(m, &out, value_integer(integer));
        else
            machine_fail(m, WISP_ERROR_UNSUPPORTED, "the format %%%c with such a value",
                         kind > ' ' && kind < 0x7F ? (char)kind : '?');
    }
    /* Python takes one list or dictionary for what %(name)s names. */
    const bool names =
        value.type == JINJA_DICT || value.type == JINJA_LIST || value.type == JINJA_UNDEFINED;
    if (used < n && (many || !names))
        machine_fail(m, WISP_ERROR_ARGUMENT, "the format has fewer places than values");
    return builder_text(&out);
}

/* Returns the argument of a place: "", a number or a name. */
static struct value find_argument(struct machine *m, const struct arguments *arguments,
                                  struct value place, uint32_t *automatic) {
    uint32_t index = 0;
    bool is_number = true;
    for (uint32_t i = 0; i < place.n; i++) {
        const uint32_t c = place.as.text[i] & ~JINJA_GIVEN;
        is_number = is_number && c >= '0' && c <= '9' && i < 6;
        index = index * 10 + (c - '0');
    }
    if (place.n == 0)
        index = (*automatic)++;
    for (uint32_t i = 0; i < arguments->n; i++)
        if (arguments->names[i] ? value_is(place, arguments->names[i]) : is_number && i == index)
            return arguments->values[i];
    machine_fail(m, WISP_ERROR_UNSUPPORTED, "format has a place without a value, or with a style");
    return value_undefined(NULL);
}

struct value format_braces(struct machine *m, struct value text,
                           const struct arguments *arguments) {
    struct builder out = {0};
    uint32_t automatic = 0;
    for (uint32_t i = 0; i < text.n && machine_runs(m); i++) {
        const uint32_t c = text.as.text[i] & ~JINJA_GIVEN;
        const uint32_t next = i + 1 < text.n ? text.as.text[i + 1] & ~JINJA_GIVEN : 0;
        uint32_t end = i + 1;
        if (c != '{' && c != '}') {
            put_character(m, &out, text.as.text[i]);
            continue;
        }
        if (next == c) {
            put_character(m, &out, text.as.text[i++]);
            continue;
        }
        while (c == '{' && end < text.n && (text.as.text[end] & ~JINJA_GIVEN) != '}')
            end++;
        if (c == '}' || end == text.n) {
            machine_fail(m, WISP_ERROR_ARGUMENT, "format has a brace without its other");
            break;
        }
        put_value(m, &out, find_argument(m, arguments, text_part(text, i + 1, end), &automatic));
        i = end;
    }
    return builder_text(&out);
}
