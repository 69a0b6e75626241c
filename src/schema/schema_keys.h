/* SPDX-License-Identifier: Apache-2.0
 * The automaton of an object's keys. */
#ifndef WISP_SCHEMA_KEYS_H
#define WISP_SCHEMA_KEYS_H

#include "schema/schema.h"

enum { MOST_KEY_PARTS = 32, MOST_KEY_GROUPS = 64 };

/* Names that a schema lists have the tags 1 to `listed`. Others have `listed` + 1 + their group:
 * names are in one group if the same parts accept them, which are patterns and what propertyNames
 * allows. */
struct schema_keys {
    struct automaton *automaton;
    uint32_t written; /* its first state in the grammar */
    wisp_text *names; /* [listed] */
    uint32_t listed;
    struct automaton *list;                        /* of the names only */
    const struct automaton *parts[MOST_KEY_PARTS]; /* [n_parts]; the first is `list` */
    uint32_t n_parts;
    uint32_t masks[MOST_KEY_GROUPS]; /* [n_groups]: bits of the parts that accept the names */
    uint32_t n_groups;
};

/* Makes the automaton for the objects of n records. */
wisp_status keys_make(struct schema_compiler *compiler, const struct record *records, uint32_t n,
                      const struct json *at, struct schema_keys *keys);

/* Returns the index of a listed name. */
uint32_t keys_index(const struct schema_keys *keys, wisp_text name);

/* Returns whether a part accepts the names of a group. */
bool keys_match(const struct schema_keys *keys, uint32_t group, const struct automaton *part);

/* Finds the automaton of the names that propertyNames allows. */
wisp_status schema_names(struct schema_compiler *compiler, struct literal literal,
                         struct automaton **names);

#endif
