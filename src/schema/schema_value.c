/* SPDX-License-Identifier: Apache-2.0
 * The records of values that are, or are not, equal to those of enum and const.
 * Compiled for size in WebAssembly. */
#include "schema/schema.h"
#include "schema/schema_numbers.h"

static const struct json nothing = {.type = JSON_FALSE};

static unsigned type_of(const struct json *value) {
    static const unsigned types[] = {
        [JSON_NULL] = TYPE_NULL,     [JSON_FALSE] = TYPE_FALSE,   [JSON_TRUE] = TYPE_TRUE,
        [JSON_NUMBER] = TYPE_NUMBER, [JSON_STRING] = TYPE_STRING, [JSON_ARRAY] = TYPE_ARRAY,
        [JSON_OBJECT] = TYPE_OBJECT};
    return types[value->type];
}

static wisp_status equal_array(struct schema_compiler *c, const struct json *value,
                               struct record *r) {
    struct item_source *source;
    ARENA_TAKE(&c->arena, source, 1, c->error);
    *source = (struct item_source){
        .prefix = value->first, .n = value->count, .kind = LITERAL_EQUALS, .only = UINT32_MAX};
    r->items = source;
    r->least_items = r->most_items = value->count;
    return WISP_OK;
}

static wisp_status equal_object(struct schema_compiler *c, const struct json *value,
                                struct record *r) {
    struct member_source *source;
    ARENA_TAKE(&c->arena, source, 1, c->error);
    *source = (struct member_source){
        .properties = value->first, .rest = {&nothing, LITERAL_IS}, .kind = LITERAL_EQUALS};
    r->members = source;
    for (const struct json *member = value->first; member; member = member->next) {
        struct required_name *required;
        ARENA_TAKE(&c->arena, required, 1, c->error);
        *required = (struct required_name){member->key, r->required};
        r->required = required;
    }
    return WISP_OK;
}

/* Values without parts make one record. */
wisp_status schema_equals(struct schema_compiler *c, const struct json *first,
                          const struct json *end, struct records *records) {
    struct record simple = record_any;
    wisp_text *strings, *numbers;
    uint32_t n = 0, n_strings = 0, n_numbers = 0;
    for (const struct json *value = first; value != end; value = value->next)
        n++;
    ARENA_TAKE(&c->arena, strings, n + 1, c->error);
    ARENA_TAKE(&c->arena, numbers, n + 1, c->error);
    simple.types = 0;
    for (const struct json *value = first; value != end; value = value->next) {
        struct record whole = record_any;
        whole.types = type_of(value);
        if (value->type == JSON_STRING)
            strings[n_strings++] = json_text(value);
        if (value->type == JSON_NUMBER)
            numbers[n_numbers++] = json_text(value);
        if (value->type == JSON_ARRAY)
            TRY(equal_array(c, value, &whole));
        if (value->type == JSON_OBJECT)
            TRY(equal_object(c, value, &whole));
        if (value->type == JSON_ARRAY || value->type == JSON_OBJECT)
            TRY(records_add(c, records, &whole));
        else
            simple.types |= whole.types;
    }
    if (n_strings > 0)
        TRY(automaton_texts(&c->arena, strings, n_strings, 0, &simple.string, c->error));
    if (n_numbers > 0)
        TRY(automaton_texts(&c->arena, numbers, n_numbers, 0, &simple.number, c->error));
    return simple.types ? records_add(c, records, &simple) : WISP_OK;
}

static wisp_status differ_array(struct schema_compiler *c, const struct json *value,
                                struct records *records) {
    struct record r = record_any;
    uint32_t i = 0;
    r.types = TYPE_ARRAY;
    r.least_items = value->count + 1;
    TRY(records_add(c, records, &r));
    r.least_items = 0;
    r.most_items = value->count - 1;
    if (value->count > 0)
        TRY(records_add(c, records, &r));
    r.most_items = UINT32_MAX;
    for (const struct json *item = value->first; item; item = item->next) {
        struct item_source *source;
        ARENA_TAKE(&c->arena, source, 1, c->error);
        *source = (struct item_source){.prefix = item, .kind = LITERAL_DIFFERS, .only = i};
        r.items = source;
        r.least_items = ++i;
        TRY(records_add(c, records, &r));
    }
    return WISP_OK;
}

static wisp_status differ_object(struct schema_compiler *c, const struct json *value,
                                 struct records *records) {
    struct record r = record_any;
    r.types = TYPE_OBJECT;
    r.least_members = value->count + 1;
    TRY(records_add(c, records, &r));
    r.least_members = 0;
    for (const struct json *member = value->first; member; member = member->next) {
        struct member_source *source;
        ARENA_TAKE(&c->arena, source, 2, c->error);
        source[0] = (struct member_source){.rest = {&nothing, LITERAL_IS}, .name = member->key};
        source[1] = (struct member_source){.rest = {member, LITERAL_DIFFERS}, .name = member->key};
        r.members = &source[0];
        TRY(records_add(c, records, &r));
        r.members = &source[1];
        TRY(records_add(c, records, &r));
    }
    return WISP_OK;
}

wisp_status schema_differs(struct schema_compiler *c, const struct json *value,
                           struct records *records) {
    struct record others = record_any;
    others.types &= ~type_of(value);
    if (value->type == JSON_STRING) {
        const wisp_text text = json_text(value);
        others.types = TYPE_ANY;
        TRY(automaton_texts(&c->arena, &text, 1, 0, &others.string, c->error));
        TRY(automaton_not(&c->arena, others.string, &others.string, c->error));
    }
    if (value->type == JSON_NUMBER) {
        others.types = TYPE_ANY;
        TRY(schema_order(c, value, NUMBER_LESS | NUMBER_GREATER, &others.number));
    }
    TRY(records_add(c, records, &others));
    if (value->type == JSON_ARRAY)
        TRY(differ_array(c, value, records));
    return value->type == JSON_OBJECT ? differ_object(c, value, records) : WISP_OK;
}
