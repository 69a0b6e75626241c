/* SPDX-License-Identifier: Apache-2.0
 * Members of objects in any order: places know the keys that the object has so far. The ways in
 * which an object may be are followed together, so that a value which all of them allow is read
 * once. */
#ifndef WISP_GRAMMAR_GRAMMAR_MEMBERS_H
#define WISP_GRAMMAR_GRAMMAR_MEMBERS_H

#include "grammar/grammar_work.h"

/* Keys that an object has: bits of its listed members, and the number of all if it matters. */
struct machine_seen {
    uint32_t object, count;
    uint32_t words; /* the first of the object's words */
    uint32_t chain;
};

/* Ways that are still possible. */
struct machine_group {
    uint32_t n;
    uint32_t words; /* the first of n words: seen, in order */
    uint32_t chain;
};

enum place_kind { PLACE_FIRST, PLACE_KEY, PLACE_AFTER, PLACE_MORE, PLACE_NEXT };

struct machine_place {
    uint32_t kind, group;
    uint32_t state; /* of the automaton of keys, if a key is read */
    uint32_t chain;
};

wisp_status members_open(struct machine *machine, wisp_error *error);
void members_release(struct machine *machine);

/* Begins the members of an object in one of some ways. */
wisp_status members_begin(struct machine *machine, uint32_t ways, uint32_t stack,
                          wisp_error *error);

/* Follows a place to the items that match a byte. */
wisp_status members_follow(struct machine *machine, struct machine_item item, wisp_error *error);

/* Goes on from a place that matches a byte. */
wisp_status members_step(struct machine *machine, struct machine_item item, unsigned char byte,
                         wisp_error *error);

/* Returns how many plain characters may come at a place, whichever they are. */
uint32_t members_run(const struct machine *machine, uint32_t place);

#endif
