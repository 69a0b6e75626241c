/* SPDX-License-Identifier: Apache-2.0
 * Automata over characters: what patterns, formats, lengths, numbers and keys of a JSON Schema are
 * made of. They can be intersected, united and subtracted. */
#ifndef WISP_SCHEMA_AUTOMATON_H
#define WISP_SCHEMA_AUTOMATON_H

#include "base/arena.h"

enum { LAST_CHARACTER = 0x10FFFF, MOST_STATES = 1 << 18 };

/* Characters begin[i] <= c < begin[i + 1] have class class_of[i]. State 0 is dead, the text begins
 * in state 1. A text that ends in a state has its tag, 0 if it is not accepted. */
struct automaton {
    const uint32_t *begin;    /* [ranges]; the first is 0 */
    const uint32_t *class_of; /* [ranges] */
    uint32_t ranges, classes, states;
    uint32_t *next;   /* [states * classes] */
    uint32_t *tag;    /* [states] */
    bool is_empty;    /* no text is accepted */
    uint32_t written; /* its first state in the grammar, for the compiler of schemas; 0: none */
};

/* Makes automata state by state. A state is known by a key of some numbers. */
struct state_maker {
    struct arena *arena;
    wisp_error *error;
    uint32_t *keys; /* of all states, one after another */
    size_t n_keys, key_capacity;
    struct made_state {
        size_t key;
        uint32_t length, tag;
    } *states; /* [n] */
    uint32_t n, capacity;
    uint32_t *slots; /* [slot_count]: a hash table of states; 0: none */
    uint32_t slot_count;
    uint32_t *next; /* [n * classes] */
    size_t next_capacity;
    uint32_t *copy; /* of the key whose state is followed: keys move as they grow */
    size_t copy_capacity;
    uint32_t most;       /* states */
    uint32_t scratch[8]; /* for a key that a step makes */
};

/* Finds or makes the state of a key. */
wisp_status state_of_key(struct state_maker *maker, const uint32_t *key, uint32_t length,
                         uint32_t *state);

/* The callbacks that build an automaton. `step` finds the state after a character of a class with
 * state_of_key, or leaves *next 0; `tag` returns the tag of a state. Both read the state's key. */
struct state_rules {
    void *context;
    wisp_status (*step)(void *context, struct state_maker *maker, const uint32_t *key,
                        uint32_t length, uint32_t class, uint32_t *next);
    uint32_t (*tag)(void *context, const uint32_t *key, uint32_t length);
};

/* Makes an automaton, whose ranges and classes are set, from the first state's key on. States that
 * no accepted text comes through are left out. */
wisp_status automaton_make(struct arena *arena, struct automaton *automaton,
                           const struct state_rules *rules, const uint32_t *key, uint32_t length,
                           wisp_error *error);

/* Makes the automaton that runs n others side by side; `tag` is given their tags [n]. If `all`,
 * a text that one of them does not go on with is none. */
typedef uint32_t tag_of_tags(void *context, const uint32_t *tags, size_t n);
wisp_status automaton_product(struct arena *arena, const struct automaton *const *parts, size_t n,
                              bool all, tag_of_tags *tag, void *context, struct automaton **made,
                              wisp_error *error);

wisp_status automaton_and(struct arena *arena, const struct automaton *a, const struct automaton *b,
                          struct automaton **made, wisp_error *error);
wisp_status automaton_or(struct arena *arena, const struct automaton *a, const struct automaton *b,
                         struct automaton **made, wisp_error *error);
/* All texts but those of a. */
wisp_status automaton_not(struct arena *arena, const struct automaton *a, struct automaton **made,
                          wisp_error *error);

/* All texts of so many characters; most UINT32_MAX: any number. */
wisp_status automaton_length(struct arena *arena, uint32_t least, uint32_t most,
                             struct automaton **made, wisp_error *error);

/* The n texts; text i has the tag i + 1. Others have the tag `other`, unless it is 0. If texts
 * are equal, the first counts. */
wisp_status automaton_texts(struct arena *arena, const wisp_text *texts, uint32_t n, uint32_t other,
                            struct automaton **made, wisp_error *error);

/* Returns the tag of a text. */
uint32_t automaton_read(const struct automaton *automaton, wisp_text text);

#endif
