/* SPDX-License-Identifier: Apache-2.0
 * Makes a grammar of a JSON Schema (json-schema.org, drafts 4 to 2020-12): all its texts are valid
 * under the schema. docs/formats.md lists the keywords and what is left out. This file writes the
 * rules of a schema's goals.
 * Compiled for size in WebAssembly. */
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "schema/schema_output.h"

/* White space is bounded, so that a model does not write it for ever. */
static const char basics[] = "space ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n"
                             "hex ::= [0-9a-fA-F]\n"
                             "pair ::= [dD] [89abAB] hex hex \"\\\\u\" [dD] [c-fC-F] hex hex\n"
                             "any ::= \"u\" (([0-9a-cefA-CEF] hex | [dD] [0-7]) hex hex | pair)\n"
                             "high ::= \"u\" (\"00\" [89a-fA-F] hex | \"0\" [1-9a-fA-F] hex hex | "
                             "([1-9a-cefA-CEF] hex | [dD] [0-7]) hex hex | pair)\n";

wisp_status output_goal(struct schema_output *o, uint32_t goal, uint32_t *rule, bool *empty) {
    struct schema_compiler *c = o->compiler;
    *empty = false;
    *rule = c->goals[goal].rule;
    if (*rule != UINT32_MAX)
        return WISP_OK;
    TRY(goal_is_empty(c, goal, empty));
    if (*empty)
        return WISP_OK;
    TRY(builder_new_rule(&o->builder, rule, c->error));
    c->goals[goal].rule = *rule;
    TRY(list_grow(&c->queue, c->n_queue, 1, &c->queue_capacity, sizeof *c->queue, c->error));
    c->queue[c->n_queue++] = goal;
    return WISP_OK;
}

/* Appends an alternative: a literal text, or an automaton within quotes if it is of strings. */
static wisp_status write_alternative(struct schema_output *o, uint32_t rule, const char *text,
                                     struct automaton *automaton, bool is_string) {
    wisp_error *error = o->compiler->error;
    struct symbols symbols = {0};
    wisp_status status = WISP_OK;
    uint32_t state;
    if (is_string)
        text = "\"";
    for (; *text && status == WISP_OK; text++)
        status = symbols_add(&symbols, SYMBOL_BYTE, (unsigned char)*text, error);
    if (automaton && status == WISP_OK)
        status = output_automaton(o, automaton, is_string, &state);
    if (automaton && status == WISP_OK)
        status = symbols_add(&symbols, SYMBOL_STATE, state, error);
    if (is_string && status == WISP_OK)
        status = symbols_add(&symbols, SYMBOL_BYTE, '"', error);
    if (status == WISP_OK)
        status = builder_add_alternative(&o->builder, rule, &symbols, error);
    free(symbols.list);
    return status;
}

static wisp_status write_record(struct schema_output *o, const struct record *r, uint32_t rule,
                                const struct json *at) {
    struct schema_compiler *c = o->compiler;
    static const struct {
        unsigned type;
        const char *text;
    } words[] = {{TYPE_NULL, "null"}, {TYPE_TRUE, "true"}, {TYPE_FALSE, "false"}};
    struct automaton *made;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (r->types & words[i].type)
            TRY(write_alternative(o, rule, words[i].text, NULL, false));
    if (r->types & TYPE_NUMBER) {
        TRY(schema_whole(c, false, &made));
        TRY(schema_intersect(c, made, r->number, &made));
        if (!made->is_empty)
            TRY(write_alternative(o, rule, "", made, false));
    }
    if (r->types & TYPE_STRING) {
        TRY(schema_strings(c, r, &made));
        TRY(write_alternative(o, rule, "", made, true));
    }
    return r->types & TYPE_ARRAY ? output_array(o, r, rule, at) : WISP_OK;
}

/* Messages of automata's makers have no path yet. */
static wisp_status with_path(const struct schema_compiler *c, wisp_status status,
                             const struct json *at) {
    return status == WISP_ERROR_UNSUPPORTED && strcmp(c->error->field, "json_schema") != 0
               ? schema_refuse_again(c, status, at)
               : status;
}

static wisp_status write_goals(struct schema_output *o) {
    struct schema_compiler *c = o->compiler;
    for (uint32_t i = 0; i < c->n_queue; i++) {
        const uint32_t goal = c->queue[i], rule = c->goals[goal].rule;
        const struct records records = c->goals[goal].records;
        const struct json *at = c->goals[goal].n > 0 ? c->goals[goal].literals[0].json : c->root;
        for (uint32_t k = 0; k < records.n; k++)
            TRY(with_path(c, write_record(o, &records.list[k], rule, at), at));
        for (uint32_t k = 0; k < records.n; k++)
            if (records.list[k].types & TYPE_OBJECT) {
                TRY(with_path(c, output_objects(o, records.list, records.n, rule, at), at));
                break;
            }
    }
    return WISP_OK;
}

/* Moves the output's arrays to the grammar. */
static wisp_status move_arrays(struct schema_output *o) {
    struct wisp_grammar *g = o->grammar;
    wisp_error *error = o->compiler->error;
    struct grammar_automaton *automata;
    struct automaton_state *states;
    struct grammar_object *objects;
    struct grammar_ways *ways;
    ARENA_TAKE(&g->arena, automata, o->n_automata + 1, error);
    ARENA_TAKE(&g->arena, states, o->n_states + 1, error);
    ARENA_TAKE(&g->arena, objects, o->n_objects + 1, error);
    ARENA_TAKE(&g->arena, ways, o->n_ways + 1, error);
    if (o->n_automata > 0)
        memcpy(automata, o->automata, o->n_automata * sizeof *automata);
    memcpy(states, o->states, o->n_states * sizeof *states);
    if (o->n_objects > 0)
        memcpy(objects, o->objects, o->n_objects * sizeof *objects);
    if (o->n_ways > 0)
        memcpy(ways, o->ways, o->n_ways * sizeof *ways);
    g->automata = automata;
    g->states = states;
    g->objects = objects;
    g->ways = ways;
    g->n_automata = o->n_automata;
    g->n_states = o->n_states;
    g->n_objects = o->n_objects;
    g->n_ways = o->n_ways;
    g->space = o->space;
    return WISP_OK;
}

static wisp_status write_grammar(struct schema_output *o) {
    struct schema_compiler *c = o->compiler;
    const struct literal root = {c->root, LITERAL_IS};
    uint32_t any, goal, recursive;
    bool empty;
    TRY(gbnf_read(&o->builder, wisp_text_of(basics), c->error));
    TRY(builder_named_rule(&o->builder, wisp_text_of("space"), &o->space, c->error));
    TRY(builder_named_rule(&o->builder, wisp_text_of("any"), &o->any_unicode, c->error));
    TRY(builder_named_rule(&o->builder, wisp_text_of("high"), &o->high_unicode, c->error));
    TRY(list_grow(&o->states, 0, 1, &o->state_capacity, sizeof *o->states, c->error));
    o->states[o->n_states++] = (struct automaton_state){0};
    TRY(schema_find_resources(c));
    TRY(goal_of(c, NULL, 0, &any));
    TRY(goal_of(c, &root, 1, &goal));
    TRY(output_goal(o, goal, &o->grammar->root, &empty));
    if (empty)
        return schema_refuse(c, WISP_ERROR_FORMAT, c->root, "no value is valid");
    TRY(write_goals(o));
    TRY(builder_compile(&o->builder, o->grammar, &recursive, c->error));
    return move_arrays(o);
}

/* Errors name the place in the schema: "#/properties/size". They are WISP_ERROR_FORMAT if the
 * schema is malformed or no value is valid under it, and WISP_ERROR_UNSUPPORTED for what no grammar
 * can follow. The caller closes the grammar, also after an error. */
static wisp_status compile_schema(wisp_text schema, struct wisp_grammar *grammar,
                                  wisp_error *error) {
    struct schema_compiler *c = calloc(1, sizeof *c);
    if (!c)
        return fail_memory(error, sizeof *c);
    struct schema_output o = {.compiler = c, .grammar = grammar};
    wisp_error own = {0};
    c->error = error ? error : &own; /* messages are read again, for their path */
    wisp_status status =
        json_parse(&c->arena, schema.bytes, schema.length, "json_schema", &c->root, c->error);
    if (status == WISP_OK)
        status = write_grammar(&o);
    builder_release(&o.builder);
    free(o.automata);
    free(o.states);
    free(o.objects);
    free(o.ways);
    free(c->goals);
    free(c->queue);
    arena_release(&c->arena);
    free(c);
    return status;
}

wisp_status wisp_grammar_open_schema(wisp_text schema, wisp_grammar **grammar, wisp_error *error) {
    TRY(require((const void *)grammar, "grammar", error));
    *grammar = NULL;
    TRY(require_texts(&schema, 1, error));
    struct wisp_grammar *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(error, sizeof *made);
    const wisp_status status = compile_schema(schema, made, error);
    if (status == WISP_OK)
        *grammar = made;
    else
        wisp_grammar_close(made);
    return status;
}
