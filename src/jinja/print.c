/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/print.h"

#include <stdio.h>
#include <string.h>

#include "jinja/characters.h"

static void put_integer(struct machine *m, struct builder *b, int64_t integer) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)integer);
    put_ascii(m, b, digits);
}

/* Appends \xNN, \uNNNN or \UNNNNNNNN. The characters keep where `c` came from. */
static void put_escape(struct machine *m, struct builder *b, uint32_t c, char letter, int digits) {
    char escape[12];
    snprintf(escape, sizeof escape, "\\%c%0*lx", letter, digits, (unsigned long)(c & ~JINJA_GIVEN));
    for (const char *at = escape; *at; at++)
        put_character(m, b, (unsigned char)*at | (c & JINJA_GIVEN));
}

/* Appends a character that a backslash and a letter stand for. Returns false if it is none of
 * `characters`. */
static bool put_short_escape(struct machine *m, struct builder *b, uint32_t c,
                             const char *characters, const char *letters) {
    const uint32_t plain = c & ~JINJA_GIVEN;
    const char *found = plain > 0 && plain < 0x80 ? strchr(characters, (int)plain) : NULL;
    if (!found)
        return false;
    put_character(m, b, '\\' | (c & JINJA_GIVEN));
    put_character(m, b, (unsigned char)letters[found - characters] | (c & JINJA_GIVEN));
    return true;
}

/* ---- str and repr --------------------------------------------------------------------------- */

static bool has_character(struct value text, uint32_t wanted) {
    for (uint32_t i = 0; i < text.n; i++)
        if ((text.as.text[i] & ~JINJA_GIVEN) == wanted)
            return true;
    return false;
}

static void put_quoted(struct machine *m, struct builder *b, struct value text) {
    const bool doubled = has_character(text, '\'') && !has_character(text, '"');
    const char *quote = doubled ? "\"" : "'";
    put_ascii(m, b, quote);
    for (uint32_t i = 0; i < text.n && machine_runs(m); i++) {
        const uint32_t c = text.as.text[i], plain = c & ~JINJA_GIVEN;
        if (put_short_escape(m, b, c, "\\\n\r\t", "\\nrt") ||
            put_short_escape(m, b, c, quote, quote))
            continue;
        if (character_is_printed(c))
            put_character(m, b, c);
        else if (plain < 0x100)
            put_escape(m, b, c, 'x', 2);
        else
            put_escape(m, b, c, plain < 0x10000 ? 'u' : 'U', plain < 0x10000 ? 4 : 8);
    }
    put_ascii(m, b, quote);
}

static void put_items(struct machine *m, struct builder *b, struct value list) {
    const bool tuple = list.type == JINJA_TUPLE;
    put_ascii(m, b, tuple ? "(" : "[");
    for (uint32_t i = 0; i < list.n && machine_runs(m); i++) {
        put_ascii(m, b, i > 0 ? ", " : "");
        put_repr(m, b, list.as.items[i]);
    }
    put_ascii(m, b, tuple ? list.n == 1 ? ",)" : ")" : "]");
}

static void put_entries(struct machine *m, struct builder *b, struct value dict) {
    put_ascii(m, b, "{");
    for (uint32_t i = 0; i < dict.n && machine_runs(m); i++) {
        put_ascii(m, b, i > 0 ? ", " : "");
        put_repr(m, b, dict.as.entries[i].key);
        put_ascii(m, b, ": ");
        put_repr(m, b, dict.as.entries[i].value);
    }
    put_ascii(m, b, "}");
}

void put_repr(struct machine *m, struct builder *b, struct value value) {
    if (!machine_spend(m, 1))
        return;
    switch (value.type) {
    case JINJA_UNDEFINED:
        put_ascii(m, b, "Undefined");
        return;
    case JINJA_NONE:
        put_ascii(m, b, "None");
        return;
    case JINJA_FALSE:
    case JINJA_TRUE:
        put_ascii(m, b, value.type == JINJA_TRUE ? "True" : "False");
        return;
    case JINJA_INTEGER:
        put_integer(m, b, value.as.integer);
        return;
    case JINJA_REAL:
        put_ascii(m, b, value.as.real->digits);
        return;
    case JINJA_TEXT:
        put_quoted(m, b, value);
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
        put_items(m, b, value);
        return;
    case JINJA_DICT:
        put_entries(m, b, value);
        return;
    default:
        machine_fail_use(m, value, "it cannot be written as a text");
    }
}

void put_value(struct machine *m, struct builder *b, struct value value) {
    if (value.type == JINJA_TEXT)
        put_characters(m, b, value.as.text, value.n);
    else if (value.type != JINJA_UNDEFINED)
        put_repr(m, b, value);
}

struct value print_value(struct machine *m, struct value value) {
    struct builder text = {0};
    if (value.type == JINJA_TEXT)
        return value;
    put_value(m, &text, value);
    return builder_text(&text);
}

void put_html(struct machine *m, struct builder *b, struct value text, bool escapes) {
    static const char characters[] = "&<>'\"", *const names[] = {"&amp;", "&lt;", "&gt;", "&#39;",
                                                                 "&#34;"};
    for (uint32_t i = 0; i < text.n && machine_runs(m); i++) {
        const uint32_t c = text.as.text[i], plain = c & ~JINJA_GIVEN;
        const char *found =
            escapes && plain > 0 && plain < 0x80 ? strchr(characters, (int)plain) : NULL;
        if (found)
            for (const char *at = names[found - characters]; *at; at++)
                put_character(m, b, (unsigned char)*at | (c & JINJA_GIVEN));
        else
            put_character(m, b, c);
    }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void put_json_text(struct machine *m, struct builder *b, struct value text, bool ascii) {
    put_ascii(m, b, "\"");
    for (uint32_t i = 0; i < text.n && machine_runs(m); i++) {
        const uint32_t c = text.as.text[i], plain = c & ~JINJA_GIVEN;
        const uint32_t high = plain - 0x10000;
        if (put_short_escape(m, b, c, "\"\\\n\r\t\b\f", "\"\\nrtbf"))
            continue;
        if (plain >= 0x20 && (!ascii || plain < 0x7F))
            put_character(m, b, c);
        else if (plain < 0x10000)
            put_escape(m, b, c, 'u', 4);
        else {
            put_escape(m, b, (0xD800 + (high >> 10)) | (c & JINJA_GIVEN), 'u', 4);
            put_escape(m, b, (0xDC00 + (high & 0x3FF)) | (c & JINJA_GIVEN), 'u', 4);
        }
    }
    put_ascii(m, b, "\"");
}

static void put_json_line(struct machine *m, struct builder *b, const struct json_style *style,
                          unsigned depth) {
    if (style->indent.type == JINJA_ABSENT)
        return;
    put_ascii(m, b, "\n");
    for (; depth > 0; depth--)
        put_value(m, b, style->indent);
}

static void put_json_at(struct machine *m, struct builder *b, struct value value,
                        const struct json_style *style, unsigned depth);

static void put_json_key(struct machine *m, struct builder *b, struct value key,
                         const struct json_style *style) {
    struct builder text = {0};
    if (key.type != JINJA_TEXT) {
        put_json_at(m, &text, key, style, 0);
        key = builder_text(&text);
    }
    put_json_text(m, b, key, style->ascii);
}

/* Returns a dictionary with its entries in the order of their keys. */
static struct value sort_entries(struct machine *m, struct value dict) {
    struct entry *sorted = machine_take(m, dict.n, sizeof *sorted);
    for (uint32_t i = 0; sorted && i < dict.n && machine_spend(m, 1 + i); i++) {
        const struct entry entry = dict.as.entries[i];
        uint32_t at = i;
        if (entry.key.type != JINJA_TEXT)
            machine_fail_use(m, entry.key, "only texts are sorted");
        for (; at > 0 && machine_runs(m) && text_compare(sorted[at - 1].key, entry.key) > 0; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = entry;
    }
    dict.as.entries = sorted;
    dict.n = sorted && machine_runs(m) ? dict.n : 0;
    return dict;
}

static void put_json_members(struct machine *m, struct builder *b, struct value value,
                             const struct json_style *style, unsigned depth) {
    const bool is_dict = value.type == JINJA_DICT;
    if (is_dict && style->sorted)
        value = sort_entries(m, value);
    put_ascii(m, b, is_dict ? "{" : "[");
    for (uint32_t i = 0; i < value.n && machine_runs(m); i++) {
        if (i > 0)
            put_value(m, b, style->comma);
        put_json_line(m, b, style, depth + 1);
        if (is_dict) {
            put_json_key(m, b, value.as.entries[i].key, style);
            put_value(m, b, style->colon);
        }
        put_json_at(m, b, is_dict ? value.as.entries[i].value : value.as.items[i], style,
                    depth + 1);
    }
    if (value.n > 0)
        put_json_line(m, b, style, depth);
    put_ascii(m, b, is_dict ? "}" : "]");
}

static void put_json_at(struct machine *m, struct builder *b, struct value value,
                        const struct json_style *style, unsigned depth) {
    if (!machine_spend(m, 1))
        return;
    switch (value.type) {
    case JINJA_NONE:
        put_ascii(m, b, "null");
        return;
    case JINJA_FALSE:
    case JINJA_TRUE:
        put_ascii(m, b, value.type == JINJA_TRUE ? "true" : "false");
        return;
    case JINJA_INTEGER:
    case JINJA_REAL:
        put_repr(m, b, value);
        return;
    case JINJA_TEXT:
        put_json_text(m, b, value, style->ascii);
        return;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
        put_json_members(m, b, value, style, depth);
        return;
    default:
        machine_fail_use(m, value, "it cannot be written as JSON");
    }
}

void put_json(struct machine *m, struct builder *b, struct value value,
              const struct json_style *style) {
    put_json_at(m, b, value, style, 0);
}
