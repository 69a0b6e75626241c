/* SPDX-License-Identifier: Apache-2.0
 * How a JSON Schema becomes a grammar.
 *
 * A goal is what one value has to be: a set of schemas that it is valid under, or is not valid
 * under. A goal is written as alternatives, records, which say of each type of value what is valid
 * by itself: numbers and strings by an automaton, arrays by the goals of their items, objects by
 * those of their members. Records can be intersected, so allOf and $ref beside other keywords need
 * no more; anyOf makes more records; not turns keywords around. Each goal then has a rule. */
#ifndef WISP_SCHEMA_H
#define WISP_SCHEMA_H

#include "base/json.h"
#include "schema/automaton.h"
#include "schema/grammar_builder.h"

enum value_type {
    TYPE_NULL = 1,
    TYPE_TRUE = 2,
    TYPE_FALSE = 4,
    TYPE_NUMBER = 8,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ANY = 127
};

enum literal_kind {
    LITERAL_IS,      /* valid under the schema */
    LITERAL_IS_NOT,  /* not valid under it */
    LITERAL_EQUALS,  /* the value itself */
    LITERAL_DIFFERS, /* another value */
    LITERAL_KINDS
};

struct literal {
    const struct json *json;
    enum literal_kind kind;
};

/* The constraints of one schema on an array's items. */
struct item_source {
    struct literal rest;       /* of items after `prefix`; json NULL: any */
    const struct json *prefix; /* the first of a list of schemas; NULL: none */
    uint32_t n;                /* of prefix */
    enum literal_kind kind;    /* of prefix */
    uint32_t only;             /* prefix stands only for the item of this index; UINT32_MAX: no */
    const struct item_source *next;
};

struct item_count {
    struct literal literal;
    uint32_t least, most;
    const struct item_count *next;
};

/* The constraints of one schema on an object's members. */
struct member_source {
    const struct json *properties; /* the first member; NULL: none */
    const struct json *patterns;   /* the first member; NULL: none */
    struct literal rest;           /* of other members; json NULL: any */
    enum literal_kind kind;        /* of properties */
    const char *name; /* not NULL: the source is only of this member, which is `rest` */
    const struct member_source *next;
};

struct required_name {
    const char *name;
    const struct required_name *next;
};

/* If a member is there, others have to be, too. */
struct implied_names {
    const char *name;
    const struct required_name *required;
    const struct implied_names *next;
};

/* Some member that is neither among the properties nor matches a pattern. */
struct other_member {
    const struct json *properties; /* the first member */
    const struct other_member *next;
};

struct name_limit {
    struct literal literal;
    const struct name_limit *next;
};

struct record {
    unsigned types;
    struct automaton *number, *string; /* NULL: any */
    uint32_t least_length, most_length;
    const struct item_source *items;
    const struct item_count *contains;
    uint32_t least_items, most_items;
    bool unique;
    const struct member_source *members;
    const struct required_name *required;
    const struct implied_names *implied;
    const struct name_limit *names;
    const struct other_member *others;
    uint32_t least_members, most_members;
};

struct records {
    struct record *list;
    uint32_t n, capacity;
};

enum goal_state { GOAL_NEW, GOAL_BUSY, GOAL_KNOWN };

struct goal {
    const struct literal *literals; /* [n], in order */
    uint32_t n;
    uint32_t rule;           /* UINT32_MAX: none yet */
    uint32_t member;         /* the rule of ":" and the value, likewise */
    struct automaton *names; /* its strings, for propertyNames; NULL: not made yet */
    enum goal_state records_state, empty_state;
    struct records records;
    bool empty;
    uint32_t chain;
};

struct made_automaton;

/* SCHEMA_MOST_DEPTH: schemas that are followed within each other for one value, and values. */
enum { GOAL_BUCKETS = 1024, MADE_BUCKETS = 1024, SCHEMA_MOST_DEPTH = 64 };

struct schema_compiler {
    struct arena arena;
    const struct json *root;
    unsigned draft;     /* 3, 4, 6, 7; 8 is 2019-09 and 9 is 2020-12, which no $schema means too */
    uint32_t work;      /* intersections so far of more than one record */
    struct goal *goals; /* [n_goals]; goal 0 is any value */
    uint32_t n_goals, goal_capacity;
    uint32_t goal_buckets[GOAL_BUCKETS];
    uint32_t *queue; /* [n_queue]: goals whose rules are to be written */
    uint32_t n_queue, queue_capacity;
    struct made_automaton *made[MADE_BUCKETS]; /* automata by what they were made of */
    struct schema_resource *resources;
    struct automaton *all_numbers, *whole_numbers;
    unsigned depth; /* of schemas that are followed */
    wisp_error *error;
};

/* ---- schema_place.c: where things are ------------------------------------------------------- */

/* Fails with the path of a value in the schema, such as #/properties/size. */
wisp_status schema_refuse(const struct schema_compiler *c, wisp_status status,
                          const struct json *at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Puts the path before a message that an automaton's maker left. */
wisp_status schema_refuse_again(const struct schema_compiler *c, wisp_status status,
                                const struct json *at);

wisp_status schema_find_resources(struct schema_compiler *c);

/* Returns the value of a keyword, if the schema has it and its draft knows it. */
const struct json *schema_get(const struct schema_compiler *c, const struct json *schema,
                              const char *key);

/* Finds the schema that a $ref, $dynamicRef or $recursiveRef refers to. */
wisp_status schema_resolve(struct schema_compiler *c, const struct json *reference,
                           const struct json **found);

/* Reads a keyword that is a number of things; *count stays if the schema does not have it. */
wisp_status schema_count(struct schema_compiler *c, const struct json *schema, const char *key,
                         uint32_t *count, bool *has);

/* ---- schema_text.c: automata ---------------------------------------------------------------- */

wisp_status schema_pattern(struct schema_compiler *c, const struct json *at, wisp_text text,
                           bool negated, struct automaton **automaton);
wisp_status schema_whole(struct schema_compiler *c, bool whole, struct automaton **made);
wisp_status schema_order(struct schema_compiler *c, const struct json *bound, unsigned orders,
                         struct automaton **automaton);
wisp_status schema_multiple(struct schema_compiler *c, const struct json *divisor, bool negated,
                            struct automaton **automaton);
wisp_status schema_intersect(struct schema_compiler *c, struct automaton *a, struct automaton *b,
                             struct automaton **both);

/* The automaton of a record's strings, with their length. */
wisp_status schema_strings(struct schema_compiler *c, const struct record *record,
                           struct automaton **automaton);

/* ---- schema_records.c: goals and records ---------------------------------------------------- */

extern const struct record record_any;

wisp_status records_add(struct schema_compiler *c, struct records *records,
                        const struct record *record);

/* Replaces the records by all intersections of one of them with one of the others. */
wisp_status records_intersect(struct schema_compiler *c, struct records *records,
                              const struct records *others);

/* Intersects two records. Sets *empty if nothing is in both, as far as is known without looking
 * at items and members. */
wisp_status record_intersect(struct schema_compiler *c, const struct record *a,
                             const struct record *b, struct record *both, bool *empty);

/* Looks at items and members too, and removes the types of which no value is valid. */
wisp_status record_is_empty(struct schema_compiler *c, struct record *record, bool *empty);

wisp_status goal_of(struct schema_compiler *c, const struct literal *literals, uint32_t n,
                    uint32_t *goal);
wisp_status goal_records(struct schema_compiler *c, uint32_t goal);
wisp_status goal_is_empty(struct schema_compiler *c, uint32_t goal, bool *empty);

/* The goal of an array's item, without `contains`, and with `more` literals. */
wisp_status goal_of_item(struct schema_compiler *c, const struct record *record, uint32_t index,
                         const struct literal *more, uint32_t n_more, uint32_t *goal);
/* The number of items, from the first on, whose goals may differ from that of later ones. */
uint32_t items_that_differ(const struct record *record);

/* The goal of a member that the schema names. */
wisp_status goal_of_member(struct schema_compiler *c, const struct record *record, const char *name,
                           uint32_t *goal);

/* Whether propertyNames lets a name be. */
wisp_status member_may_be(struct schema_compiler *c, const struct record *record, const char *name,
                          bool *may);

/* ---- schema_expand.c, schema_negate.c, schema_value.c --------------------------------------- */

/* Append the records of a literal. */
wisp_status schema_expand(struct schema_compiler *c, struct literal literal,
                          struct records *records);
wisp_status schema_negate(struct schema_compiler *c, const struct json *schema,
                          struct records *records);
wisp_status schema_equals(struct schema_compiler *c, const struct json *first,
                          const struct json *end, struct records *records);
wisp_status schema_differs(struct schema_compiler *c, const struct json *value,
                           struct records *records);

/* Reads the types of the keyword `type`. *whole: numbers must be integers. */
wisp_status schema_types(struct schema_compiler *c, const struct json *schema, unsigned *types,
                         bool *whole);

/* Read a schema's constraints on items and members. */
wisp_status schema_items(struct schema_compiler *c, const struct json *schema,
                         struct item_source *source);
wisp_status schema_members(struct schema_compiler *c, const struct json *schema,
                           struct member_source *source);

#endif
