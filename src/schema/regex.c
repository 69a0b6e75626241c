/* SPDX-License-Identifier: Apache-2.0
 * The expression becomes a machine of places, and sets of places become the automaton's states.
 * Compiled for size in WebAssembly. */
#include "schema/regex.h"

#include <stdlib.h>
#include <string.h>

#include "schema/regex_tree.h"

enum { MOST_PLACES = 1 << 16 };

enum place_kind { PLACE_SET, PLACE_SPLIT, PLACE_BEGIN, PLACE_END, PLACE_MATCH };

struct place {
    enum place_kind kind;
    uint32_t set;
    uint32_t next, other; /* PLACE_SPLIT goes on with both */
};

struct compiler {
    struct arena *arena;
    struct regex_tree tree;
    struct place *places; /* [n] */
    uint32_t n;
    size_t capacity;
    uint8_t *has; /* [sets * classes]: the set has the class */
    uint32_t classes;
    uint32_t *mark; /* [n]: the step that met the place */
    uint32_t step;
    uint32_t *work, *found; /* [n] */
    uint32_t n_found;
    wisp_error *error;
};

static wisp_status unsupported(const struct compiler *c, const char *what) {
    return fail(c->error, WISP_ERROR_UNSUPPORTED, NULL, NULL, "%s cannot be followed", what);
}

/* ---- places --------------------------------------------------------------------------------- */

static wisp_status add_place(struct compiler *c, struct place place, uint32_t *index) {
    if (c->n == MOST_PLACES)
        return unsupported(c, "an expression of so many repetitions");
    if (c->n == c->capacity) {
        const size_t capacity = 2 * c->capacity + 64;
        struct place *places = realloc(c->places, capacity * sizeof *places);
        if (!places)
            return fail_memory(c->error, capacity * sizeof *places);
        c->places = places;
        c->capacity = capacity;
    }
    *index = c->n;
    c->places[c->n++] = place;
    return WISP_OK;
}

static wisp_status add_part(struct compiler *c, const struct regex *part, uint32_t next,
                            uint32_t *entry);

/* Adds the children from last to first. */
static wisp_status add_all(struct compiler *c, const struct regex *first, uint32_t next,
                           uint32_t *entry) {
    const struct regex **children;
    size_t n = 0;
    for (const struct regex *child = first; child; child = child->next)
        n++;
    ARENA_TAKE(c->arena, children, n + 1, c->error);
    n = 0;
    for (const struct regex *child = first; child; child = child->next)
        children[n++] = child;
    for (*entry = next; n > 0; n--) {
        const struct regex *child = children[n - 1];
        if (child->kind == REGEX_AHEAD) {
            if (child->negated || child->next)
                return unsupported(c, "looking ahead elsewhere than after ^ or at the end");
            child = child->first; /* at the end, what is ahead is what follows */
        }
        TRY(add_part(c, child, *entry, entry));
    }
    return WISP_OK;
}

static wisp_status add_repeat(struct compiler *c, const struct regex *part, uint32_t next,
                              uint32_t *entry) {
    *entry = next;
    if (part->most == UINT32_MAX) {
        uint32_t body;
        TRY(add_place(c, (struct place){.kind = PLACE_SPLIT, .other = next}, entry));
        TRY(add_part(c, part->first, *entry, &body));
        c->places[*entry].next = body;
    }
    /* An empty part adds no place, however often it comes. */
    for (uint32_t i = part->least; i < part->most && part->most != UINT32_MAX; i++) {
        const uint32_t before = c->n;
        uint32_t body;
        TRY(add_part(c, part->first, *entry, &body));
        if (c->n == before)
            break;
        TRY(add_place(c, (struct place){.kind = PLACE_SPLIT, .next = body, .other = next}, entry));
    }
    for (uint32_t i = 0; i < part->least; i++) {
        const uint32_t before = c->n;
        TRY(add_part(c, part->first, *entry, entry));
        if (c->n == before)
            break;
    }
    return WISP_OK;
}

/* Adds places that match the part and go on with `next`. */
static wisp_status add_part(struct compiler *c, const struct regex *part, uint32_t next,
                            uint32_t *entry) {
    switch (part->kind) {
    case REGEX_SET:
        return add_place(c, (struct place){PLACE_SET, part->set, next, 0}, entry);
    case REGEX_BEGIN:
    case REGEX_END:
        return add_place(
            c, (struct place){part->kind == REGEX_BEGIN ? PLACE_BEGIN : PLACE_END, 0, next, 0},
            entry);
    case REGEX_ALL:
        return add_all(c, part->first, next, entry);
    case REGEX_REPEAT:
        return add_repeat(c, part, next, entry);
    case REGEX_ANY: {
        uint32_t body;
        TRY(add_part(c, part->first, next, entry));
        for (const struct regex *child = part->first->next; child; child = child->next) {
            TRY(add_part(c, child, next, &body));
            TRY(add_place(c, (struct place){.kind = PLACE_SPLIT, .next = *entry, .other = body},
                          entry));
        }
        return WISP_OK;
    }
    default:
        return unsupported(c, "looking ahead elsewhere than after ^ or at the end");
    }
}

/* ---- classes of characters ------------------------------------------------------------------ */

static int by_code(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Divides all characters into classes that each set has whole or not at all. */
static wisp_status class_characters(struct compiler *c, struct automaton *a) {
    const uint32_t sets = c->tree.n_sets;
    uint32_t *begin, *class_of, n = 0, *at;
    size_t most = 1;
    uint8_t *has, *row;
    for (uint32_t i = 0; i < sets; i++)
        most += 2 * (size_t)c->tree.sets[i].n;
    ARENA_TAKE(c->arena, begin, most, c->error);
    ARENA_TAKE(c->arena, class_of, most, c->error);
    ARENA_TAKE(c->arena, at, sets + 1, c->error);
    begin[n++] = 0;
    for (uint32_t i = 0; i < sets; i++)
        for (uint32_t k = 0; k < c->tree.sets[i].n; k++) {
            begin[n++] = c->tree.sets[i].ranges[k].low;
            if (c->tree.sets[i].ranges[k].high < LAST_CHARACTER)
                begin[n++] = c->tree.sets[i].ranges[k].high + 1;
        }
    qsort(begin, n, sizeof *begin, by_code);
    for (uint32_t i = 0; i < n; i++)
        if (a->ranges == 0 || begin[i] != begin[a->ranges - 1])
            begin[a->ranges++] = begin[i];
    ARENA_TAKE(c->arena, has, (size_t)a->ranges * (sets + 1), c->error); /* [class][set] */
    for (uint32_t i = 0; i < a->ranges; i++) {
        uint32_t class = 0;
        row = has + (size_t)a->classes * sets;
        for (uint32_t s = 0; s < sets; s++) {
            const struct regex_set set = c->tree.sets[s];
            while (at[s] < set.n && set.ranges[at[s]].high < begin[i])
                at[s]++;
            row[s] = at[s] < set.n && set.ranges[at[s]].low <= begin[i];
        }
        while (sets > 0 && class < a->classes && memcmp(has + (size_t)class * sets, row, sets) != 0)
            class ++;
        a->classes += class == a->classes;
        class_of[i] = class;
    }
    a->begin = begin;
    a->class_of = class_of;
    c->has = has;
    c->classes = a->classes;
    return WISP_OK;
}

/* ---- states --------------------------------------------------------------------------------- */

/* Follows a place to those that read a character, wait for the text's end or have matched. */
static void follow(struct compiler *c, uint32_t from, bool at_begin, bool at_end) {
    uint32_t n = 0;
    c->work[n++] = from;
    while (n > 0) {
        const uint32_t i = c->work[--n];
        const struct place *place = &c->places[i];
        if (c->mark[i] == c->step)
            continue;
        c->mark[i] = c->step;
        if (place->kind == PLACE_SPLIT) {
            c->work[n++] = place->next;
            c->work[n++] = place->other;
        } else if ((place->kind == PLACE_BEGIN && at_begin) ||
                   (place->kind == PLACE_END && at_end)) {
            c->work[n++] = place->next;
        } else if (place->kind != PLACE_BEGIN) {
            c->found[c->n_found++] = i;
        }
    }
}

static bool has_matched(const struct compiler *c) {
    for (uint32_t i = 0; i < c->n_found; i++)
        if (c->places[c->found[i]].kind == PLACE_MATCH)
            return true;
    return false;
}

/* Sorts the places found. After a match nothing else counts. */
static void end_state(struct compiler *c) {
    if (has_matched(c)) {
        c->n_found = 1;
        c->found[0] = 0; /* the place of the match */
    }
    qsort(c->found, c->n_found, sizeof *c->found, by_code);
}

static void begin_state(struct compiler *c) {
    c->n_found = 0;
    c->step++;
}

static wisp_status step(void *context, struct state_maker *maker, const uint32_t *key,
                        uint32_t length, uint32_t class, uint32_t *next) {
    struct compiler *c = context;
    begin_state(c);
    for (uint32_t i = 0; i < length; i++) {
        const struct place *place = &c->places[key[i]];
        if (place->kind == PLACE_MATCH)
            follow(c, key[i], false, false);
        else if (place->kind == PLACE_SET && c->has[(size_t)class * c->tree.n_sets + place->set])
            follow(c, place->next, false, false);
    }
    end_state(c);
    return c->n_found > 0 ? state_of_key(maker, c->found, c->n_found, next) : WISP_OK;
}

static uint32_t tag(void *context, const uint32_t *key, uint32_t length) {
    struct compiler *c = context;
    begin_state(c);
    for (uint32_t i = 0; i < length; i++)
        follow(c, key[i], false, true);
    return has_matched(c);
}

static wisp_status compile_part(struct compiler *c, const struct regex *part, struct automaton *a) {
    uint32_t entry, search, any;
    TRY(add_place(c, (struct place){.kind = PLACE_MATCH}, &entry));
    TRY(add_part(c, part, entry, &entry));
    /* A match may begin anywhere. */
    TRY(add_place(c, (struct place){.kind = PLACE_SPLIT, .next = entry}, &search));
    TRY(add_place(c, (struct place){PLACE_SET, c->tree.n_sets - 1, search, 0}, &any));
    c->places[search].other = any;
    TRY(class_characters(c, a));
    ARENA_TAKE(c->arena, c->mark, c->n, c->error);
    ARENA_TAKE(c->arena, c->work, 2 * (size_t)c->n + 2, c->error);
    ARENA_TAKE(c->arena, c->found, c->n, c->error);
    begin_state(c);
    follow(c, search, true, false);
    end_state(c);
    uint32_t *key;
    ARENA_TAKE(c->arena, key, c->n_found, c->error);
    const uint32_t length = c->n_found;
    memcpy(key, c->found, length * sizeof *key);
    return automaton_make(c->arena, a, &(struct state_rules){c, step, tag}, key, length, c->error);
}

static wisp_status compile_tree(struct arena *arena, const struct regex_tree *tree,
                                const struct regex *part, struct automaton **made,
                                wisp_error *error) {
    struct compiler c = {.arena = arena, .tree = *tree, .error = error};
    ARENA_TAKE(arena, *made, 1, error);
    const wisp_status status = compile_part(&c, part, *made);
    free(c.places);
    return status;
}

/* Adds the set of all characters. */
static wisp_status add_any(struct arena *arena, struct regex_tree *tree, wisp_error *error) {
    static const struct regex_range any[] = {{0, LAST_CHARACTER}};
    struct regex_set *sets;
    ARENA_TAKE(arena, sets, tree->n_sets + 1, error);
    if (tree->n_sets > 0)
        memcpy(sets, tree->sets, tree->n_sets * sizeof *sets);
    sets[tree->n_sets++] = (struct regex_set){any, 1};
    tree->sets = sets;
    return WISP_OK;
}

wisp_status regex_compile(struct arena *arena, wisp_text pattern, struct automaton **made,
                          wisp_error *error) {
    struct regex_tree tree;
    TRY(regex_parse(arena, pattern, &tree, error));
    TRY(add_any(arena, &tree, error));
    struct regex *begin = tree.root->first, *ahead = NULL;
    if (tree.root->kind == REGEX_ALL && begin && begin->kind == REGEX_BEGIN && begin->next &&
        begin->next->kind == REGEX_AHEAD) {
        ahead = begin->next;
        while (begin->next && begin->next->kind == REGEX_AHEAD)
            begin->next = begin->next->next;
    }
    TRY(compile_tree(arena, &tree, tree.root, made, error));
    /* Each lookahead at the beginning becomes a condition of its own. */
    for (; ahead && ahead->kind == REGEX_AHEAD; ahead = ahead->next) {
        struct regex first = {.kind = REGEX_BEGIN, .next = ahead->first};
        const struct regex both = {.kind = REGEX_ALL, .first = &first};
        struct automaton *condition;
        TRY(compile_tree(arena, &tree, &both, &condition, error));
        if (ahead->negated)
            TRY(automaton_not(arena, condition, &condition, error));
        TRY(automaton_and(arena, *made, condition, made, error));
    }
    return WISP_OK;
}
