/* SPDX-License-Identifier: Apache-2.0
 * The records of values that are not valid under a schema: for each keyword, those that it refuses.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "schema/schema.h"
#include "schema/schema_formats.h"
#include "schema/schema_numbers.h"

static const struct json nothing = {.type = JSON_FALSE};

static wisp_status refuse_not(struct schema_compiler *c, const struct json *at) {
    return schema_refuse(
        c, WISP_ERROR_UNSUPPORTED, at,
        "%.60s cannot be followed under not, or in an option of oneOf that another "
        "may overlap with",
        at->key ? at->key : "it");
}

static wisp_status add(struct schema_compiler *c, struct literal literal, struct records *records) {
    return schema_expand(c, literal, records);
}

/* ---- numbers and strings -------------------------------------------------------------------- */

static wisp_status negate_type(struct schema_compiler *c, const struct json *schema,
                               struct records *records) {
    struct record r = record_any;
    bool whole;
    TRY(schema_types(c, schema, &r.types, &whole));
    r.types = TYPE_ANY & ~r.types;
    if (whole) {
        static const struct json one = {.type = JSON_NUMBER, .text = "1", .text_length = 1};
        r.types |= TYPE_NUMBER;
        TRY(schema_multiple(c, &one, true, &r.number));
    }
    return r.types ? records_add(c, records, &r) : WISP_OK;
}

static wisp_status negate_numbers(struct schema_compiler *c, const struct json *schema,
                                  struct records *records) {
    static const struct {
        const char *key, *exclusive;
        unsigned orders;
    } limits[] = {{"minimum", "exclusiveMinimum", NUMBER_LESS},
                  {"maximum", "exclusiveMaximum", NUMBER_GREATER}};
    struct record r = record_any;
    r.types = TYPE_NUMBER;
    for (size_t i = 0; i < 2; i++) {
        const struct json *bound = schema_get(c, schema, limits[i].key);
        const struct json *exclusive = schema_get(c, schema, limits[i].exclusive);
        const unsigned wide = limits[i].orders | NUMBER_EQUAL;
        if (bound) {
            TRY(schema_order(c, bound, json_is(exclusive, JSON_TRUE) ? wide : limits[i].orders,
                             &r.number));
            TRY(records_add(c, records, &r));
        }
        if (exclusive && c->draft > 4 && exclusive->type == JSON_NUMBER) {
            TRY(schema_order(c, exclusive, wide, &r.number));
            TRY(records_add(c, records, &r));
        }
    }
    const struct json *divisor = schema_get(c, schema, "multipleOf");
    if (!divisor)
        return WISP_OK;
    TRY(schema_multiple(c, divisor, true, &r.number));
    return records_add(c, records, &r);
}

/* Adds the record with fewer things than a keyword demands, and with more than another allows. Its
 * bounds are *least and *most. */
static wisp_status negate_counts(struct schema_compiler *c, const struct json *schema,
                                 const char *least_keyword, const char *most_keyword,
                                 const struct record *r, uint32_t *least, uint32_t *most,
                                 struct records *records) {
    uint32_t count = 0;
    bool has;
    TRY(schema_count(c, schema, least_keyword, &count, &has));
    *most = count - 1;
    if (has && count > 0)
        TRY(records_add(c, records, r));
    *most = UINT32_MAX;
    TRY(schema_count(c, schema, most_keyword, &count, &has));
    *least = count + 1;
    if (has)
        TRY(records_add(c, records, r));
    *least = 0;
    return WISP_OK;
}

static wisp_status negate_strings(struct schema_compiler *c, const struct json *schema,
                                  struct records *records) {
    const struct json *pattern = schema_get(c, schema, "pattern"),
                      *format = schema_get(c, schema, "format");
    const char *expression = json_is(format, JSON_STRING) ? schema_format(format->text) : NULL;
    struct record r = record_any;
    r.types = TYPE_STRING;
    TRY(negate_counts(c, schema, "minLength", "maxLength", &r, &r.least_length, &r.most_length,
                      records));
    if (json_is(pattern, JSON_STRING)) {
        TRY(schema_pattern(c, pattern, json_text(pattern), true, &r.string));
        TRY(records_add(c, records, &r));
    }
    if (expression) {
        TRY(schema_pattern(c, format, wisp_text_of(expression), true, &r.string));
        TRY(records_add(c, records, &r));
    }
    return WISP_OK;
}

/* ---- arrays --------------------------------------------------------------------------------- */

static wisp_status negate_items(struct schema_compiler *c, const struct json *schema,
                                struct records *records) {
    struct item_source source;
    struct record r = record_any;
    uint32_t i = 0;
    r.types = TYPE_ARRAY;
    TRY(schema_items(c, schema, &source));
    for (const struct json *item = source.prefix; item; item = item->next) {
        struct item_source *one;
        ARENA_TAKE(&c->arena, one, 1, c->error);
        *one = (struct item_source){.prefix = item, .kind = LITERAL_IS_NOT, .only = i};
        r.items = one;
        r.least_items = ++i;
        TRY(records_add(c, records, &r));
    }
    if (!source.rest.json)
        return WISP_OK;
    if (source.prefix && source.rest.json->type != JSON_FALSE)
        return refuse_not(c, source.rest.json);
    r.items = NULL;
    r.least_items = source.n + 1;
    if (source.rest.json->type != JSON_FALSE) {
        struct item_count *count;
        ARENA_TAKE(&c->arena, count, 1, c->error);
        *count = (struct item_count){{source.rest.json, LITERAL_IS_NOT}, 1, UINT32_MAX, NULL};
        r.contains = count;
    }
    return records_add(c, records, &r);
}

static wisp_status negate_arrays(struct schema_compiler *c, const struct json *schema,
                                 struct records *records) {
    const struct json *contains = schema_get(c, schema, "contains");
    const struct json *unique = schema_get(c, schema, "uniqueItems");
    struct record r = record_any;
    r.types = TYPE_ARRAY;
    TRY(negate_counts(c, schema, "minItems", "maxItems", &r, &r.least_items, &r.most_items,
                      records));
    if (json_is(unique, JSON_TRUE))
        return refuse_not(c, unique);
    if (contains) {
        struct item_source *source;
        if (schema_get(c, schema, "minContains") || schema_get(c, schema, "maxContains"))
            return refuse_not(c, contains);
        ARENA_TAKE(&c->arena, source, 1, c->error);
        *source = (struct item_source){.rest = {contains, LITERAL_IS_NOT}, .only = UINT32_MAX};
        r.items = source;
        TRY(records_add(c, records, &r));
    }
    return negate_items(c, schema, records);
}

/* ---- objects -------------------------------------------------------------------------------- */

/* Adds the record of objects in which a member is as a literal says; if it has to be there. */
static wisp_status add_member(struct schema_compiler *c, const char *name, struct literal literal,
                              bool there, struct records *records) {
    struct record r = record_any;
    struct member_source *source;
    struct required_name *required;
    ARENA_TAKE(&c->arena, source, 1, c->error);
    ARENA_TAKE(&c->arena, required, 1, c->error);
    *source = (struct member_source){.rest = literal, .name = name};
    *required = (struct required_name){name, NULL};
    r.types = TYPE_OBJECT;
    r.members = source;
    r.required = there ? required : NULL;
    return records_add(c, records, &r);
}

static wisp_status negate_dependencies(struct schema_compiler *c, const struct json *schema) {
    static const char *const keys[] = {"dependencies", "dependentRequired", "dependentSchemas",
                                       "propertyNames"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (schema_get(c, schema, keys[i]))
            return refuse_not(c, schema_get(c, schema, keys[i]));
    return WISP_OK;
}

static wisp_status negate_objects(struct schema_compiler *c, const struct json *schema,
                                  struct records *records) {
    const struct json *required = schema_get(c, schema, "required");
    struct member_source source;
    struct record r = record_any;
    r.types = TYPE_OBJECT;
    TRY(negate_dependencies(c, schema));
    TRY(schema_members(c, schema, &source));
    for (const struct json *name = json_is(required, JSON_ARRAY) ? required->first : NULL; name;
         name = name->next)
        if (name->type == JSON_STRING)
            TRY(add_member(c, name->text, (struct literal){&nothing, LITERAL_IS}, false, records));
    for (const struct json *p = source.properties; p; p = p->next)
        if (p->type != JSON_TRUE && !(p->type == JSON_OBJECT && p->count == 0))
            TRY(add_member(c, p->key, (struct literal){p, LITERAL_IS_NOT}, true, records));
    for (const struct json *p = source.patterns; p; p = p->next)
        if (p->type != JSON_TRUE && !(p->type == JSON_OBJECT && p->count == 0))
            return refuse_not(c, p);
    const struct json *rest = source.rest.json;
    if (rest && rest->type != JSON_TRUE && !(rest->type == JSON_OBJECT && rest->count == 0)) {
        struct other_member *other;
        if (rest->type != JSON_FALSE || source.patterns)
            return refuse_not(c, rest);
        ARENA_TAKE(&c->arena, other, 1, c->error);
        other->properties = source.properties;
        r.others = other;
        TRY(records_add(c, records, &r));
        r.others = NULL;
    }
    return negate_counts(c, schema, "minProperties", "maxProperties", &r, &r.least_members,
                         &r.most_members, records);
}

/* ---- keywords of schemas -------------------------------------------------------------------- */

static wisp_status all_not(struct schema_compiler *c, const struct json *list,
                           const struct json *but, struct records *records) {
    struct records made = {0};
    TRY(records_add(c, &made, &record_any));
    for (const struct json *option = list->first; option; option = option->next) {
        struct records others = {0};
        if (option == but)
            continue;
        TRY(add(c, (struct literal){option, LITERAL_IS_NOT}, &others));
        TRY(records_intersect(c, &made, &others));
    }
    for (uint32_t i = 0; i < made.n; i++)
        TRY(records_add(c, records, &made.list[i]));
    return WISP_OK;
}

static wisp_status both(struct schema_compiler *c, struct literal a, struct literal b,
                        struct records *records) {
    struct records made = {0}, others = {0};
    TRY(add(c, a, &made));
    TRY(add(c, b, &others));
    TRY(records_intersect(c, &made, &others));
    for (uint32_t i = 0; i < made.n; i++)
        TRY(records_add(c, records, &made.list[i]));
    return WISP_OK;
}

static wisp_status negate_condition(struct schema_compiler *c, const struct json *schema,
                                    struct records *records) {
    const struct json *condition = schema_get(c, schema, "if");
    const struct json *then = schema_get(c, schema, "then"),
                      *otherwise = schema_get(c, schema, "else");
    if (condition && then)
        TRY(both(c, (struct literal){condition, LITERAL_IS}, (struct literal){then, LITERAL_IS_NOT},
                 records));
    if (condition && otherwise)
        TRY(both(c, (struct literal){condition, LITERAL_IS_NOT},
                 (struct literal){otherwise, LITERAL_IS_NOT}, records));
    return WISP_OK;
}

static wisp_status negate_values(struct schema_compiler *c, const struct json *schema,
                                 struct records *records) {
    const struct json *values = schema_get(c, schema, "enum"),
                      *value = schema_get(c, schema, "const");
    struct records made = {0};
    if (value)
        TRY(schema_differs(c, value, records));
    if (!json_is(values, JSON_ARRAY))
        return WISP_OK;
    TRY(records_add(c, &made, &record_any));
    for (const struct json *v = values->first; v; v = v->next) {
        struct records others = {0};
        TRY(schema_differs(c, v, &others));
        TRY(records_intersect(c, &made, &others));
    }
    for (uint32_t i = 0; i < made.n; i++)
        TRY(records_add(c, records, &made.list[i]));
    return WISP_OK;
}

static wisp_status negate_schemas(struct schema_compiler *c, const struct json *schema,
                                  struct records *records) {
    const struct json *all = schema_get(c, schema, "allOf"), *any = schema_get(c, schema, "anyOf");
    const struct json *one = schema_get(c, schema, "oneOf"), *none = schema_get(c, schema, "not");
    for (const struct json *part = json_is(all, JSON_ARRAY) ? all->first : NULL; part;
         part = part->next)
        TRY(add(c, (struct literal){part, LITERAL_IS_NOT}, records));
    if (json_is(any, JSON_ARRAY))
        TRY(all_not(c, any, NULL, records));
    if (json_is(one, JSON_ARRAY)) { /* none, or two */
        TRY(all_not(c, one, NULL, records));
        for (const struct json *a = one->first; a; a = a->next)
            for (const struct json *b = a->next; b; b = b->next)
                TRY(both(c, (struct literal){a, LITERAL_IS}, (struct literal){b, LITERAL_IS},
                         records));
    }
    if (none)
        TRY(add(c, (struct literal){none, LITERAL_IS}, records));
    return negate_condition(c, schema, records);
}

wisp_status schema_negate(struct schema_compiler *c, const struct json *schema,
                          struct records *records) {
    static const char *const references[] = {"$ref", "$dynamicRef", "$recursiveRef"};
    if (schema->type == JSON_FALSE)
        return records_add(c, records, &record_any);
    if (schema->type == JSON_TRUE)
        return WISP_OK;
    if (schema->type != JSON_OBJECT)
        return schema_refuse(c, WISP_ERROR_FORMAT, schema,
                             "not a schema, which is an object, true or false");
    for (size_t i = 0; i < sizeof references / sizeof *references; i++) {
        const struct json *reference = schema_get(c, schema, references[i]), *found;
        if (!reference)
            continue;
        TRY(schema_resolve(c, reference, &found));
        TRY(add(c, (struct literal){found, LITERAL_IS_NOT}, records));
        if (c->draft < 8)
            return WISP_OK;
    }
    TRY(negate_type(c, schema, records));
    TRY(negate_numbers(c, schema, records));
    TRY(negate_strings(c, schema, records));
    TRY(negate_arrays(c, schema, records));
    TRY(negate_objects(c, schema, records));
    TRY(negate_values(c, schema, records));
    return negate_schemas(c, schema, records);
}
