/* SPDX-License-Identifier: Apache-2.0
 * The state of a grammar's machine (grammar_machine.h), and the functions that follow the grammar
 * to the items of a new set. */
#ifndef WISP_GRAMMAR_GRAMMAR_WORK_H
#define WISP_GRAMMAR_GRAMMAR_WORK_H

#include "base/random.h"
#include "grammar/grammar.h"

/* Rules within rules are followed this deep; what would be deeper is not part of the language. */
enum { GRAMMAR_MOST_DEPTH = 1024, GRAMMAR_MOST_ITEMS = 1 << 12, MACHINE_MOST_NODES = 1 << 22 };

/* `at` is a symbol, or AT_STATE + a state of an automaton, or AT_PLACE + a place in an object. */
enum { AT_STATE = 1 << 29, AT_PLACE = 1 << 30 };

struct machine_item {
    uint32_t at;
    uint32_t stack; /* a node; 0 is the bottom */
};

/* A stack: the place to return to on the rest of the stack. Equal stacks are one node. */
struct machine_node {
    uint32_t at, below, depth;
    uint32_t chain; /* the next node of its bucket; 0: none */
    uint32_t entry; /* the set that begins at `at`; UINT32_MAX: not made yet */
};

struct machine_set {
    uint32_t first, n; /* its items: those that match a byte */
    uint32_t least;    /* the least depth of their stacks */
    uint32_t run;      /* any so many plain characters may come */
    uint32_t base;     /* the node that all stacks end with; UINT32_MAX: not known yet */
    uint32_t above;    /* the set without it */
    uint32_t chain;    /* the next set of its bucket; 0: none */
    bool ends;         /* the text may end and go on below the bottom */
    uint32_t *next;    /* [256]: sets; UINT32_MAX: not known yet. NULL: none is known */
};

struct machine_place;
struct machine_seen;
struct machine_group;
struct machine_mark;

/* A hash table: the newest entry of each chain; 0: none. */
struct machine_buckets {
    uint32_t *first;
    uint32_t count; /* a power of two */
};

struct machine {
    const struct wisp_grammar *grammar;
    struct machine_node *nodes;   /* [n_nodes]; the first is the bottom */
    struct machine_set *sets;     /* [n_sets]; the first has no items and does not end */
    struct machine_item *items;   /* [n_items]: of all sets */
    struct machine_place *places; /* [n_places]: within objects; grammar_members.c */
    struct machine_seen *seen;
    struct machine_group *groups;
    uint32_t *words; /* [n_words]: of seen and groups */
    uint32_t n_nodes, n_sets, n_items, n_places, n_seen, n_groups, n_words;
    uint32_t node_capacity, set_capacity, item_capacity, place_capacity, seen_capacity,
        group_capacity, word_capacity;
    struct machine_buckets node_buckets, set_buckets, place_buckets, seen_buckets, group_buckets;
    uint32_t *ways; /* for a group that is being made */
    uint32_t way_capacity;
    struct machine_mark *marks; /* items that the current step has met */
    uint32_t step, met;
    struct machine_item *work; /* items to follow */
    uint32_t n_work, work_capacity;
    struct machine_item *found; /* items of the set that is being made */
    uint32_t n_found, found_capacity;
    bool ends; /* of that set */
};

wisp_status machine_open_work(struct machine *machine, wisp_error *error);

/* Begins a set. */
void machine_begin(struct machine *machine);

/* Finds or makes the stack with `at` on `below`. */
wisp_status machine_push(struct machine *machine, uint32_t at, uint32_t below, uint32_t *node,
                         wisp_error *error);

/* Add to the set that is being made: an item that matches a byte; a place to go on from; a rule;
 * what comes after the text that the stack returns from. */
wisp_status machine_find(struct machine *machine, uint32_t at, uint32_t stack, wisp_error *error);
wisp_status machine_follow(struct machine *machine, uint32_t at, uint32_t stack, wisp_error *error);
wisp_status machine_follow_rule(struct machine *machine, uint32_t rule, uint32_t stack,
                                wisp_error *error);
wisp_status machine_return(struct machine *machine, uint32_t stack, wisp_error *error);

/* Makes the table twice as large if it has n entries already, and empties it then. Sets *emptied
 * so that the caller fills it again. */
wisp_status machine_grow_buckets(struct machine_buckets *buckets, uint32_t n, bool *emptied,
                                 wisp_error *error);

static inline uint64_t machine_hash(uint32_t a, uint32_t b) {
    return random_mix((uint64_t)a << 32 | b);
}

static inline uint32_t *machine_bucket(const struct machine_buckets *buckets, uint64_t hash) {
    return &buckets->first[hash & (buckets->count - 1)];
}

wisp_status machine_too_many(wisp_error *error);

#endif
