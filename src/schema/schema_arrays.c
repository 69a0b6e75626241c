/* SPDX-License-Identifier: Apache-2.0
 * Rules of arrays. A rule stands for the items so far and, of each `contains`, for how many
 * of them count.
 * Compiled for size in WebAssembly. */
#include <stdlib.h>

#include "schema/schema_output.h"

enum { MOST_UNIQUE = 8, MOST_CONTAINS = 4, MOST_RULES = 1 << 18 };

/* The rules of an array: rules[items * width + counts] is the rule for what may follow so many
 * items and counts. Items after `last` count as that one. The counts are the digits of a number;
 * contains[i] has the radix most[i] + 1. */
struct array_plan {
    struct schema_output *output;
    const struct record *record;
    const struct item_count *contains[MOST_CONTAINS];
    uint32_t most[MOST_CONTAINS]; /* that are counted */
    uint32_t n_contains, last, width;
    uint32_t *rules; /* UINT32_MAX: not reached */
    struct symbols symbols;
};

static wisp_status add_symbol(struct array_plan *p, enum symbol_kind kind, uint32_t value) {
    return symbols_add(&p->symbols, kind, value, p->output->compiler->error);
}

static wisp_status end_alternative(struct array_plan *p, uint32_t rule) {
    const wisp_status status =
        builder_add_alternative(&p->output->builder, rule, &p->symbols, p->output->compiler->error);
    p->symbols.n = 0;
    return status;
}

/* Finds or makes the rule of what comes after. */
static wisp_status rule_after(struct array_plan *p, uint32_t items, uint32_t count,
                              uint32_t *rule) {
    const size_t at = (size_t)(items < p->last ? items : p->last) * p->width + count;
    if (p->rules[at] == UINT32_MAX)
        TRY(builder_new_rule(&p->output->builder, &p->rules[at], p->output->compiler->error));
    *rule = p->rules[at];
    return WISP_OK;
}

/* Adds the alternative that one more item comes, of which literals say more. */
static wisp_status add_item(struct array_plan *p, uint32_t rule, uint32_t items,
                            const struct literal *more, uint32_t n_more, uint32_t count) {
    struct schema_compiler *c = p->output->compiler;
    uint32_t goal, value, after;
    bool empty;
    TRY(goal_of_item(c, p->record, items, more, n_more, &goal));
    TRY(output_goal(p->output, goal, &value, &empty));
    if (empty)
        return WISP_OK;
    if (items > 0) {
        TRY(add_symbol(p, SYMBOL_BYTE, ','));
        TRY(add_symbol(p, SYMBOL_RULE, p->output->space));
    }
    TRY(rule_after(p, items + 1, count, &after));
    TRY(add_symbol(p, SYMBOL_RULE, value));
    TRY(add_symbol(p, SYMBOL_RULE, p->output->space));
    TRY(add_symbol(p, SYMBOL_RULE, after));
    return end_alternative(p, rule);
}

/* Returns how many of contains[i] were found so far. */
static uint32_t count_of(const struct array_plan *p, uint32_t counts, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        counts /= p->most[k] + 1;
    return counts % (p->most[i] + 1);
}

/* Returns how many items have to come still. */
static uint32_t missing_items(const struct array_plan *p, uint32_t counts) {
    uint32_t missing = 0;
    for (uint32_t i = 0; i < p->n_contains; i++) {
        const uint32_t count = count_of(p, counts, i), least = p->contains[i]->least;
        if (least > count && least - count > missing)
            missing = least - count;
    }
    return missing;
}

/* Adds the alternative that one more item comes, which counts for the contains of a mask. */
static wisp_status add_counted(struct array_plan *p, uint32_t rule, uint32_t items, uint32_t counts,
                               uint32_t mask) {
    struct literal more[MOST_CONTAINS];
    uint32_t n = 0, radix = 1, after = counts;
    for (uint32_t i = 0; i < p->n_contains; i++) {
        const struct literal literal = p->contains[i]->literal;
        if (mask >> i & 1) {
            if (count_of(p, counts, i) == p->most[i])
                return WISP_OK;
            more[n++] = literal;
            after += radix;
        } else if (p->contains[i]->most != UINT32_MAX) { /* every one counts */
            more[n++] = (struct literal){literal.json,
                                         literal.kind == LITERAL_IS ? LITERAL_IS_NOT : LITERAL_IS};
        }
        radix *= p->most[i] + 1;
    }
    const uint32_t most = p->record->most_items;
    if (most != UINT32_MAX && most - items - 1 < missing_items(p, after))
        return WISP_OK;
    return add_item(p, rule, items, more, n, after);
}

/* Writes what may come after so many items. */
static wisp_status write_after(struct array_plan *p, uint32_t rule, uint32_t items,
                               uint32_t counts) {
    if (items >= p->record->least_items && missing_items(p, counts) == 0) {
        TRY(add_symbol(p, SYMBOL_BYTE, ']'));
        TRY(end_alternative(p, rule));
    }
    for (uint32_t mask = 0; mask >> p->n_contains == 0 && items < p->record->most_items; mask++)
        TRY(add_counted(p, rule, items, counts, mask));
    return WISP_OK;
}

static wisp_status write_plan(struct array_plan *p, uint32_t rule) {
    struct schema_compiler *c = p->output->compiler;
    const size_t width = p->width, n = ((size_t)p->last + 1) * width;
    uint32_t first;
    ARENA_TAKE(&c->arena, p->rules, n, c->error);
    for (size_t i = 0; i < n; i++)
        p->rules[i] = UINT32_MAX;
    TRY(builder_new_rule(&p->output->builder, &first, c->error));
    TRY(add_symbol(p, SYMBOL_BYTE, '['));
    TRY(add_symbol(p, SYMBOL_RULE, p->output->space));
    TRY(add_symbol(p, SYMBOL_RULE, first));
    TRY(end_alternative(p, rule));
    TRY(write_after(p, first, 0, 0));
    for (size_t i = width; i < n; i++) /* a rule makes only such as come later, or itself */
        if (p->rules[i] != UINT32_MAX)
            TRY(write_after(p, p->rules[i], (uint32_t)(i / width), (uint32_t)(i % width)));
    return WISP_OK;
}

/* ---- uniqueItems ---------------------------------------------------------------------------- */

/* Finds the list of values that a record's items are among. */
static const struct json *values_of_items(const struct schema_compiler *c, uint32_t goal) {
    for (uint32_t i = 0; i < c->goals[goal].n; i++) {
        const struct literal l = c->goals[goal].literals[i];
        const struct json *values = json_get(l.json, "enum");
        if (l.kind == LITERAL_IS && json_is(values, JSON_ARRAY) && values->count <= MOST_UNIQUE)
            return values;
    }
    return NULL;
}

/* The rules stand for the sets of values so far. */
static wisp_status write_sets(struct array_plan *p, uint32_t rule, const struct json *values) {
    struct schema_compiler *c = p->output->compiler;
    const uint32_t sets = UINT32_C(1) << values->count;
    p->width = sets;
    ARENA_TAKE(&c->arena, p->rules, sets, c->error);
    for (uint32_t set = 0; set < sets; set++)
        TRY(builder_new_rule(&p->output->builder, &p->rules[set], c->error));
    TRY(add_symbol(p, SYMBOL_BYTE, '['));
    TRY(add_symbol(p, SYMBOL_RULE, p->output->space));
    TRY(add_symbol(p, SYMBOL_RULE, p->rules[0]));
    TRY(end_alternative(p, rule));
    for (uint32_t set = 0; set < sets; set++) {
        uint32_t items = 0, i = 0;
        for (uint32_t bits = set; bits; bits &= bits - 1)
            items++;
        if (items >= p->record->least_items && items <= p->record->most_items) {
            TRY(add_symbol(p, SYMBOL_BYTE, ']'));
            TRY(end_alternative(p, p->rules[set]));
        }
        for (const struct json *v = values->first; v && items < p->record->most_items;
             v = v->next, i++)
            if (!(set >> i & 1)) {
                p->last = 0; /* rule_after finds the set by its number */
                TRY(add_item(p, p->rules[set], items, &(struct literal){v, LITERAL_EQUALS}, 1,
                             set | UINT32_C(1) << i));
            }
    }
    return WISP_OK;
}

static wisp_status write_unique(struct array_plan *p, uint32_t rule, const struct json *at) {
    struct schema_compiler *c = p->output->compiler;
    uint32_t goal;
    TRY(goal_of_item(c, p->record, items_that_differ(p->record), NULL, 0, &goal));
    const struct json *values = values_of_items(c, goal);
    if (!values || p->n_contains > 0 || items_that_differ(p->record) > 0)
        return schema_refuse(c, WISP_ERROR_UNSUPPORTED, at,
                             "uniqueItems can be followed for items of an enum of at most %d "
                             "values, or with a maxItems of 1",
                             MOST_UNIQUE);
    return write_sets(p, rule, values);
}

wisp_status output_array(struct schema_output *o, const struct record *r, uint32_t rule,
                         const struct json *at) {
    struct array_plan p = {.output = o, .record = r, .width = 1};
    const uint32_t differ = items_that_differ(r);
    for (const struct item_count *n = r->contains; n; n = n->next) {
        const uint32_t most = n->most == UINT32_MAX ? n->least : n->most;
        if (most == 0 && n->most == UINT32_MAX)
            continue;
        if (p.n_contains == MOST_CONTAINS || most >= MOST_RULES ||
            (p.width *= most + 1) > MOST_RULES)
            return schema_refuse(o->compiler, WISP_ERROR_UNSUPPORTED, at,
                                 "contains with so many counts cannot be followed");
        p.contains[p.n_contains] = n;
        p.most[p.n_contains++] = most;
    }
    p.last = r->most_items != UINT32_MAX ? r->most_items : r->least_items;
    p.last = p.last > differ + 1 ? p.last : differ + 1;
    if (p.last > MOST_RULES || p.width > MOST_RULES || (p.last + 1) * p.width > MOST_RULES)
        return schema_refuse(o->compiler, WISP_ERROR_UNSUPPORTED, at,
                             "items can be counted up to %d: write a smaller minItems or maxItems, "
                             "or none",
                             MOST_RULES - 1);
    const wisp_status status =
        r->unique && r->most_items > 1 ? write_unique(&p, rule, at) : write_plan(&p, rule);
    free(p.symbols.list);
    return status;
}
