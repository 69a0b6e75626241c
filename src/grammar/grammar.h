/* SPDX-License-Identifier: Apache-2.0
 * Grammars of texts, in GBNF: the notation that llama.cpp has for them.
 *
 *     root   ::= "[" (number ("," number)*)? "]"   # the rule that a text has to match
 *     number ::= "-"? [0-9]{1,3}
 *
 * A rule has alternatives, separated by |, of literals "...", sets of characters [a-z] or [^a-z],
 * any character ., names of rules and groups ( ). After each of these may stand *, +, ?, {m}, {m,}
 * or {m,n}. Literals and sets have the escapes \n \r \t \\ \" \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH. A
 * rule ends with its line, but not within a group or before and after a |.
 *
 * A grammar is compiled to symbols that match bytes, so that a token may end within a character. It
 * does not change afterwards, and threads may share it. */
#ifndef WISP_GRAMMAR_GRAMMAR_H
#define WISP_GRAMMAR_GRAMMAR_H

#include "base/arena.h"
#include "base/status.h"

/* A symbol matches one byte, the text of a rule, the texts of an automaton or the members of an
 * object, or ends an alternative. */
enum symbol_kind {
    SYMBOL_END,
    SYMBOL_BYTE,
    SYMBOL_SET,
    SYMBOL_RULE,
    SYMBOL_STATE,  /* what an automaton reads from a state on */
    SYMBOL_OBJECT, /* the members of an object of JSON in one of some ways, and the brace after them
                    */
};

struct symbol {
    uint32_t kind : 3, value : 29; /* the byte, or the index of the set, rule, state or object */
};

struct byte_set {
    uint8_t bits[32];
};

/* An automaton reads characters by their class. The characters of a class that are one byte of
 * ASCII are told apart by a table, the others are read by a rule. */
struct grammar_automaton {
    uint8_t ascii[128];   /* the class + 1; 0: no such byte */
    const uint32_t *wide; /* [classes]: the rule; UINT32_MAX: none */
    const uint32_t *next; /* [states * classes]: the state; 0: the text may not go on so */
    uint32_t first;       /* its first state */
    uint32_t classes;
    uint32_t states; /* their number */
};

/* Automata share the numbers of their states; state 0 is none. */
struct automaton_state {
    uint32_t automaton;
    uint32_t tag; /* of texts that end here; 0: none does */
    uint32_t run; /* any so many plain characters (plain_byte) may come, at most PLAIN_RUN */
};

enum { PLAIN_RUN = 32 };

/* One of the ways in which the members of an object may be, in any order. An automaton reads keys:
 * its tags are 1 + the member. Members below `listed` occur once at most; the others stand for many
 * keys each. */
struct grammar_object {
    uint32_t keys; /* the automaton's first state */
    uint32_t members, listed, words;
    uint32_t least, most;  /* the number of members; most UINT32_MAX: any */
    const uint32_t *value; /* [members]: rules of what follows a key's last quote; UINT32_MAX: the
                              member may not be */
    const uint32_t *required; /* [words]: bits of listed members */
    const uint32_t
        *implied; /* [n_implied * (1 + words)]: if this member is there, those have to be */
    uint32_t n_implied;
    const uint32_t *some; /* [n_some * words]: of each, one member has to be there */
    uint32_t n_some;
    const uint32_t *reach; /* [states of the automaton * words]: members that may end from there */
    const uint8_t *open;   /* [states of the automaton]: so may another member */
    const uint8_t *run;    /* [states of the automaton]: see automaton_state */
};

/* Objects [first, first + n), which have the same automaton and members. */
struct grammar_ways {
    uint32_t first, n;
};

/* Rule r has the alternatives [first[r], first[r + 1]), whose symbols begin at start[alternative].
 * The text matches rule `root`. */
struct wisp_grammar {
    struct arena arena; /* owns the arrays */
    const struct symbol *symbols;
    const uint32_t *start, *first;
    const struct byte_set *sets;
    const struct grammar_automaton *automata;
    const struct automaton_state *states;
    const struct grammar_object *objects;
    const struct grammar_ways *ways; /* of objects */
    uint32_t space;                  /* the rule of white space between an object's parts */
    uint32_t root, rules, alternatives;
    uint32_t n_symbols, n_sets, n_automata, n_states, n_objects, n_ways;
};

/* Returns whether a byte stands for itself in strings of JSON. */
static inline bool plain_byte(unsigned char byte) {
    return byte >= 0x20 && byte < 0x7F && byte != '"' && byte != '\\';
}

static inline bool set_has(const struct byte_set *set, unsigned char byte) {
    return set->bits[byte / 8] >> byte % 8 & 1;
}

#endif
