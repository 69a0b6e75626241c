/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/texts.h"

#include <string.h>

#include "jinja/characters.h"
#include "jinja/operators.h"

static bool is_absent(struct value value) {
    return value.type == JINJA_ABSENT || value.type == JINJA_NONE;
}

/* Fails if a value is not a text. */
static bool check_text(struct machine *m, struct value value) {
    if (value.type != JINJA_TEXT)
        machine_fail_use(m, value, "expected a text");
    return machine_runs(m);
}

static bool is_stripped(uint32_t c, struct value set) {
    if (is_absent(set))
        return character_is_space(c);
    for (uint32_t i = 0; i < set.n; i++)
        if (((set.as.text[i] ^ c) & ~JINJA_GIVEN) == 0)
            return true;
    return false;
}

struct value text_strip(struct machine *m, struct value text, struct value set, bool left,
                        bool right) {
    uint32_t begin = 0, end = text.n;
    if (!is_absent(set) && !check_text(m, set))
        return text;
    while (left && begin < end && is_stripped(text.as.text[begin], set))
        begin++;
    while (right && end > begin && is_stripped(text.as.text[end - 1], set))
        end--;
    return text_part(text, begin, end);
}

struct value text_replace(struct machine *m, struct value text, struct value old,
                          struct value replacement, struct value count) {
    struct builder out = {0};
    int64_t left = -1;
    if (!check_text(m, old) || !check_text(m, replacement))
        return text;
    if (!is_absent(count) && !value_to_integer(count, &left))
        machine_fail_use(m, count, "expected a number");
    uint32_t at = 0;
    while (left != 0 && machine_runs(m)) {
        const int64_t found = text_find(m, text, old, at);
        if (found < 0)
            break;
        put_characters(m, &out, text.as.text + at, (uint32_t)found - at);
        put_characters(m, &out, replacement.as.text, replacement.n);
        at = (uint32_t)found + old.n;
        left -= left > 0;
        if (old.n > 0)
            continue;
        if (at == text.n)
            return builder_text(&out);
        put_character(m, &out, text.as.text[at++]);
    }
    put_characters(m, &out, text.as.text + at, text.n - at);
    return builder_text(&out);
}

/* ---- splitting ------------------------------------------------------------------------------ */

/* A list that grows. */
struct parts {
    struct value *items;
    uint32_t n, capacity;
};

static void add_part(struct machine *m, struct parts *parts, struct value part) {
    if (parts->n == parts->capacity) {
        const size_t capacity = 2 * (size_t)parts->capacity + 4;
        struct value *items = machine_take(m, capacity, sizeof *items);
        if (!items)
            return;
        if (parts->n > 0)
            memcpy(items, parts->items, parts->n * sizeof *items);
        parts->items = items;
        parts->capacity = (uint32_t)capacity;
    }
    parts->items[parts->n++] = part;
}

/* Splits at white space, of which there is none around parts. */
static void split_words(struct machine *m, struct value text, int64_t most, struct parts *parts) {
    const struct value space = {.type = JINJA_ABSENT};
    text = text_strip(m, text, space, true, false);
    while (text.n > 0 && machine_spend(m, 1)) {
        uint32_t end = 0;
        while (most != 0 && end < text.n && !character_is_space(text.as.text[end]))
            end++;
        end = most == 0 ? text.n : end;
        add_part(m, parts, text_part(text, 0, end));
        text = text_strip(m, text_part(text, end, text.n), space, true, false);
        most -= most > 0;
    }
}

static void split_words_from_right(struct machine *m, struct value text, int64_t most,
                                   struct parts *parts) {
    const struct value space = {.type = JINJA_ABSENT};
    text = text_strip(m, text, space, false, true);
    while (text.n > 0 && machine_spend(m, 1)) {
        uint32_t begin = text.n;
        while (most != 0 && begin > 0 && !character_is_space(text.as.text[begin - 1]))
            begin--;
        begin = most == 0 ? 0 : begin;
        add_part(m, parts, text_part(text, begin, text.n));
        text = text_strip(m, text_part(text, 0, begin), space, false, true);
        most -= most > 0;
    }
}

static void split_at(struct machine *m, struct value text, struct value separator, int64_t most,
                     bool from_right, struct parts *parts) {
    while (machine_spend(m, 1)) {
        const int64_t found = most == 0    ? -1
                              : from_right ? text_find_last(m, text, separator)
                                           : text_find(m, text, separator, 0);
        if (found < 0)
            break;
        const uint32_t begin = (uint32_t)found, end = begin + separator.n;
        add_part(m, parts, from_right ? text_part(text, end, text.n) : text_part(text, 0, begin));
        text = from_right ? text_part(text, 0, begin) : text_part(text, end, text.n);
        most -= most > 0;
    }
    add_part(m, parts, text);
}

struct value text_split(struct machine *m, struct value text, struct value separator, int64_t most,
                        bool from_right) {
    struct parts parts = {0};
    if (is_absent(separator)) {
        if (from_right)
            split_words_from_right(m, text, most, &parts);
        else
            split_words(m, text, most, &parts);
    } else if (check_text(m, separator)) {
        if (separator.n == 0)
            machine_fail(m, WISP_ERROR_ARGUMENT, "split at an empty text");
        split_at(m, text, separator, most, from_right, &parts);
    }
    for (uint32_t i = 0; from_right && i < parts.n / 2; i++) {
        const struct value swapped = parts.items[i];
        parts.items[i] = parts.items[parts.n - 1 - i];
        parts.items[parts.n - 1 - i] = swapped;
    }
    return machine_list(parts.items, parts.n);
}

struct value text_lines(struct machine *m, struct value text) {
    struct parts lines = {0};
    for (uint32_t begin = 0, at = 0; at < text.n && machine_runs(m); begin = at) {
        while (at < text.n && !character_is_break(text.as.text[at]))
            at++;
        add_part(m, &lines, text_part(text, begin, at));
        const bool pair = at + 1 < text.n && (text.as.text[at] & ~JINJA_GIVEN) == '\r' &&
                          (text.as.text[at + 1] & ~JINJA_GIVEN) == '\n';
        at += at < text.n ? 1 + pair : 0;
    }
    return machine_list(lines.items, lines.n);
}

struct value text_join(struct machine *m, struct value between, const struct value *texts,
                       uint32_t n) {
    struct builder out = {0};
    for (uint32_t i = 0; i < n && check_text(m, texts[i]); i++) {
        if (i > 0)
            put_characters(m, &out, between.as.text, between.n);
        put_characters(m, &out, texts[i].as.text, texts[i].n);
    }
    return builder_text(&out);
}

/* ---- upper and lower case ------------------------------------------------------------------- */

/* Letters whose upper case Unicode's table of lower case does not lead to, and those of old Greek
 * and of ligatures, for which there is no table here. */
static const struct {
    uint32_t first, last, upper; /* 0: not known */
} unlike[] = {{0xB5, 0xB5, 0x39C}, {0x131, 0x131, 'I'},   {0x149, 0x149, 0},   {0x17F, 0x17F, 'S'},
              {0x1C4, 0x1CC, 0},   {0x1F0, 0x1F3, 0},     {0x345, 0x345, 0},   {0x390, 0x390, 0},
              {0x3B0, 0x3B0, 0},   {0x3C2, 0x3C2, 0x3A3}, {0x3D0, 0x3D6, 0},   {0x3F0, 0x3F5, 0},
              {0x587, 0x587, 0},   {0x1C80, 0x1C88, 0},   {0x1E96, 0x1E9B, 0}, {0x1F50, 0x1F56, 0},
              {0x1F80, 0x1FFC, 0}, {0xFB00, 0xFB17, 0}};

/* Finds the letter whose lower case is `c`, or returns `c`. */
static uint32_t find_upper(struct machine *m, uint32_t c) {
    static const uint8_t near[] = {32, 1, 80, 48, 26, 40, 8, 37, 38, 63, 64}; /* most are so far */
    uint32_t lower[2];
    for (size_t i = 0; i < sizeof near; i++)
        if (c - near[i] >= 0x80 && unicode_lower(c - near[i], lower) == 1 && lower[0] == c)
            return c - near[i];
    for (uint32_t u = 0x80; u < 0x1E944 && machine_spend(m, 1); u++)
        if ((unicode_flags(u) & UNICODE_HAS_LOWER) && unicode_lower(u, lower) == 1 && lower[0] == c)
            return u;
    return c;
}

/* Writes the upper case of a code point and returns the number of its code points. */
static size_t upper_of(struct machine *m, uint32_t c, uint32_t out[2]) {
    out[0] = out[1] = c;
    if (c < 0x80) {
        out[0] = c >= 'a' && c <= 'z' ? c - 32 : c;
        return 1;
    }
    if (c == 0xDF) { /* the one letter of words whose upper case is two */
        out[0] = out[1] = 'S';
        return 2;
    }
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        if (c >= unlike[i].first && c <= unlike[i].last) {
            if (unlike[i].upper == 0)
                machine_fail(m, WISP_ERROR_UNSUPPORTED, "the upper case of U+%04lX",
                             (unsigned long)c);
            out[0] = unlike[i].upper;
            return 1;
        }
    out[0] = unicode_is_word(c) ? find_upper(m, c) : c;
    return 1;
}

/* Returns whether the sigma at `at` ends a word, if its lower case has another form. */
static bool ends_word(struct value text, uint32_t at) {
    const bool follows = at > 0 && unicode_is_word(text.as.text[at - 1] & ~JINJA_GIVEN);
    return follows && !(at + 1 < text.n && unicode_is_word(text.as.text[at + 1] & ~JINJA_GIVEN));
}

static void put_case(struct machine *m, struct builder *b, struct value text, uint32_t at,
                     bool upper) {
    uint32_t changed[2];
    const uint32_t c = text.as.text[at], plain = c & ~JINJA_GIVEN;
    const size_t n = upper ? upper_of(m, plain, changed) : unicode_lower(plain, changed);
    if (plain == 0x3A3 && !upper && ends_word(text, at))
        changed[0] = 0x3C2;
    for (size_t i = 0; i < n; i++)
        put_character(m, b, changed[i] | (c & JINJA_GIVEN));
}

struct value text_case(struct machine *m, struct value text, enum letter_case wanted) {
    struct builder out = {0};
    bool begins = true;
    for (uint32_t i = 0; i < text.n && machine_runs(m); i++) {
        const uint32_t c = text.as.text[i], plain = c & ~JINJA_GIVEN;
        put_case(m, &out, text, i, wanted == CASE_UPPER || (wanted != CASE_LOWER && begins));
        begins =
            wanted == CASE_TITLE &&
            (character_is_space(c) || (plain > 0 && plain < 0x80 && strchr("-({[<", (int)plain)));
    }
    struct value changed = builder_text(&out);
    changed.is_markup = text.is_markup;
    return changed;
}
