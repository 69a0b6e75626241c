/* SPDX-License-Identifier: Apache-2.0
 * Automata of strings and numbers, each made once.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "base/checksum.h"
#include "base/random.h"
#include "schema/regex.h"
#include "schema/schema.h"
#include "schema/schema_numbers.h"

enum made_kind { MADE_PATTERN, MADE_ORDER, MADE_MULTIPLE, MADE_BOTH, MADE_LENGTH };

/* An automaton and what it was made of: a kind, a text, and one or two numbers or automata. */
struct made_automaton {
    enum made_kind kind;
    wisp_text text;
    uint64_t first, second;
    struct automaton *automaton;
    struct made_automaton *next;
};

/* Finds what was made; else *made is a new entry without an automaton. */
static wisp_status find_made(struct schema_compiler *c, enum made_kind kind, wisp_text text,
                             uint64_t first, uint64_t second, struct made_automaton **made) {
    const uint64_t hash = checksum(text.bytes, text.length) + random_mix(first) * 3 +
                          random_mix(second) + (uint64_t)kind;
    struct made_automaton **bucket = &c->made[random_mix(hash) % MADE_BUCKETS];
    for (*made = *bucket; *made; *made = (*made)->next)
        if ((*made)->kind == kind && (*made)->first == first && (*made)->second == second &&
            (*made)->text.length == text.length &&
            memcmp((*made)->text.bytes, text.bytes, text.length) == 0)
            return WISP_OK;
    ARENA_TAKE(&c->arena, *made, 1, c->error);
    **made = (struct made_automaton){kind, text, first, second, NULL, *bucket};
    *bucket = *made;
    return WISP_OK;
}

wisp_status schema_pattern(struct schema_compiler *c, const struct json *at, wisp_text text,
                           bool negated, struct automaton **automaton) {
    struct made_automaton *made;
    wisp_status status = WISP_OK;
    TRY(find_made(c, MADE_PATTERN, text, negated, 0, &made));
    if (!made->automaton) {
        status = regex_compile(&c->arena, text, automaton, c->error);
        if (status == WISP_OK && negated)
            status = automaton_not(&c->arena, *automaton, automaton, c->error);
        made->automaton = status == WISP_OK ? *automaton : NULL;
    }
    *automaton = made->automaton;
    return status == WISP_OK ? WISP_OK : schema_refuse_again(c, status, at);
}

wisp_status schema_whole(struct schema_compiler *c, bool whole, struct automaton **made) {
    struct automaton **kept = whole ? &c->whole_numbers : &c->all_numbers;
    if (!*kept)
        TRY(numbers_all(&c->arena, whole, kept, c->error));
    *made = *kept;
    return WISP_OK;
}

static wisp_status require_number(struct schema_compiler *c, const struct json *value) {
    return value->type == JSON_NUMBER ? WISP_OK
                                      : schema_refuse(c, WISP_ERROR_FORMAT, value, "not a number");
}

/* The automaton of the numbers that are in some orders to `value` (MADE_ORDER), or are multiples
 * of it or not (MADE_MULTIPLE). It is made once. */
static wisp_status number_automaton(struct schema_compiler *c, const struct json *value,
                                    enum made_kind kind, unsigned option,
                                    struct automaton **automaton) {
    struct made_automaton *made;
    wisp_status status = WISP_OK;
    TRY(require_number(c, value));
    TRY(find_made(c, kind, json_text(value), option, 0, &made));
    if (!made->automaton && kind == MADE_ORDER)
        status = numbers_compared(&c->arena, json_text(value), option, &made->automaton, c->error);
    else if (!made->automaton)
        status =
            numbers_multiple(&c->arena, json_text(value), option != 0, &made->automaton, c->error);
    *automaton = made->automaton;
    return status == WISP_OK ? WISP_OK : schema_refuse_again(c, status, value);
}

wisp_status schema_order(struct schema_compiler *c, const struct json *bound, unsigned orders,
                         struct automaton **automaton) {
    return number_automaton(c, bound, MADE_ORDER, orders, automaton);
}

wisp_status schema_multiple(struct schema_compiler *c, const struct json *divisor, bool negated,
                            struct automaton **automaton) {
    return number_automaton(c, divisor, MADE_MULTIPLE, negated, automaton);
}

wisp_status schema_intersect(struct schema_compiler *c, struct automaton *a, struct automaton *b,
                             struct automaton **both) {
    struct made_automaton *made;
    if (!a || !b || a == b) {
        *both = a ? a : b;
        return WISP_OK;
    }
    TRY(find_made(c, MADE_BOTH, (wisp_text){"", 0}, (uintptr_t)a, (uintptr_t)b, &made));
    if (!made->automaton)
        TRY(automaton_and(&c->arena, a, b, &made->automaton, c->error));
    *both = made->automaton;
    return WISP_OK;
}

wisp_status schema_strings(struct schema_compiler *c, const struct record *record,
                           struct automaton **automaton) {
    struct made_automaton *made;
    *automaton = record->string;
    if (record->string && record->least_length == 0 && record->most_length == UINT32_MAX)
        return WISP_OK;
    TRY(find_made(c, MADE_LENGTH, (wisp_text){"", 0}, record->least_length, record->most_length,
                  &made));
    if (!made->automaton)
        TRY(automaton_length(&c->arena, record->least_length, record->most_length, &made->automaton,
                             c->error));
    return schema_intersect(c, record->string, made->automaton, automaton);
}
