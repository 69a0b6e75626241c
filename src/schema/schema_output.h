/* SPDX-License-Identifier: Apache-2.0
 * The grammar of a schema while it is written. */
#ifndef WISP_SCHEMA_OUTPUT_H
#define WISP_SCHEMA_OUTPUT_H

#include "schema/schema_keys.h"

struct wide_rule;

/* A grammar of goals' rules. Its arrays grow until they are moved to the grammar. */
struct schema_output {
    struct schema_compiler *compiler;
    struct wisp_grammar *grammar;
    struct grammar_builder builder;
    struct grammar_automaton *automata;
    struct automaton_state *states;
    struct grammar_object *objects;
    struct grammar_ways *ways;
    uint32_t n_automata, n_states, n_objects, n_ways;
    uint32_t automaton_capacity, state_capacity, object_capacity, way_capacity;
    struct wide_rule *wide;
    uint32_t space, any_unicode, high_unicode; /* rules */
};

/* Finds the rule of a goal. Sets *empty instead if no value reaches it. */
wisp_status output_goal(struct schema_output *output, uint32_t goal, uint32_t *rule, bool *empty);

/* schema_strings.c: writes an automaton of the characters of strings, or of numbers, and sets
 * *state to its first state. */
wisp_status output_automaton(struct schema_output *output, struct automaton *automaton,
                             bool is_string, uint32_t *state);

/* Finds for each state how many plain characters may come, whichever they are: at most PLAIN_RUN,
 * and only through states that are open. */
void output_runs(const struct automaton *automaton, const uint8_t *open, uint8_t *run);

/* schema_arrays.c, schema_objects.c: append alternatives to a rule. */
wisp_status output_array(struct schema_output *output, const struct record *record, uint32_t rule,
                         const struct json *at);
wisp_status output_objects(struct schema_output *output, const struct record *records,
                           uint32_t n_records, uint32_t rule, const struct json *at);

#endif
