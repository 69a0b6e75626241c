/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/random.h"
#include "schema/schema_keys.h"

enum { MOST_RECORDS = 512, MOST_GOALS = 1 << 15, MOST_WORK = 1 << 14, MOST_BYTES = 1 << 28 };

const struct record record_any = {.types = TYPE_ANY,
                                  .most_length = UINT32_MAX,
                                  .most_items = UINT32_MAX,
                                  .most_members = UINT32_MAX};

static wisp_status too_many(const struct schema_compiler *c) {
    return fail(c->error, WISP_ERROR_UNSUPPORTED, NULL, "json_schema",
                "anyOf, oneOf, not, if and the like have too many combinations");
}

wisp_status records_add(struct schema_compiler *c, struct records *r, const struct record *record) {
    if (r->n == MOST_RECORDS)
        return too_many(c);
    if (r->n == r->capacity) {
        struct record *list;
        const uint32_t capacity = r->capacity ? 4 * r->capacity : 1;
        ARENA_TAKE(&c->arena, list, capacity, c->error);
        if (r->n > 0)
            memcpy(list, r->list, r->n * sizeof *list);
        r->list = list;
        r->capacity = capacity;
    }
    r->list[r->n++] = *record;
    return WISP_OK;
}

/* ---- intersections -------------------------------------------------------------------------- */

/* Makes *list the items of b put before those of a. */
#define JOIN(c, type, a, b, list)                                                                  \
    do {                                                                                           \
        (list) = (a);                                                                              \
        for (const type *from_ = (a) == (b) ? NULL : (b); from_; from_ = from_->next) {            \
            type(*copy_);                                                                          \
            ARENA_TAKE(&(c)->arena, copy_, 1, (c)->error);                                         \
            *copy_ = *from_;                                                                       \
            copy_->next = (list);                                                                  \
            (list) = copy_;                                                                        \
        }                                                                                          \
    } while (0)

static uint32_t count_required(const struct record *r) {
    uint32_t n = 0;
    for (const struct required_name *a = r->required; a; a = a->next) {
        bool again = false;
        for (const struct required_name *b = a->next; b && !again; b = b->next)
            again = strcmp(a->name, b->name) == 0;
        n += !again;
    }
    return n;
}

static bool has_no_text(const struct automaton *a) {
    return a && a->is_empty;
}

wisp_status record_intersect(struct schema_compiler *c, const struct record *a,
                             const struct record *b, struct record *both, bool *empty) {
    struct record r = *a;
    r.types &= b->types;
    if (r.types & TYPE_NUMBER)
        TRY(schema_intersect(c, a->number, b->number, &r.number));
    if (r.types & TYPE_STRING) {
        TRY(schema_intersect(c, a->string, b->string, &r.string));
        r.least_length = a->least_length > b->least_length ? a->least_length : b->least_length;
        r.most_length = a->most_length < b->most_length ? a->most_length : b->most_length;
    }
    if (r.types & TYPE_ARRAY) {
        JOIN(c, struct item_source, a->items, b->items, r.items);
        JOIN(c, struct item_count, a->contains, b->contains, r.contains);
        r.least_items = a->least_items > b->least_items ? a->least_items : b->least_items;
        r.most_items = a->most_items < b->most_items ? a->most_items : b->most_items;
        r.unique = a->unique || b->unique;
    }
    if (r.types & TYPE_OBJECT) {
        JOIN(c, struct member_source, a->members, b->members, r.members);
        JOIN(c, struct required_name, a->required, b->required, r.required);
        JOIN(c, struct implied_names, a->implied, b->implied, r.implied);
        JOIN(c, struct name_limit, a->names, b->names, r.names);
        JOIN(c, struct other_member, a->others, b->others, r.others);
        r.least_members = a->least_members > b->least_members ? a->least_members : b->least_members;
        r.most_members = a->most_members < b->most_members ? a->most_members : b->most_members;
    }
    if (has_no_text(r.number))
        r.types &= ~(unsigned)TYPE_NUMBER;
    if (has_no_text(r.string) || r.least_length > r.most_length)
        r.types &= ~(unsigned)TYPE_STRING;
    if (r.least_items > r.most_items)
        r.types &= ~(unsigned)TYPE_ARRAY;
    if (r.least_members > r.most_members ||
        (r.most_members != UINT32_MAX && count_required(&r) > r.most_members))
        r.types &= ~(unsigned)TYPE_OBJECT;
    *empty = r.types == 0;
    *both = r;
    return WISP_OK;
}

wisp_status records_intersect(struct schema_compiler *c, struct records *records,
                              const struct records *others) {
    struct records made = {0};
    c->work += records->n * others->n > 1 ? records->n * others->n : 0;
    if (c->work > MOST_WORK || c->arena.total > MOST_BYTES)
        return too_many(c);
    for (uint32_t i = 0; i < records->n; i++)
        for (uint32_t k = 0; k < others->n; k++) {
            struct record both;
            bool empty;
            TRY(record_intersect(c, &records->list[i], &others->list[k], &both, &empty));
            if (!empty)
                TRY(records_add(c, &made, &both));
        }
    *records = made;
    return WISP_OK;
}

/* ---- goals ---------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const struct literal *x = a, *y = b;
    if (x->json != y->json)
        return (uintptr_t)x->json < (uintptr_t)y->json ? -1 : 1;
    return (int)x->kind - (int)y->kind;
}

static bool is_always_true(struct literal l) {
    return !l.json ||
           (l.kind == LITERAL_IS &&
            (l.json->type == JSON_TRUE || (l.json->type == JSON_OBJECT && l.json->count == 0)));
}

/* Goals are known by their literals. */
wisp_status goal_of(struct schema_compiler *c, const struct literal *literals, uint32_t n,
                    uint32_t *goal) {
    struct literal *list;
    uint32_t kept = 0;
    ARENA_TAKE(&c->arena, list, n + 1, c->error);
    for (uint32_t i = 0; i < n; i++)
        if (!is_always_true(literals[i]))
            list[kept++] = literals[i];
    if (kept > 1)
        qsort(list, kept, sizeof *list, by_place);
    uint32_t distinct = 0;
    uint64_t hash = 0;
    for (uint32_t i = 0; i < kept; i++)
        if (i == 0 || by_place(&list[i], &list[i - 1]) != 0) {
            list[distinct++] = list[i];
            hash = random_mix(hash + (uintptr_t)list[i].json * LITERAL_KINDS + list[i].kind);
        }
    uint32_t *bucket = &c->goal_buckets[hash % GOAL_BUCKETS];
    for (*goal = c->n_goals && distinct == 0 ? 0 : *bucket; *goal; *goal = c->goals[*goal].chain) {
        const struct goal *g = &c->goals[*goal];
        bool same = g->n == distinct;
        for (uint32_t i = 0; i < distinct && same; i++)
            same = by_place(&list[i], &g->literals[i]) == 0;
        if (same)
            return WISP_OK;
    }
    if (c->n_goals && distinct == 0)
        return WISP_OK;
    if (c->n_goals == MOST_GOALS)
        return fail(c->error, WISP_ERROR_UNSUPPORTED, NULL, "json_schema",
                    "the schema is too large");
    if (c->n_goals == c->goal_capacity) {
        const uint32_t capacity = 2 * c->goal_capacity + 64;
        struct goal *goals = realloc(c->goals, capacity * sizeof *goals);
        if (!goals)
            return fail_memory(c->error, capacity * sizeof *goals);
        c->goals = goals;
        c->goal_capacity = capacity;
    }
    *goal = c->n_goals++;
    c->goals[*goal] = (struct goal){.literals = list,
                                    .n = distinct,
                                    .rule = UINT32_MAX,
                                    .member = UINT32_MAX,
                                    .chain = distinct ? *bucket : 0};
    if (distinct)
        *bucket = *goal;
    return WISP_OK;
}

wisp_status goal_records(struct schema_compiler *c, uint32_t goal) {
    struct records records = {0};
    if (c->goals[goal].records_state == GOAL_KNOWN)
        return WISP_OK;
    if (c->goals[goal].records_state == GOAL_BUSY)
        return schema_refuse(c, WISP_ERROR_UNSUPPORTED, c->goals[goal].literals->json,
                             "whether it is valid depends on itself");
    c->goals[goal].records_state = GOAL_BUSY;
    TRY(records_add(c, &records, &record_any));
    for (uint32_t i = 0; i < c->goals[goal].n; i++) {
        struct records others = {0};
        TRY(schema_expand(c, c->goals[goal].literals[i], &others));
        TRY(records_intersect(c, &records, &others));
    }
    c->goals[goal].records = records; /* c->goals may have moved */
    c->goals[goal].records_state = GOAL_KNOWN;
    return WISP_OK;
}

/* A goal that depends on itself, or on goals nested too deep, counts as one that a value can reach.
 */
wisp_status goal_is_empty(struct schema_compiler *c, uint32_t goal, bool *empty) {
    *empty = false;
    if (c->goals[goal].empty_state == GOAL_KNOWN)
        *empty = c->goals[goal].empty;
    if (c->goals[goal].empty_state != GOAL_NEW || c->goals[goal].records_state == GOAL_BUSY ||
        c->depth >= SCHEMA_MOST_DEPTH / 2)
        return WISP_OK;
    c->goals[goal].empty_state = GOAL_BUSY;
    TRY(goal_records(c, goal));
    c->depth++;
    struct records kept = {0};
    const struct records records = c->goals[goal].records;
    for (uint32_t i = 0; i < records.n; i++) {
        struct record record = records.list[i];
        bool none;
        TRY(record_is_empty(c, &record, &none));
        if (!none)
            TRY(records_add(c, &kept, &record));
    }
    c->depth--;
    c->goals[goal].records = kept;
    c->goals[goal].empty = *empty = kept.n == 0;
    c->goals[goal].empty_state = GOAL_KNOWN;
    return WISP_OK;
}

/* ---- items and members ---------------------------------------------------------------------- */

/* A list of literals that grows in the arena. */
struct literals {
    struct literal *list;
    uint32_t n, capacity;
};

static wisp_status add_literal(struct schema_compiler *c, struct literals *l,
                               struct literal literal) {
    if (l->n == l->capacity) {
        struct literal *list;
        const uint32_t capacity = 2 * l->capacity + 8;
        ARENA_TAKE(&c->arena, list, capacity, c->error);
        if (l->n > 0)
            memcpy(list, l->list, l->n * sizeof *list);
        l->list = list;
        l->capacity = capacity;
    }
    l->list[l->n++] = literal;
    return WISP_OK;
}

uint32_t items_that_differ(const struct record *r) {
    uint32_t n = 0;
    for (const struct item_source *s = r->items; s; s = s->next) {
        const uint32_t differ = s->only != UINT32_MAX ? s->only + 1 : s->n;
        n = differ > n ? differ : n;
    }
    return n;
}

wisp_status goal_of_item(struct schema_compiler *c, const struct record *r, uint32_t index,
                         const struct literal *more, uint32_t n_more, uint32_t *goal) {
    struct literals l = {0};
    for (const struct item_source *s = r->items; s; s = s->next) {
        struct literal literal = s->rest;
        if (s->only != UINT32_MAX) {
            literal = (struct literal){index == s->only ? s->prefix : NULL, s->kind};
        } else if (index < s->n) {
            literal = (struct literal){s->prefix, s->kind};
            for (uint32_t i = 0; i < index; i++)
                literal.json = literal.json->next;
        }
        TRY(add_literal(c, &l, literal));
    }
    for (uint32_t i = 0; i < n_more; i++)
        TRY(add_literal(c, &l, more[i]));
    return goal_of(c, l.list, l.n, goal);
}

wisp_status goal_of_member(struct schema_compiler *c, const struct record *r, const char *name,
                           uint32_t *goal) {
    struct literals l = {0};
    for (const struct member_source *s = r->members; s; s = s->next) {
        bool found = false;
        if (s->name) {
            if (strcmp(s->name, name) == 0)
                TRY(add_literal(c, &l, s->rest));
            continue;
        }
        for (const struct json *p = s->properties; p && !found; p = p->next)
            if (strcmp(p->key, name) == 0) {
                found = true;
                TRY(add_literal(c, &l, (struct literal){p, s->kind}));
            }
        for (const struct json *p = s->patterns; p; p = p->next) {
            struct automaton *pattern;
            TRY(schema_pattern(c, p, (wisp_text){p->key, p->key_length}, false, &pattern));
            if (automaton_read(pattern, wisp_text_of(name))) {
                found = true;
                TRY(add_literal(c, &l, (struct literal){p, LITERAL_IS}));
            }
        }
        if (!found)
            TRY(add_literal(c, &l, s->rest));
    }
    return goal_of(c, l.list, l.n, goal);
}

wisp_status member_may_be(struct schema_compiler *c, const struct record *r, const char *name,
                          bool *may) {
    *may = true;
    for (const struct name_limit *l = r->names; l && *may; l = l->next) {
        struct automaton *names;
        TRY(schema_names(c, l->literal, &names));
        *may = automaton_read(names, wisp_text_of(name)) != 0;
    }
    return WISP_OK;
}

static wisp_status array_is_empty(struct schema_compiler *c, struct record *r, bool *empty) {
    const uint32_t differ = items_that_differ(r) + 1;
    *empty = false;
    for (uint32_t i = 0; i < differ && i < r->least_items && !*empty; i++) {
        uint32_t goal;
        TRY(goal_of_item(c, r, i, NULL, 0, &goal));
        TRY(goal_is_empty(c, goal, empty));
    }
    for (const struct item_count *n = r->contains; n && !*empty; n = n->next) {
        uint32_t goal;
        bool none = false;
        TRY(goal_of(c, &n->literal, 1, &goal));
        if (n->least > 0)
            TRY(goal_is_empty(c, goal, &none));
        *empty = none || n->least > r->most_items || n->least > n->most;
    }
    return WISP_OK;
}

wisp_status record_is_empty(struct schema_compiler *c, struct record *r, bool *empty) {
    bool none = false;
    if (r->types & TYPE_STRING) {
        struct automaton *strings;
        TRY(schema_strings(c, r, &strings));
        if (strings->is_empty)
            r->types &= ~(unsigned)TYPE_STRING;
    }
    if (r->types & TYPE_ARRAY) {
        TRY(array_is_empty(c, r, &none));
        if (none)
            r->types &= ~(unsigned)TYPE_ARRAY;
    }
    none = false;
    for (const struct required_name *n = r->required; n && (r->types & TYPE_OBJECT); n = n->next) {
        uint32_t goal;
        bool may;
        TRY(goal_of_member(c, r, n->name, &goal));
        TRY(goal_is_empty(c, goal, &none));
        TRY(member_may_be(c, r, n->name, &may));
        if (none || !may)
            r->types &= ~(unsigned)TYPE_OBJECT;
    }
    *empty = r->types == 0;
    return WISP_OK;
}
