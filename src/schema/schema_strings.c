/* SPDX-License-Identifier: Apache-2.0
 * Automata of characters as they are written in JSON: with escapes, and in UTF-8.
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "schema/schema_output.h"

/* The rule of characters that are not one byte: ranges above ASCII, and escapes. */
struct wide_rule {
    uint64_t escapes;                /* bits of escaped characters, see below */
    const struct code_range *ranges; /* [n] */
    uint32_t n, rule;
    bool any; /* all characters */
    struct wide_rule *next;
};

/* Characters that have an escape of one letter. Control characters have bits 0 to 31. */
static const struct {
    char character, letter;
} letters[] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'\b', 'b'},
               {'\f', 'f'}, {'\n', 'n'},  {'\r', 'r'}, {'\t', 't'}};

static uint64_t escape_bit(uint32_t c) {
    return c < 32      ? UINT64_C(1) << c
           : c == '"'  ? UINT64_C(1) << 32
           : c == '\\' ? UINT64_C(1) << 33
           : c == '/'  ? UINT64_C(1) << 34
                       : 0;
}

/* ---- escapes -------------------------------------------------------------------------------- */

static wisp_status add_bytes(struct symbols *s, const char *text, wisp_error *error) {
    for (; *text; text++)
        TRY(symbols_add(s, SYMBOL_BYTE, (unsigned char)*text, error));
    return WISP_OK;
}

static wisp_status add_set(struct schema_output *o, struct symbols *s, const struct byte_set *set) {
    uint32_t index;
    TRY(builder_byte_set(&o->builder, set, &index, o->compiler->error));
    return symbols_add(s, SYMBOL_SET, index, o->compiler->error);
}

static void put(struct byte_set *set, char c) {
    set->bits[(unsigned char)c / 8] |= (uint8_t)(1u << (unsigned char)c % 8);
}

/* Ends an alternative and empties it for the next. */
static wisp_status end_alternative(struct schema_output *o, struct symbols *s, uint32_t rule) {
    const wisp_status status = builder_add_alternative(&o->builder, rule, s, o->compiler->error);
    s->n = 0;
    return status;
}

/* \n and the like, and \u00XX of control characters. */
static wisp_status add_escapes(struct schema_output *o, struct symbols *s, uint32_t rule,
                               uint64_t escapes) {
    wisp_error *error = o->compiler->error;
    struct byte_set set = {{0}};
    bool any = false;
    for (size_t i = 0; i < sizeof letters / sizeof *letters; i++)
        if (escapes & escape_bit((unsigned char)letters[i].character)) {
            put(&set, letters[i].letter);
            any = true;
        }
    if (any) {
        TRY(add_bytes(s, "\\", error));
        TRY(add_set(o, s, &set));
        TRY(end_alternative(o, s, rule));
    }
    for (uint32_t high = 0; high < 2; high++) {
        struct byte_set digits = {{0}};
        if (!(escapes >> 16 * high & 0xFFFF))
            continue;
        for (uint32_t low = 0; low < 16; low++)
            if (escapes >> (16 * high + low) & 1) {
                put(&digits, "0123456789abcdef"[low]);
                put(&digits, "0123456789ABCDEF"[low]);
            }
        TRY(add_bytes(s, high ? "\\u001" : "\\u000", error));
        TRY(add_set(o, s, &digits));
        TRY(end_alternative(o, s, rule));
    }
    return WISP_OK;
}

static wisp_status add_alternatives(struct schema_output *o, struct symbols *s,
                                    const struct wide_rule *w) {
    wisp_error *error = o->compiler->error;
    const bool high = w->n == 1 && w->ranges->low == 0x80 && w->ranges->high == LAST_CHARACTER;
    struct code_range *copy;
    TRY(add_escapes(o, s, w->rule, w->escapes));
    if (w->any || high) {
        TRY(add_bytes(s, "\\", error));
        TRY(symbols_add(s, SYMBOL_RULE, w->any ? o->any_unicode : o->high_unicode, error));
        TRY(end_alternative(o, s, w->rule));
    }
    if (w->n == 0)
        return WISP_OK;
    ARENA_TAKE(&o->compiler->arena, copy, w->n, error);
    memcpy(copy, w->ranges, w->n * sizeof *copy);
    TRY(builder_add_set(&o->builder, s, copy, w->n, false, error));
    return end_alternative(o, s, w->rule);
}

/* Finds or makes the rule of a class. Sets it to UINT32_MAX if all its characters are one byte. */
static wisp_status wide_rule(struct schema_output *o, const struct automaton *a, uint32_t class,
                             uint32_t *rule) {
    struct wide_rule *w, *known = o->wide;
    struct code_range *ranges;
    struct symbols symbols = {0};
    ARENA_TAKE(&o->compiler->arena, w, 1, o->compiler->error);
    ARENA_TAKE(&o->compiler->arena, ranges, a->ranges, o->compiler->error);
    *w = (struct wide_rule){.ranges = ranges, .any = a->classes == 1, .next = o->wide};
    for (uint32_t i = 0; i < a->ranges; i++) {
        const uint32_t end = i + 1 < a->ranges ? a->begin[i + 1] : LAST_CHARACTER + 1;
        if (a->class_of[i] != class)
            continue;
        for (uint32_t c = a->begin[i]; c < end && c < 128; c++)
            w->escapes |= escape_bit(c);
        if (end <= 0x80)
            continue;
        const uint32_t low = a->begin[i] < 0x80 ? 0x80 : a->begin[i];
        if (w->n > 0 && ranges[w->n - 1].high + 1 == low)
            ranges[w->n - 1].high = end - 1;
        else
            ranges[w->n++] = (struct code_range){low, end - 1};
    }
    *rule = UINT32_MAX;
    if (w->n == 0 && w->escapes == 0)
        return WISP_OK;
    while (known && (known->escapes != w->escapes || known->n != w->n || known->any != w->any ||
                     memcmp(known->ranges, ranges, w->n * sizeof *ranges) != 0))
        known = known->next;
    if (!known) {
        TRY(builder_new_rule(&o->builder, &w->rule, o->compiler->error));
        o->wide = known = w;
        const wisp_status status = add_alternatives(o, &symbols, w);
        free(symbols.list);
        TRY(status);
    }
    *rule = known->rule;
    return WISP_OK;
}

/* ---- automata ------------------------------------------------------------------------------- */

/* Finds the classes of plain characters. Returns their number. */
static uint32_t plain_classes(const struct automaton *a, uint32_t classes[128]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->ranges && a->begin[i] < 128; i++) {
        const uint32_t end = i + 1 < a->ranges ? a->begin[i + 1] : 128;
        bool plain = false, known = false;
        for (uint32_t c = a->begin[i]; c < end && c < 128; c++)
            plain = plain || plain_byte((unsigned char)c);
        for (uint32_t k = 0; k < n; k++)
            known = known || classes[k] == a->class_of[i];
        if (plain && !known)
            classes[n++] = a->class_of[i];
    }
    return n;
}

void output_runs(const struct automaton *a, const uint8_t *open, uint8_t *runs) {
    uint32_t classes[128];
    const uint32_t n = plain_classes(a, classes);
    for (uint32_t s = 1; s < a->states; s++)
        runs[s] = PLAIN_RUN;
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = a->states; s-- > 1;) {
            const uint32_t *row = a->next + (size_t)s * a->classes;
            uint8_t run = PLAIN_RUN;
            for (uint32_t i = 0; i < n && run > 0; i++) {
                const uint32_t next = row[classes[i]];
                const bool stops = next == 0 || (open && !open[next]);
                const uint8_t after = (uint8_t)(stops ? 0 : runs[next] + 1);
                run = after < run ? after : run;
            }
            changed = changed || run != runs[s];
            runs[s] = run;
        }
    }
}

/* Maps bytes to classes, and classes to rules. */
static wisp_status map_classes(struct schema_output *o, const struct automaton *a, bool is_string,
                               struct grammar_automaton *made) {
    uint32_t *wide;
    uint8_t *used;
    if (a->classes > 254)
        return fail(
            o->compiler->error, WISP_ERROR_UNSUPPORTED, NULL, "json_schema",
            "a pattern, enum or the names of an object tell more than 254 characters apart");
    ARENA_TAKE(&o->grammar->arena, wide, a->classes, o->compiler->error);
    ARENA_TAKE(&o->compiler->arena, used, a->classes, o->compiler->error);
    for (uint32_t i = 0; i < a->states; i++)
        for (uint32_t c = 0; c < a->classes; c++)
            used[c] |= a->next[(size_t)i * a->classes + c] != 0;
    for (uint32_t i = 0; i < a->ranges; i++)
        for (uint32_t c = a->begin[i]; c < 128 && (i + 1 == a->ranges || c < a->begin[i + 1]); c++)
            if (!is_string || (c >= 0x20 && c != '"' && c != '\\'))
                made->ascii[c] = (uint8_t)(a->class_of[i] + 1);
    for (uint32_t c = 0; c < a->classes; c++) {
        wide[c] = UINT32_MAX;
        if (is_string && used[c])
            TRY(wide_rule(o, a, c, &wide[c]));
    }
    made->wide = wide;
    made->classes = a->classes;
    return WISP_OK;
}

wisp_status output_automaton(struct schema_output *o, struct automaton *a, bool is_string,
                             uint32_t *state) {
    struct schema_compiler *c = o->compiler;
    struct grammar_automaton made = {.first = 0};
    const size_t cells = (size_t)(a->states - 1) * a->classes;
    uint32_t *next;
    uint8_t *run;
    *state = a->written;
    if (a->written)
        return WISP_OK;
    ARENA_TAKE(&c->arena, run, a->states, c->error);
    TRY(map_classes(o, a, is_string, &made));
    TRY(list_grow(&o->states, o->n_states, a->states, &o->state_capacity, sizeof *o->states,
                  c->error));
    TRY(list_grow(&o->automata, o->n_automata, 1, &o->automaton_capacity, sizeof *o->automata,
                  c->error));
    ARENA_TAKE(&o->grammar->arena, next, cells + 1, c->error);
    made.first = *state = a->written = o->n_states;
    made.states = a->states - 1;
    made.next = next;
    for (size_t i = 0; i < cells; i++) { /* state 1 becomes the first */
        const uint32_t to = a->next[i + a->classes];
        next[i] = to ? to - 1 + made.first : 0;
    }
    if (is_string)
        output_runs(a, NULL, run);
    for (uint32_t s = 1; s < a->states; s++)
        o->states[o->n_states++] = (struct automaton_state){o->n_automata, a->tag[s], run[s]};
    o->automata[o->n_automata++] = made;
    return WISP_OK;
}
