/* SPDX-License-Identifier: Apache-2.0
 * Builds a grammar rule by rule. */
#ifndef WISP_SCHEMA_GRAMMAR_BUILDER_H
#define WISP_SCHEMA_GRAMMAR_BUILDER_H

#include "grammar/grammar.h"

#define REPEAT_FOREVER UINT32_MAX

/* A list of symbols that grows. It starts as zeros; free(list) releases it. */
struct symbols {
    struct symbol *list;
    size_t n, capacity;
};

wisp_status symbols_add(struct symbols *symbols, enum symbol_kind kind, uint32_t value,
                        wisp_error *error);

struct rule_name {
    wisp_text text; /* of the caller; empty for rules that stand for groups */
    bool defined;
};

struct alternative {
    uint32_t rule;
    uint32_t first; /* of its symbols, the last of which is SYMBOL_END */
};

/* The rules of a grammar so far. It starts as zeros; builder_release frees it. */
struct grammar_builder {
    struct symbols symbols; /* of all alternatives */
    struct alternative *alternative;
    struct rule_name *names; /* [rules] */
    struct byte_set *sets;
    /* Hash tables of named rules and of sets: their index + 1, or 0. */
    uint32_t *name_slots, *set_slots;
    uint32_t alternatives, rules, named, n_sets;
    uint32_t alternative_capacity, rule_capacity, set_capacity;
};

/* Characters from `low` to `high`. */
struct code_range {
    uint32_t low, high;
};

/* Makes a rule without a name. */
wisp_status builder_new_rule(struct grammar_builder *builder, uint32_t *rule, wisp_error *error);

/* Finds or makes the rule of a name, which must outlive the builder. */
wisp_status builder_named_rule(struct grammar_builder *builder, wisp_text name, uint32_t *rule,
                               wisp_error *error);

/* Appends an alternative to a rule; any order of rules is possible. */
wisp_status builder_add_alternative(struct grammar_builder *builder, uint32_t rule,
                                    const struct symbols *sequence, wisp_error *error);

/* Appends one symbol that matches any character in one of n ranges or, if `negated`, any
 * character in none of them. Sorts the ranges. */
wisp_status builder_add_set(struct grammar_builder *builder, struct symbols *sequence,
                            struct code_range *ranges, size_t n, bool negated, wisp_error *error);

/* Finds or makes a set of bytes. */
wisp_status builder_byte_set(struct grammar_builder *builder, const struct byte_set *set,
                             uint32_t *index, wisp_error *error);

/* Replaces the symbols from `item` on by what matches them from `least` to `most` times. */
wisp_status builder_repeat(struct grammar_builder *builder, struct symbols *sequence, size_t item,
                           uint32_t least, uint32_t most, wisp_error *error);

/* Appends the rules of a text in GBNF (gbnf.c). */
wisp_status gbnf_read(struct grammar_builder *builder, wisp_text text, wisp_error *error);

/* Writes the rules to the grammar, whose root is set. Sets *recursive to a rule that can begin with
 * itself and has more to match after that, by which a machine's stack would grow without end;
 * UINT32_MAX if there is none.
 * */
wisp_status builder_compile(const struct grammar_builder *builder, struct wisp_grammar *grammar,
                            uint32_t *recursive, wisp_error *error);

void builder_release(struct grammar_builder *builder);

#endif
