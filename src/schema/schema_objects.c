/* SPDX-License-Identifier: Apache-2.0
 * Objects: which keys there may be, and which values after them.
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "schema/schema_output.h"

/* Members are numbered: first the listed ones, which a schema names, then groups of others, which
 * the same parts of the automaton accept. All records of a goal have the same numbers. */
struct object_plan {
    struct schema_output *output;
    const struct json *at;
    const struct record *records; /* [n_records] */
    uint32_t n_records;
    struct schema_keys keys;
};

/* One record. */
struct object_way {
    const struct object_plan *plan;
    const struct record *record;
    uint32_t *value; /* [members]: rules; UINT32_MAX: the member may not be */
    struct grammar_object made;
};

static bool may_be(const struct object_way *w, uint32_t member) {
    return w->value[member] != UINT32_MAX;
}

/* ---- values --------------------------------------------------------------------------------- */

/* Finds the rule of ":" and a value. UINT32_MAX if there is no valid value. */
static wisp_status value_rule(struct schema_output *o, uint32_t goal, uint32_t *rule) {
    struct symbols symbols = {0};
    uint32_t value;
    bool empty;
    *rule = o->compiler->goals[goal].member;
    if (*rule != UINT32_MAX)
        return WISP_OK;
    TRY(output_goal(o, goal, &value, &empty));
    if (empty)
        return WISP_OK;
    TRY(builder_new_rule(&o->builder, rule, o->compiler->error));
    wisp_status status = symbols_add(&symbols, SYMBOL_BYTE, ':', o->compiler->error);
    if (status == WISP_OK)
        status = symbols_add(&symbols, SYMBOL_RULE, o->space, o->compiler->error);
    if (status == WISP_OK)
        status = symbols_add(&symbols, SYMBOL_RULE, value, o->compiler->error);
    if (status == WISP_OK)
        status = builder_add_alternative(&o->builder, *rule, &symbols, o->compiler->error);
    free(symbols.list);
    o->compiler->goals[goal].member = *rule;
    return status;
}

static wisp_status find_listed_values(struct object_way *w) {
    const struct schema_keys *keys = &w->plan->keys;
    struct schema_compiler *c = w->plan->output->compiler;
    const struct member_source *only = w->record->members;
    const struct json *property = NULL;
    if (w->plan->n_records == 1 && only && !only->next && !only->patterns && !only->name)
        property = only->properties; /* the goals are the schemas in their order */
    for (uint32_t i = 0; i < keys->listed; i++) {
        uint32_t goal;
        bool may;
        w->value[i] = UINT32_MAX;
        if (property) {
            const struct literal literal = {property, only->kind};
            TRY(goal_of(c, &literal, 1, &goal));
            property = property->next;
        } else {
            TRY(goal_of_member(c, w->record, keys->names[i].bytes, &goal));
        }
        TRY(member_may_be(c, w->record, keys->names[i].bytes, &may));
        if (may)
            TRY(value_rule(w->plan->output, goal, &w->value[i]));
    }
    return WISP_OK;
}

/* Finds the rule of a group's values: of each source, what the patterns say that match, or else
 * what it says of the rest. */
static wisp_status find_other_value(struct object_way *w, uint32_t group) {
    const struct schema_keys *keys = &w->plan->keys;
    struct schema_compiler *c = w->plan->output->compiler;
    struct literal literals[128];
    const uint32_t most = sizeof literals / sizeof *literals;
    uint32_t n = 0, goal;
    uint32_t *value = &w->value[keys->listed + group];
    *value = UINT32_MAX;
    for (const struct name_limit *l = w->record->names; l; l = l->next) {
        struct automaton *names;
        TRY(schema_names(c, l->literal, &names));
        if (!keys_match(keys, group, names))
            return WISP_OK;
    }
    for (const struct member_source *s = w->record->members; s; s = s->next) {
        bool found = false;
        for (const struct json *q = s->patterns; q && n < most; q = q->next) {
            struct automaton *pattern;
            TRY(schema_pattern(c, q, (wisp_text){q->key, q->key_length}, false, &pattern));
            if (keys_match(keys, group, pattern)) {
                found = true;
                literals[n++] = (struct literal){q, LITERAL_IS};
            }
        }
        if (!found && !s->name && s->rest.json && n < most)
            literals[n++] = s->rest;
        if (n == most)
            return schema_refuse(c, WISP_ERROR_UNSUPPORTED, w->plan->at,
                                 "more than %u schemas of the same members", most - 1);
    }
    TRY(goal_of(c, literals, n, &goal));
    return value_rule(w->plan->output, goal, value);
}

/* A member that implies one that may not be may not be itself. */
static void remove_impossible(struct object_way *w) {
    const struct schema_keys *keys = &w->plan->keys;
    for (bool changed = true; changed;) {
        changed = false;
        for (const struct implied_names *i = w->record->implied; i; i = i->next) {
            const uint32_t member = keys_index(keys, wisp_text_of(i->name));
            for (const struct required_name *name = i->required; name; name = name->next)
                if (may_be(w, member) && !may_be(w, keys_index(keys, wisp_text_of(name->name)))) {
                    w->value[member] = UINT32_MAX;
                    changed = true;
                }
        }
    }
}

/* ---- what has to be there ------------------------------------------------------------------- */

static void set_bits(const struct schema_keys *keys, const struct required_name *names,
                     uint32_t *bits) {
    for (; names; names = names->next) {
        const uint32_t member = keys_index(keys, wisp_text_of(names->name));
        bits[member / 32] |= UINT32_C(1) << member % 32;
    }
}

/* Writes the bits of members that others imply. */
static wisp_status find_implied(struct object_way *w) {
    struct grammar_object *made = &w->made;
    uint32_t *implied, n = 0;
    for (const struct implied_names *i = w->record->implied; i; i = i->next)
        made->n_implied++;
    ARENA_TAKE(&w->plan->output->grammar->arena, implied,
               (size_t)made->n_implied * (1 + made->words) + 1, w->plan->output->compiler->error);
    for (const struct implied_names *i = w->record->implied; i; i = i->next, n++) {
        uint32_t *row = implied + (size_t)n * (1 + made->words);
        row[0] = keys_index(&w->plan->keys, wisp_text_of(i->name));
        set_bits(&w->plan->keys, i->required, row + 1);
    }
    made->implied = implied;
    return WISP_OK;
}

/* Writes the bits of required members, and of those of which some have to be there. */
static wisp_status find_required(struct object_way *w) {
    struct grammar_object *made = &w->made;
    const struct schema_keys *keys = &w->plan->keys;
    struct arena *arena = &w->plan->output->grammar->arena;
    uint32_t *required, *some, n = 0;
    for (const struct other_member *other = w->record->others; other; other = other->next)
        made->n_some++;
    ARENA_TAKE(arena, required, made->words, w->plan->output->compiler->error);
    ARENA_TAKE(arena, some, (size_t)made->n_some * made->words + 1,
               w->plan->output->compiler->error);
    set_bits(keys, w->record->required, required);
    for (const struct other_member *other = w->record->others; other; other = other->next, n++) {
        uint32_t *bits = some + (size_t)n * made->words;
        for (uint32_t i = 0; i < made->members; i++)
            if (may_be(w, i))
                bits[i / 32] |= UINT32_C(1) << i % 32;
        for (const struct json *q = other->properties; q; q = q->next) {
            const uint32_t i = keys_index(keys, (wisp_text){q->key, q->key_length});
            bits[i / 32] &= ~(UINT32_C(1) << i % 32);
        }
    }
    made->required = required;
    made->some = some;
    if ((made->n_some > 0 || w->record->implied) && made->most != UINT32_MAX)
        return schema_refuse(w->plan->output->compiler, WISP_ERROR_UNSUPPORTED, w->plan->at,
                             "maxProperties beside dependencies, or where not demands another "
                             "member, cannot be followed");
    return WISP_OK;
}

/* Whether an object can have all that it has to. */
static bool can_be(const struct object_way *w) {
    const struct grammar_object *o = &w->made;
    uint32_t listed = 0, some = 0;
    bool others = false;
    for (uint32_t i = 0; i < o->members; i++) {
        listed += may_be(w, i) && i < o->listed;
        others = others || (may_be(w, i) && i >= o->listed);
        if (!may_be(w, i) && (o->required[i / 32] >> i % 32 & 1))
            return false;
    }
    for (uint32_t i = 0; i < o->n_some; i++) {
        bool any = false;
        for (uint32_t k = 0; k < o->words; k++)
            any = any || o->some[(size_t)i * o->words + k];
        some += any;
    }
    return some == o->n_some && (others || listed >= o->least);
}

/* ---- the object ----------------------------------------------------------------------------- */

/* Adds to a state what may end from the states after it. Returns whether that is news. */
static bool reach_further(const struct automaton *keys, uint32_t state, uint32_t words,
                          uint32_t *reach, uint8_t *open) {
    uint32_t *mine = reach + (size_t)state * words;
    bool changed = false;
    for (uint32_t c = 0; c < keys->classes; c++) {
        const uint32_t next = keys->next[(size_t)state * keys->classes + c];
        const uint32_t *others = reach + (size_t)next * words;
        if (next == 0 || next == state)
            continue;
        changed = changed || (open[next] && !open[state]);
        open[state] |= open[next];
        for (uint32_t w = 0; w < words; w++) {
            changed = changed || (others[w] & ~mine[w]);
            mine[w] |= others[w];
        }
    }
    return changed;
}

/* Finds from which states which keys may end. */
static wisp_status find_reach(struct object_way *w) {
    const struct automaton *keys = w->plan->keys.automaton;
    struct arena *arena = &w->plan->output->grammar->arena;
    wisp_error *error = w->plan->output->compiler->error;
    uint32_t *reach;
    uint8_t *open, *run;
    ARENA_TAKE(arena, reach, (size_t)keys->states * w->made.words, error);
    ARENA_TAKE(arena, open, keys->states, error);
    ARENA_TAKE(arena, run, keys->states, error);
    for (uint32_t s = 1; s < keys->states; s++) {
        const uint32_t member = keys->tag[s] - 1;
        if (keys->tag[s] == 0 || !may_be(w, member))
            continue;
        if (member < w->made.listed)
            reach[(size_t)s * w->made.words + member / 32] |= UINT32_C(1) << member % 32;
        open[s] = member >= w->made.listed;
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = keys->states; s-- > 1;)
            changed = reach_further(keys, s, w->made.words, reach, open) || changed;
    }
    output_runs(keys, open, run);
    w->made.reach = reach + w->made.words; /* of the automaton's first state, which is 1 here */
    w->made.open = open + 1;
    w->made.run = run + 1;
    return WISP_OK;
}

/* Adds the object of a record, unless none can be. */
static wisp_status add_way(const struct object_plan *p, const struct record *record) {
    struct schema_output *o = p->output;
    struct object_way w = {.plan = p, .record = record};
    const uint32_t members = p->keys.listed + p->keys.n_groups;
    ARENA_TAKE(&o->grammar->arena, w.value, members + 1, o->compiler->error);
    w.made = (struct grammar_object){.keys = p->keys.written,
                                     .members = members,
                                     .listed = p->keys.listed,
                                     .words = members / 32 + 1,
                                     .least = record->least_members,
                                     .most = record->most_members,
                                     .value = w.value};
    TRY(find_listed_values(&w));
    for (uint32_t i = 0; i < p->keys.n_groups; i++)
        TRY(find_other_value(&w, i));
    remove_impossible(&w);
    TRY(find_required(&w));
    TRY(find_implied(&w));
    if (!can_be(&w))
        return WISP_OK;
    TRY(find_reach(&w));
    TRY(list_grow(&o->objects, o->n_objects, 1, &o->object_capacity, sizeof *o->objects,
                  o->compiler->error));
    o->objects[o->n_objects++] = w.made;
    return WISP_OK;
}

wisp_status output_objects(struct schema_output *o, const struct record *records,
                           uint32_t n_records, uint32_t rule, const struct json *at) {
    struct object_plan p = {.output = o, .at = at, .records = records, .n_records = n_records};
    struct schema_compiler *c = o->compiler;
    struct symbols symbols = {0};
    const uint32_t first = o->n_objects;
    TRY(keys_make(c, records, n_records, at, &p.keys));
    TRY(output_automaton(o, p.keys.automaton, true, &p.keys.written));
    for (uint32_t i = 0; i < n_records; i++)
        if (records[i].types & TYPE_OBJECT)
            TRY(add_way(&p, &records[i]));
    if (o->n_objects == first)
        return WISP_OK;
    TRY(list_grow(&o->ways, o->n_ways, 1, &o->way_capacity, sizeof *o->ways, c->error));
    o->ways[o->n_ways] = (struct grammar_ways){first, o->n_objects - first};
    wisp_status status = symbols_add(&symbols, SYMBOL_BYTE, '{', c->error);
    if (status == WISP_OK)
        status = symbols_add(&symbols, SYMBOL_RULE, o->space, c->error);
    if (status == WISP_OK)
        status = symbols_add(&symbols, SYMBOL_OBJECT, o->n_ways++, c->error);
    if (status == WISP_OK)
        status = builder_add_alternative(&o->builder, rule, &symbols, c->error);
    free(symbols.list);
    return status;
}
