/* SPDX-License-Identifier: Apache-2.0
 * The records of values that are valid under a schema.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "schema/schema.h"
#include "schema/schema_formats.h"
#include "schema/schema_numbers.h"

static const struct json nothing = {.type = JSON_FALSE};

wisp_status schema_types(struct schema_compiler *c, const struct json *schema, unsigned *types,
                         bool *whole) {
    static const struct {
        const char *name;
        unsigned types;
    } names[] = {{"object", TYPE_OBJECT}, {"array", TYPE_ARRAY},
                 {"string", TYPE_STRING}, {"number", TYPE_NUMBER},
                 {"integer", 0},          {"boolean", TYPE_TRUE | TYPE_FALSE},
                 {"null", TYPE_NULL},     {"any", TYPE_ANY}};
    const struct json *type = schema_get(c, schema, "type");
    *types = TYPE_ANY;
    *whole = false;
    if (!type)
        return WISP_OK;
    *types = 0;
    const bool one = type->type != JSON_ARRAY;
    if (!one && !type->first)
        return schema_refuse(c, WISP_ERROR_FORMAT, type, "type has no value");
    for (const struct json *name = one ? type : type->first; name; name = one ? NULL : name->next) {
        size_t i = 0;
        while (i < sizeof names / sizeof *names && !json_equals(name, names[i].name))
            i++;
        if (i == sizeof names / sizeof *names)
            return schema_refuse(c, WISP_ERROR_FORMAT, name, "an unknown type");
        *types |= names[i].types;
        *whole = *whole || names[i].types == 0;
    }
    *whole = *whole && !(*types & TYPE_NUMBER);
    if (*whole)
        *types |= TYPE_NUMBER;
    return WISP_OK;
}

/* ---- numbers and strings -------------------------------------------------------------------- */

/* In draft 4, exclusiveMinimum is true or false and changes what minimum means. */
static wisp_status limit_numbers(struct schema_compiler *c, const struct json *schema,
                                 struct record *r) {
    static const struct {
        const char *key, *exclusive;
        unsigned orders;
    } limits[] = {{"minimum", "exclusiveMinimum", NUMBER_EQUAL | NUMBER_GREATER},
                  {"maximum", "exclusiveMaximum", NUMBER_EQUAL | NUMBER_LESS}};
    for (size_t i = 0; i < 2; i++) {
        const struct json *bound = schema_get(c, schema, limits[i].key);
        const struct json *exclusive = schema_get(c, schema, limits[i].exclusive);
        const unsigned strict = limits[i].orders & ~(unsigned)NUMBER_EQUAL;
        struct automaton *made;
        if (bound) {
            TRY(schema_order(c, bound, json_is(exclusive, JSON_TRUE) ? strict : limits[i].orders,
                             &made));
            TRY(schema_intersect(c, r->number, made, &r->number));
        }
        if (exclusive && c->draft > 4 && exclusive->type == JSON_NUMBER) {
            TRY(schema_order(c, exclusive, strict, &made));
            TRY(schema_intersect(c, r->number, made, &r->number));
        }
    }
    const struct json *divisor = schema_get(c, schema, "multipleOf");
    if (divisor) {
        struct automaton *made;
        TRY(schema_multiple(c, divisor, false, &made));
        TRY(schema_intersect(c, r->number, made, &r->number));
    }
    return WISP_OK;
}

static wisp_status limit_strings(struct schema_compiler *c, const struct json *schema,
                                 struct record *r) {
    const struct json *pattern = schema_get(c, schema, "pattern"),
                      *format = schema_get(c, schema, "format");
    const char *expression = json_is(format, JSON_STRING) ? schema_format(format->text) : NULL;
    struct automaton *made;
    TRY(schema_count(c, schema, "minLength", &r->least_length, NULL));
    TRY(schema_count(c, schema, "maxLength", &r->most_length, NULL));
    if (pattern && pattern->type != JSON_STRING)
        return schema_refuse(c, WISP_ERROR_FORMAT, pattern, "not a string");
    if (pattern) {
        TRY(schema_pattern(c, pattern, json_text(pattern), false, &made));
        TRY(schema_intersect(c, r->string, made, &r->string));
    }
    if (expression) {
        TRY(schema_pattern(c, format, wisp_text_of(expression), false, &made));
        TRY(schema_intersect(c, r->string, made, &r->string));
    }
    return WISP_OK;
}

/* ---- arrays and objects --------------------------------------------------------------------- */

wisp_status schema_items(struct schema_compiler *c, const struct json *schema,
                         struct item_source *source) {
    const struct json *items = schema_get(c, schema, "items");
    const struct json *prefix = schema_get(c, schema, "prefixItems");
    const struct json *rest = items;
    if (!prefix && json_is(items, JSON_ARRAY)) { /* before draft 2020-12 */
        prefix = items;
        rest = schema_get(c, schema, "additionalItems");
    }
    if (prefix && prefix->type != JSON_ARRAY)
        return schema_refuse(c, WISP_ERROR_FORMAT, prefix, "not a list of schemas");
    if (!rest)
        rest = schema_get(c, schema, "unevaluatedItems");
    *source = (struct item_source){.rest = {rest, LITERAL_IS},
                                   .prefix = prefix ? prefix->first : NULL,
                                   .n = prefix ? prefix->count : 0,
                                   .only = UINT32_MAX};
    return WISP_OK;
}

static wisp_status limit_arrays(struct schema_compiler *c, const struct json *schema,
                                struct record *r) {
    const struct json *contains = schema_get(c, schema, "contains");
    struct item_source *source;
    ARENA_TAKE(&c->arena, source, 1, c->error);
    TRY(schema_items(c, schema, source));
    if (source->rest.json || source->prefix)
        r->items = source;
    TRY(schema_count(c, schema, "minItems", &r->least_items, NULL));
    TRY(schema_count(c, schema, "maxItems", &r->most_items, NULL));
    r->unique = json_is(schema_get(c, schema, "uniqueItems"), JSON_TRUE);
    if (contains) {
        struct item_count *count;
        ARENA_TAKE(&c->arena, count, 1, c->error);
        *count = (struct item_count){{contains, LITERAL_IS}, 1, UINT32_MAX, NULL};
        TRY(schema_count(c, schema, "minContains", &count->least, NULL));
        TRY(schema_count(c, schema, "maxContains", &count->most, NULL));
        r->contains = count;
    }
    return WISP_OK;
}

wisp_status schema_members(struct schema_compiler *c, const struct json *schema,
                           struct member_source *source) {
    const struct json *properties = schema_get(c, schema, "properties");
    const struct json *patterns = schema_get(c, schema, "patternProperties");
    const struct json *rest = schema_get(c, schema, "additionalProperties");
    if (properties && properties->type != JSON_OBJECT)
        return schema_refuse(c, WISP_ERROR_FORMAT, properties, "not an object of schemas");
    if (patterns && patterns->type != JSON_OBJECT)
        return schema_refuse(c, WISP_ERROR_FORMAT, patterns, "not an object of schemas");
    if (!rest)
        rest = schema_get(c, schema, "unevaluatedProperties");
    *source = (struct member_source){.properties = properties ? properties->first : NULL,
                                     .patterns = patterns ? patterns->first : NULL,
                                     .rest = {rest, LITERAL_IS},
                                     .kind = LITERAL_IS};
    return WISP_OK;
}

/* Keywords that count what other schemas at the same place have said, too. */
static wisp_status refuse_unevaluated(struct schema_compiler *c, const struct json *schema) {
    static const char *const keys[] = {"unevaluatedProperties", "unevaluatedItems"};
    static const char *const others[] = {
        "$ref",        "allOf",   "anyOf", "oneOf", "not", "if", "dependentSchemas",
        "$dynamicRef", "contains"};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof others / sizeof *others && schema_get(c, schema, keys[k]);
             i++)
            if (schema_get(c, schema, others[i]) &&
                schema_get(c, schema, keys[k])->type != JSON_TRUE)
                return schema_refuse(c, WISP_ERROR_UNSUPPORTED, schema_get(c, schema, keys[k]),
                                     "%s beside %s cannot be followed", keys[k], others[i]);
    return WISP_OK;
}

static wisp_status add_required(struct schema_compiler *c, const char *name, struct record *r) {
    struct required_name *required;
    ARENA_TAKE(&c->arena, required, 1, c->error);
    *required = (struct required_name){name, r->required};
    r->required = required;
    return WISP_OK;
}

static wisp_status require_all(struct schema_compiler *c, const struct json *names,
                               struct record *r) {
    for (const struct json *name = names->first; name; name = name->next) {
        if (name->type != JSON_STRING)
            return schema_refuse(c, WISP_ERROR_FORMAT, name, "not a string");
        TRY(add_required(c, name->text, r));
    }
    return WISP_OK;
}

static wisp_status limit_objects(struct schema_compiler *c, const struct json *schema,
                                 struct record *r) {
    const struct json *required = schema_get(c, schema, "required");
    const struct json *names = schema_get(c, schema, "propertyNames");
    struct member_source *source;
    ARENA_TAKE(&c->arena, source, 1, c->error);
    TRY(refuse_unevaluated(c, schema));
    TRY(schema_members(c, schema, source));
    if (source->properties || source->patterns || source->rest.json)
        r->members = source;
    TRY(schema_count(c, schema, "minProperties", &r->least_members, NULL));
    TRY(schema_count(c, schema, "maxProperties", &r->most_members, NULL));
    if (json_is(required, JSON_ARRAY)) /* in draft 3 it is true or false */
        TRY(require_all(c, required, r));
    if (names) {
        struct name_limit *limit;
        ARENA_TAKE(&c->arena, limit, 1, c->error);
        *limit = (struct name_limit){{names, LITERAL_IS}, NULL};
        r->names = limit;
    }
    return WISP_OK;
}

/* ---- keywords of schemas -------------------------------------------------------------------- */

static wisp_status with(struct schema_compiler *c, struct literal literal,
                        struct records *records) {
    struct records others = {0};
    TRY(schema_expand(c, literal, &others));
    return records_intersect(c, records, &others);
}

static wisp_status require_list(struct schema_compiler *c, const struct json *list) {
    return list->type == JSON_ARRAY && list->first
               ? WISP_OK
               : schema_refuse(c, WISP_ERROR_FORMAT, list, "not a list of schemas");
}

static wisp_status with_any(struct schema_compiler *c, const struct json *list,
                            struct records *records) {
    struct records others = {0};
    TRY(require_list(c, list));
    for (const struct json *option = list->first; option; option = option->next)
        TRY(schema_expand(c, (struct literal){option, LITERAL_IS}, &others));
    return records_intersect(c, records, &others);
}

/* Whether a value can be in one record of each list. */
static wisp_status overlap(struct schema_compiler *c, const struct records *a,
                           const struct records *b, bool *found) {
    *found = false;
    for (uint32_t i = 0; i < a->n && !*found; i++)
        for (uint32_t k = 0; k < b->n && !*found; k++) {
            struct record both;
            bool empty;
            TRY(record_intersect(c, &a->list[i], &b->list[k], &both, &empty));
            if (!empty)
                TRY(record_is_empty(c, &both, &empty));
            *found = !empty;
        }
    return WISP_OK;
}

/* Exactly one of the schemas: each without those that it overlaps with, as far as the other
 * keywords of the schema leave them. */
static wisp_status with_one(struct schema_compiler *c, const struct json *list,
                            struct records *records) {
    struct records *options, made = {0};
    uint32_t i = 0;
    TRY(require_list(c, list));
    ARENA_TAKE(&c->arena, options, list->count, c->error);
    for (const struct json *option = list->first; option; option = option->next, i++) {
        TRY(schema_expand(c, (struct literal){option, LITERAL_IS}, &options[i]));
        TRY(records_intersect(c, &options[i], records));
    }
    for (i = 0; i < list->count; i++) {
        struct records one = options[i];
        uint32_t k = 0;
        for (const struct json *option = list->first; option; option = option->next, k++) {
            bool found = false;
            if (k != i)
                TRY(overlap(c, &one, &options[k], &found));
            if (found)
                TRY(with(c, (struct literal){option, LITERAL_IS_NOT}, &one));
        }
        for (k = 0; k < one.n; k++)
            TRY(records_add(c, &made, &one.list[k]));
    }
    *records = made;
    return WISP_OK;
}

/* (if and then) or (not if and else). */
static wisp_status with_condition(struct schema_compiler *c, const struct json *schema,
                                  struct records *records) {
    const struct json *condition = schema_get(c, schema, "if");
    const struct json *then = schema_get(c, schema, "then"),
                      *otherwise = schema_get(c, schema, "else");
    struct records is = *records, is_not = *records;
    if (!condition || (!then && !otherwise))
        return WISP_OK;
    TRY(with(c, (struct literal){condition, LITERAL_IS}, &is));
    if (then)
        TRY(with(c, (struct literal){then, LITERAL_IS}, &is));
    TRY(with(c, (struct literal){condition, LITERAL_IS_NOT}, &is_not));
    if (otherwise)
        TRY(with(c, (struct literal){otherwise, LITERAL_IS}, &is_not));
    *records = (struct records){0};
    for (uint32_t i = 0; i < is.n; i++)
        TRY(records_add(c, records, &is.list[i]));
    for (uint32_t i = 0; i < is_not.n; i++)
        TRY(records_add(c, records, &is_not.list[i]));
    return WISP_OK;
}

/* Whether a schema says no more than which members have to be there. */
static bool only_requires(const struct json *schema) {
    return schema->type == JSON_OBJECT && schema->count == 1 &&
           json_is(json_get(schema, "required"), JSON_ARRAY);
}

/* If the member is there, others are too. */
static wisp_status with_implied(struct schema_compiler *c, const char *name,
                                const struct json *names, struct records *records) {
    struct record r = record_any, required = record_any;
    struct implied_names *implied;
    ARENA_TAKE(&c->arena, implied, 1, c->error);
    if (names->type == JSON_STRING) /* draft 3 */
        TRY(add_required(c, names->text, &required));
    else
        TRY(require_all(c, names, &required));
    *implied = (struct implied_names){name, required.required, NULL};
    r.implied = implied;
    return records_intersect(c, records, &(struct records){&r, 1, 1});
}

/* If the member is there, others are too or a schema holds. */
static wisp_status with_dependency(struct schema_compiler *c, const struct json *dependency,
                                   struct records *records) {
    struct records options = {0}, there = {0};
    struct record without = record_any, given = record_any;
    struct member_source *absent;
    if (dependency->type == JSON_ARRAY || dependency->type == JSON_STRING)
        return with_implied(c, dependency->key, dependency, records);
    if (only_requires(dependency))
        return with_implied(c, dependency->key, json_get(dependency, "required"), records);
    ARENA_TAKE(&c->arena, absent, 1, c->error);
    *absent = (struct member_source){.rest = {&nothing, LITERAL_IS}, .name = dependency->key};
    without.members = absent;
    given.types = TYPE_OBJECT;
    TRY(add_required(c, dependency->key, &given));
    TRY(records_add(c, &there, &given));
    TRY(with(c, (struct literal){dependency, LITERAL_IS}, &there));
    TRY(records_add(c, &options, &without));
    for (uint32_t i = 0; i < there.n; i++)
        TRY(records_add(c, &options, &there.list[i]));
    return records_intersect(c, records, &options);
}

static wisp_status with_dependencies(struct schema_compiler *c, const struct json *schema,
                                     struct records *records) {
    static const char *const keys[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct json *dependencies = schema_get(c, schema, keys[i]);
        if (dependencies && dependencies->type != JSON_OBJECT)
            return schema_refuse(c, WISP_ERROR_FORMAT, dependencies, "not an object");
        for (const struct json *d = dependencies ? dependencies->first : NULL; d; d = d->next)
            TRY(with_dependency(c, d, records));
    }
    return WISP_OK;
}

/* A dynamic reference means the anchor of the whole document, if that has one of this name. */
static wisp_status with_reference(struct schema_compiler *c, const struct json *reference,
                                  struct records *records) {
    const struct json *found;
    TRY(schema_resolve(c, reference, &found));
    const struct json *anchor = json_get(found, "$dynamicAnchor");
    if (strcmp(reference->key, "$dynamicRef") == 0 && json_is(anchor, JSON_STRING) &&
        json_equals(json_get(c->root, "$dynamicAnchor"), anchor->text))
        found = c->root;
    if (strcmp(reference->key, "$recursiveRef") == 0 &&
        json_is(json_get(c->root, "$recursiveAnchor"), JSON_TRUE))
        found = c->root;
    return with(c, (struct literal){found, LITERAL_IS}, records);
}

static wisp_status with_schemas(struct schema_compiler *c, const struct json *schema,
                                struct records *records) {
    static const char *const references[] = {"$ref", "$dynamicRef", "$recursiveRef"};
    const struct json *all = schema_get(c, schema, "allOf"), *any = schema_get(c, schema, "anyOf");
    const struct json *one = schema_get(c, schema, "oneOf"), *none = schema_get(c, schema, "not");
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        const struct json *reference = schema_get(c, schema, references[i]);
        if (reference)
            TRY(with_reference(c, reference, records));
    }
    if (all)
        TRY(require_list(c, all));
    for (const struct json *part = all ? all->first : NULL; part; part = part->next)
        TRY(with(c, (struct literal){part, LITERAL_IS}, records));
    if (any)
        TRY(with_any(c, any, records));
    TRY(with_dependencies(c, schema, records));
    TRY(with_condition(c, schema, records));
    if (one)
        TRY(with_one(c, one, records));
    return none ? with(c, (struct literal){none, LITERAL_IS_NOT}, records) : WISP_OK;
}

static wisp_status expand_schema(struct schema_compiler *c, const struct json *schema,
                                 struct records *records) {
    const struct json *values = schema_get(c, schema, "enum"),
                      *value = schema_get(c, schema, "const");
    struct records made = {0};
    struct record r = record_any;
    bool whole;
    if (schema->type == JSON_FALSE)
        return WISP_OK;
    if (schema->type != JSON_OBJECT && schema->type != JSON_TRUE)
        return schema_refuse(c, WISP_ERROR_FORMAT, schema,
                             "not a schema, which is an object, true or false");
    const bool lone = c->draft < 8 && schema_get(c, schema, "$ref");
    if (schema->type == JSON_TRUE || lone) {
        TRY(records_add(c, &made, &r));
        if (lone)
            TRY(with_reference(c, schema_get(c, schema, "$ref"), &made));
    } else {
        TRY(schema_types(c, schema, &r.types, &whole));
        if (whole)
            TRY(schema_whole(c, true, &r.number));
        TRY(limit_numbers(c, schema, &r));
        TRY(limit_strings(c, schema, &r));
        TRY(limit_arrays(c, schema, &r));
        TRY(limit_objects(c, schema, &r));
        /* Intersected with all values, it loses the types that have none. */
        TRY(records_add(c, &made, &record_any));
        TRY(records_intersect(c, &made, &(struct records){&r, 1, 1}));
    }
    if (!lone && (values || value)) {
        struct records equal = {0};
        if (values && values->type != JSON_ARRAY)
            return schema_refuse(c, WISP_ERROR_FORMAT, values, "not a list of values");
        if (values)
            TRY(schema_equals(c, values->first, NULL, &equal));
        if (values)
            TRY(records_intersect(c, &made, &equal));
        equal = (struct records){0};
        if (value)
            TRY(schema_equals(c, value, value->next, &equal));
        if (value)
            TRY(records_intersect(c, &made, &equal));
    }
    if (!lone)
        TRY(with_schemas(c, schema, &made));
    for (uint32_t i = 0; i < made.n; i++)
        TRY(records_add(c, records, &made.list[i]));
    return WISP_OK;
}

wisp_status schema_expand(struct schema_compiler *c, struct literal l, struct records *records) {
    if (c->depth >= SCHEMA_MOST_DEPTH)
        return schema_refuse(c, WISP_ERROR_UNSUPPORTED, l.json,
                             "references that lead back to themselves, or nested too deep");
    c->depth++;
    const wisp_status status = l.kind == LITERAL_IS       ? expand_schema(c, l.json, records)
                               : l.kind == LITERAL_IS_NOT ? schema_negate(c, l.json, records)
                               : l.kind == LITERAL_EQUALS
                                   ? schema_equals(c, l.json, l.json->next, records)
                                   : schema_differs(c, l.json, records);
    c->depth--;
    return status;
}
