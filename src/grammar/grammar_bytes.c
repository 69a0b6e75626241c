/* SPDX-License-Identifier: Apache-2.0
 * A grammar's numbers, its arrays one after another, then each automaton and each object: its
 * numbers and its arrays. All take a multiple of 4 bytes.
 * Compiled for size in WebAssembly. */
#include "grammar/grammar_bytes.h"

#include <string.h>

enum {
    GRAMMAR_NUMBERS = 10,
    AUTOMATON_NUMBERS = 3,
    OBJECT_NUMBERS = 8,
    MOST_LENGTH = 1 << 29 /* of arrays, so that their places are those of machine_item */
};

static size_t padded(size_t bytes) {
    return (bytes + 3) & ~(size_t)3;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Where to write; NULL: the bytes are only counted. */
struct writer {
    char *at;
    size_t bytes;
};

static void put(struct writer *w, const void *items, size_t n, size_t item_bytes) {
    if (w->at) {
        if (n > 0)
            memcpy(w->at, items, n * item_bytes);
        w->at += padded(n * item_bytes);
    }
    w->bytes += padded(n * item_bytes);
}

#define PUT(w, list, n) put(w, list, n, sizeof *(list))

static void put_automaton(struct writer *w, const struct grammar_automaton *a) {
    const uint32_t numbers[AUTOMATON_NUMBERS] = {a->first, a->classes, a->states};
    PUT(w, numbers, AUTOMATON_NUMBERS);
    PUT(w, a->ascii, sizeof a->ascii);
    PUT(w, a->wide, a->classes);
    PUT(w, a->next, (size_t)a->states * a->classes);
}

static void put_object(struct writer *w, const struct grammar_object *o, uint32_t states) {
    const uint32_t numbers[OBJECT_NUMBERS] = {o->keys,  o->members, o->listed,    o->words,
                                              o->least, o->most,    o->n_implied, o->n_some};
    PUT(w, numbers, OBJECT_NUMBERS);
    PUT(w, o->value, o->members);
    PUT(w, o->required, o->words);
    PUT(w, o->implied, (size_t)o->n_implied * (1 + o->words));
    PUT(w, o->some, (size_t)o->n_some * o->words);
    PUT(w, o->reach, (size_t)states * o->words);
    PUT(w, o->open, states);
    PUT(w, o->run, states);
}

static void put_grammar(struct writer *w, const struct wisp_grammar *g) {
    const uint32_t numbers[GRAMMAR_NUMBERS] = {
        g->root,   g->space,      g->rules,    g->alternatives, g->n_symbols,
        g->n_sets, g->n_automata, g->n_states, g->n_objects,    g->n_ways};
    PUT(w, numbers, GRAMMAR_NUMBERS);
    PUT(w, g->symbols, g->n_symbols);
    PUT(w, g->start, g->alternatives);
    PUT(w, g->first, g->rules + 1);
    PUT(w, g->sets, g->n_sets);
    PUT(w, g->states, g->n_states);
    PUT(w, g->ways, g->n_ways);
    for (uint32_t i = 0; i < g->n_automata; i++)
        put_automaton(w, &g->automata[i]);
    for (uint32_t i = 0; i < g->n_objects; i++)
        put_object(w, &g->objects[i], g->automata[g->states[g->objects[i].keys].automaton].states);
}

wisp_status grammar_to_bytes(const struct wisp_grammar *grammar, struct arena *arena,
                             wisp_text *bytes, wisp_error *error) {
    struct writer count = {0}, writer = {0};
    put_grammar(&count, grammar);
    ARENA_TAKE(arena, writer.at, count.bytes, error);
    bytes->bytes = writer.at;
    put_grammar(&writer, grammar);
    bytes->length = writer.bytes;
    return WISP_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reader {
    const unsigned char *at;
    size_t left;
    bool lacks; /* an array would end after the bytes */
    struct wisp_grammar *grammar;
    wisp_error *error;
};

static wisp_status refuse(const struct reader *r, const char *what) {
    return fail(r->error, WISP_ERROR_FORMAT, NULL, "grammar", "malformed bytes: %s", what);
}

/* Returns the next array, or NULL. */
static const void *take(struct reader *r, size_t n, size_t item_bytes) {
    const unsigned char *at = r->at;
    const size_t bytes = array_bytes(n, item_bytes);
    if (r->lacks || bytes > r->left || padded(bytes) > r->left) {
        r->lacks = true;
        return NULL;
    }
    r->at += padded(bytes);
    r->left -= padded(bytes);
    return at;
}

#define TAKE(r, list, n) ((list) = take(r, n, sizeof *(list)))

/* Returns whether all n values are below `most`, or UINT32_MAX if that is allowed. */
static bool all_below(const uint32_t *values, size_t n, uint32_t most, bool or_none) {
    for (size_t i = 0; i < n; i++)
        if (values[i] >= most && !(or_none && values[i] == UINT32_MAX))
            return false;
    return true;
}

static bool runs_are_right(const uint8_t *runs, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (runs[i] > PLAIN_RUN)
            return false;
    return true;
}

static bool symbols_are_right(const struct wisp_grammar *g) {
    const uint32_t limits[] = {
        [SYMBOL_END] = 1,         [SYMBOL_BYTE] = 256,          [SYMBOL_SET] = g->n_sets,
        [SYMBOL_RULE] = g->rules, [SYMBOL_STATE] = g->n_states, [SYMBOL_OBJECT] = g->n_ways};
    for (uint32_t i = 0; i < g->n_symbols; i++) {
        const struct symbol s = g->symbols[i];
        if (s.kind >= sizeof limits / sizeof *limits || s.value >= limits[s.kind] ||
            (s.kind == SYMBOL_STATE && s.value == 0))
            return false;
    }
    return g->n_symbols > 0 && g->symbols[g->n_symbols - 1].kind == SYMBOL_END;
}

static bool rules_are_right(const struct wisp_grammar *g) {
    for (uint32_t r = 0; r < g->rules; r++)
        if (g->first[r] > g->first[r + 1])
            return false;
    return g->root < g->rules && g->space < g->rules && g->first[g->rules] == g->alternatives &&
           all_below(g->start, g->alternatives, g->n_symbols, false);
}

/* Reads automaton i, to which the states from `first` on belong. */
static wisp_status take_automaton(struct reader *r, uint32_t i, uint32_t first,
                                  struct grammar_automaton *a) {
    const struct wisp_grammar *g = r->grammar;
    const uint32_t *numbers = take(r, AUTOMATON_NUMBERS, sizeof *numbers);
    const uint8_t *ascii = take(r, sizeof a->ascii, 1);
    if (!numbers || !ascii)
        return refuse(r, "they end within an automaton");
    a->first = numbers[0];
    a->classes = numbers[1];
    a->states = numbers[2];
    memcpy(a->ascii, ascii, sizeof a->ascii);
    if (a->first != first || a->states == 0 || a->states > g->n_states - first)
        return refuse(r, "an automaton's states");
    TAKE(r, a->wide, a->classes);
    TAKE(r, a->next, array_bytes(a->states, a->classes));
    if (!a->wide || !a->next)
        return refuse(r, "they end within an automaton");
    for (size_t c = 0; c < sizeof a->ascii; c++)
        if (a->ascii[c] > a->classes)
            return refuse(r, "a class of characters");
    for (size_t k = 0; k < (size_t)a->states * a->classes; k++)
        if (a->next[k] != 0 && (a->next[k] < first || a->next[k] - first >= a->states))
            return refuse(r, "a state that follows another");
    for (uint32_t s = first; s < first + a->states; s++)
        if (g->states[s].automaton != i || g->states[s].run > PLAIN_RUN)
            return refuse(r, "a state");
    return all_below(a->wide, a->classes, g->rules, true) ? WISP_OK
                                                          : refuse(r, "the rule of a class");
}

static wisp_status take_automata(struct reader *r) {
    struct wisp_grammar *g = r->grammar;
    struct grammar_automaton *automata;
    uint32_t first = 1; /* state 0 is none */
    if (g->n_automata > g->n_states)
        return refuse(r, "more automata than states");
    ARENA_TAKE(&g->arena, automata, (size_t)g->n_automata + 1, r->error);
    g->automata = automata;
    for (uint32_t i = 0; i < g->n_automata; i++) {
        TRY(take_automaton(r, i, first, &automata[i]));
        first += automata[i].states;
    }
    return g->n_states == 0 || first == g->n_states ? WISP_OK : refuse(r, "states of no automaton");
}

/* Returns whether the tags of the object's keys are members, and what they imply. */
static bool members_are_right(const struct wisp_grammar *g, const struct grammar_object *o,
                              uint32_t states) {
    for (uint32_t s = o->keys; s < o->keys + states; s++)
        if (g->states[s].tag > o->members)
            return false;
    for (uint32_t i = 0; i < o->n_implied; i++)
        if (o->implied[(size_t)i * (1 + o->words)] >= o->members)
            return false;
    return all_below(o->value, o->members, g->rules, true) && runs_are_right(o->run, states);
}

static wisp_status take_object(struct reader *r, struct grammar_object *o) {
    const struct wisp_grammar *g = r->grammar;
    const uint32_t *n = take(r, OBJECT_NUMBERS, sizeof *n);
    if (!n)
        return refuse(r, "they end within an object");
    *o = (struct grammar_object){.keys = n[0],
                                 .members = n[1],
                                 .listed = n[2],
                                 .words = n[3],
                                 .least = n[4],
                                 .most = n[5],
                                 .n_implied = n[6],
                                 .n_some = n[7]};
    if (o->keys == 0 || o->keys >= g->n_states || o->listed > o->members ||
        o->words != o->members / 32 + 1)
        return refuse(r, "the members of an object");
    const struct grammar_automaton *a = &g->automata[g->states[o->keys].automaton];
    TAKE(r, o->value, o->members);
    TAKE(r, o->required, o->words);
    TAKE(r, o->implied, array_bytes(o->n_implied, 1 + (size_t)o->words));
    TAKE(r, o->some, array_bytes(o->n_some, o->words));
    TAKE(r, o->reach, array_bytes(a->states, o->words));
    TAKE(r, o->open, a->states);
    TAKE(r, o->run, a->states);
    if (r->lacks)
        return refuse(r, "they end within an object");
    return a->first == o->keys && members_are_right(g, o, a->states)
               ? WISP_OK
               : refuse(r, "the members of an object");
}

static wisp_status take_objects(struct reader *r) {
    struct wisp_grammar *g = r->grammar;
    struct grammar_object *objects;
    if (g->n_objects > r->left)
        return refuse(r, "they end within an object");
    ARENA_TAKE(&g->arena, objects, (size_t)g->n_objects + 1, r->error);
    g->objects = objects;
    for (uint32_t i = 0; i < g->n_objects; i++)
        TRY(take_object(r, &objects[i]));
    for (uint32_t i = 0; i < g->n_ways; i++) {
        const struct grammar_ways w = g->ways[i];
        bool right = w.first < g->n_objects && w.n > 0 && w.n <= g->n_objects - w.first;
        for (uint32_t k = 1; right && k < w.n; k++)
            right = objects[w.first + k].keys == objects[w.first].keys;
        if (!right)
            return refuse(r, "the ways of an object");
    }
    return WISP_OK;
}

wisp_status grammar_from_bytes(wisp_text bytes, struct wisp_grammar *g, wisp_error *error) {
    unsigned char *copy; /* which is aligned */
    ARENA_TAKE(&g->arena, copy, bytes.length, error);
    if (bytes.length > 0)
        memcpy(copy, bytes.bytes, bytes.length);
    struct reader r = {.at = copy, .left = bytes.length, .grammar = g, .error = error};
    const uint32_t *n = take(&r, GRAMMAR_NUMBERS, sizeof *n);
    if (!n || !all_below(n, GRAMMAR_NUMBERS, MOST_LENGTH, false))
        return refuse(&r, "their numbers");
    g->root = n[0];
    g->space = n[1];
    g->rules = n[2];
    g->alternatives = n[3];
    g->n_symbols = n[4];
    g->n_sets = n[5];
    g->n_automata = n[6];
    g->n_states = n[7];
    g->n_objects = n[8];
    g->n_ways = n[9];
    TAKE(&r, g->symbols, g->n_symbols);
    TAKE(&r, g->start, g->alternatives);
    TAKE(&r, g->first, g->rules + 1);
    TAKE(&r, g->sets, g->n_sets);
    TAKE(&r, g->states, g->n_states);
    TAKE(&r, g->ways, g->n_ways);
    if (r.lacks)
        return refuse(&r, "they end within an array");
    if (!symbols_are_right(g) || !rules_are_right(g))
        return refuse(&r, "a rule");
    TRY(take_automata(&r));
    TRY(take_objects(&r));
    return r.left == 0 ? WISP_OK : refuse(&r, "more than a grammar");
}
