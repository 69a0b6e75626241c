/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "text/json_schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { MOST_BYTES = 1 << 20, MOST_COUNT = 10000, MOST_RULES = 8192, PATH_BYTES = 400 };

/* The rules that schemas are made of. White space is bounded, so that a model does not write it for
 * ever. `char` matches one character as minLength and maxLength count them. */
static const char basics[] =
    "ws ::= (\" \" | \"\\n\" [ \\t]{0,20})?\n"
    "char ::= [^\"\\\\\\x00-\\x1F\\x7F] | \"\\\\\" ([\"\\\\bfnrt/] | "
    "\"u\" (([0-9a-cefA-CEF] hex | [dD] [0-7]) "
    "hex hex))\n"
    "hex ::= [0-9a-fA-F]\n"
    "string ::= \"\\\"\" char* \"\\\"\"\n"
    "integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15})\n"
    "number ::= \"-\"? (\"0\" | [1-9] [0-9]{0,15}) (\".\" [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?\n"
    "boolean ::= \"true\" | \"false\"\n"
    "null ::= \"null\"\n"
    "array ::= \"[\" ws (value (ws \",\" ws value)* ws)? \"]\"\n"
    "object ::= \"{\" ws (member (ws \",\" ws member)* ws)? \"}\"\n"
    "member ::= string \":\" ws value\n"
    "value ::= object | array | string | number | boolean | null\n";

static const char *const types[] = {"object",  "array",   "string", "number",
                                    "integer", "boolean", "null"};
enum { OBJECT, ARRAY, STRING, NUMBER, INTEGER, BOOLEAN, NOTHING, TYPES };

/* Keywords that change nothing about what is valid. */
static const char *const annotations[] = {
    "title",      "description", "default",   "examples", "$schema",     "$id", "$comment",
    "deprecated", "readOnly",    "writeOnly", "$defs",    "definitions", "type"};

/* Keywords that restrict values of one type, or of all types. */
static const struct {
    const char *name;
    int type; /* TYPES: of all types */
} keywords[] = {{"properties", OBJECT}, {"required", OBJECT},  {"additionalProperties", OBJECT},
                {"items", ARRAY},       {"minItems", ARRAY},   {"maxItems", ARRAY},
                {"minLength", STRING},  {"maxLength", STRING}, {"enum", TYPES},
                {"const", TYPES},       {"anyOf", TYPES},      {"$ref", TYPES}};

/* A schema that has a rule of its own: rule s<index>. */
struct schema {
    const struct json *json;
    char *path;
};

struct maker {
    const struct json *root;
    char *text;
    size_t length, capacity;
    struct schema *schemas; /* [n]: those before `done` have been written */
    size_t n, done, schema_capacity;
    wisp_error *error;
};

/* ---- writing -------------------------------------------------------------------------------- */

static wisp_status write_bytes(struct maker *m, const char *bytes, size_t n) {
    if (n > MOST_BYTES - m->length)
        return fail(m->error, WISP_ERROR_UNSUPPORTED, NULL, "json_schema",
                    "the grammar of the schema is too large");
    if (n > m->capacity - m->length) {
        const size_t capacity = 2 * (m->length + n);
        char *text = realloc(m->text, capacity);
        if (!text)
            return fail_memory(m->error, capacity);
        m->text = text;
        m->capacity = capacity;
    }
    memcpy(m->text + m->length, bytes, n);
    m->length += n;
    return WISP_OK;
}

static wisp_status write_text(struct maker *m, const char *text) {
    return write_bytes(m, text, strlen(text));
}

static wisp_status write_number(struct maker *m, const char *before, size_t number,
                                const char *after) {
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%zu", number);
    TRY(write_text(m, before));
    TRY(write_bytes(m, digits, (size_t)n));
    return write_text(m, after);
}

/* Writes JSON text as a literal. */
static wisp_status write_literal(struct maker *m, const char *json, size_t n) {
    TRY(write_text(m, "\""));
    for (size_t i = 0; i < n; i++) {
        const char *escape = json[i] == '"'    ? "\\\""
                             : json[i] == '\\' ? "\\\\"
                             : json[i] == '\n' ? "\\n"
                             : json[i] == '\r' ? "\\r"
                             : json[i] == '\t' ? "\\t"
                                               : NULL;
        TRY(escape ? write_text(m, escape) : write_bytes(m, json + i, 1));
    }
    return write_text(m, "\" ");
}

/* ---- schemas -------------------------------------------------------------------------------- */

static wisp_status refuse(const struct maker *m, wisp_status status, const char *path,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

static wisp_status refuse(const struct maker *m, wisp_status status, const char *path,
                          const char *format, ...) {
    char message[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return fail(m->error, status, NULL, "json_schema", "%.250s: %s", path, message);
}

/* Finds or makes the rule of a schema, and writes its name. */
static wisp_status write_schema(struct maker *m, const struct json *json, const char *path) {
    size_t i = 0;
    while (i < m->n && m->schemas[i].json != json)
        i++;
    if (i == m->n) {
        if (m->n == MOST_RULES)
            return refuse(m, WISP_ERROR_UNSUPPORTED, path, "the schema is too large");
        if (m->n == m->schema_capacity) {
            const size_t capacity = 2 * m->schema_capacity + 16;
            struct schema *schemas = realloc(m->schemas, capacity * sizeof *schemas);
            if (!schemas)
                return fail_memory(m->error, capacity * sizeof *schemas);
            m->schemas = schemas;
            m->schema_capacity = capacity;
        }
        const size_t bytes = strlen(path) + 1;
        char *copy = malloc(bytes);
        if (!copy)
            return fail_memory(m->error, bytes);
        memcpy(copy, path, bytes);
        m->schemas[m->n++] = (struct schema){json, copy};
    }
    return write_number(m, "s", i, " ");
}

static wisp_status write_below(struct maker *m, const struct json *json, const char *path,
                               const char *key) {
    char below[PATH_BYTES];
    snprintf(below, sizeof below, "%.*s/%.*s", PATH_BYTES / 2, path, PATH_BYTES / 2 - 2, key);
    return write_schema(m, json, below);
}

static wisp_status read_count(const struct maker *m, const struct json *schema, const char *key,
                              const char *path, size_t *count) {
    const struct json *value = json_get(schema, key);
    uint64_t number;
    if (!value)
        return WISP_OK;
    if (!json_to_u64(value, &number))
        return refuse(m, WISP_ERROR_FORMAT, path, "%s is no whole number", key);
    if (number > MOST_COUNT)
        return refuse(m, WISP_ERROR_UNSUPPORTED, path, "%s is more than %d", key, MOST_COUNT);
    *count = (size_t)number;
    return WISP_OK;
}

/* ---- objects -------------------------------------------------------------------------------- */

static bool is_required(const struct json *schema, const struct json *property) {
    const struct json *required = json_get(schema, "required");
    for (const struct json *name = required ? required->first : NULL; name; name = name->next)
        if (name->text_length == property->key_length &&
            memcmp(name->text, property->key, name->text_length) == 0)
            return true;
    return false;
}

static wisp_status check_required(const struct maker *m, const struct json *schema,
                                  const char *path) {
    const struct json *required = json_get(schema, "required");
    const struct json *properties = json_get(schema, "properties");
    if (required && required->type != JSON_ARRAY)
        return refuse(m, WISP_ERROR_FORMAT, path, "required is no array");
    /* Each required name is looked for among the properties. As required names may not repeat (JSON
     * Schema Validation, 6.5.3), more of both than there are rules cannot be a schema of use. */
    if ((required && required->count > MOST_RULES) ||
        (properties && properties->count > MOST_RULES))
        return refuse(m, WISP_ERROR_UNSUPPORTED, path, "the schema is too large");
    for (const struct json *name = required ? required->first : NULL; name; name = name->next) {
        if (name->type != JSON_STRING)
            return refuse(m, WISP_ERROR_FORMAT, path, "required has a value that is no string");
        if (!json_get(properties, name->text))
            return refuse(m, WISP_ERROR_UNSUPPORTED, path,
                          "\"%.80s\" is required, but not among the properties", name->text);
    }
    return WISP_OK;
}

/* Writes the key of a member and the rule of its value. */
static wisp_status write_member(struct maker *m, const struct json *property, const char *path) {
    const char *end = property->raw_key + 1;
    for (; *end != '"'; end++)
        end += *end == '\\';
    TRY(write_literal(m, property->raw_key, (size_t)(end + 1 - property->raw_key)));
    TRY(write_text(m, "\":\" ws "));
    return write_below(m, property, path, property->key);
}

/* Writes the rule of an object of schema `index`. Two kinds of further rules match its members from
 * i on: s<index>-f<i> where no member came before them, s<index>-m<i> where some did. */
static wisp_status write_object(struct maker *m, const struct json *schema, size_t index,
                                const char *path) {
    const struct json *properties = json_get(schema, "properties");
    const struct json *more = json_get(schema, "additionalProperties");
    TRY(check_required(m, schema, path));
    if (properties && properties->type != JSON_OBJECT)
        return refuse(m, WISP_ERROR_FORMAT, path, "properties is no object");
    const bool none_more = more && more->type == JSON_FALSE;
    if (!properties || properties->count == 0) {
        if (none_more)
            return write_text(m, "\"{\" ws \"}\"\n");
        if (!more || more->type == JSON_TRUE)
            return write_text(m, "object\n");
        TRY(write_number(m, "\"{\" ws (s", index, "-a (ws \",\" ws s"));
        TRY(write_number(m, "", index, "-a)* ws)? \"}\"\n"));
        TRY(write_number(m, "s", index, "-a ::= string \":\" ws "));
        TRY(write_below(m, more, path, "additionalProperties"));
        return write_text(m, "\n");
    }
    if (more && !none_more)
        return refuse(m, WISP_ERROR_UNSUPPORTED, path,
                      "additionalProperties beside properties can only be false");
    char below[PATH_BYTES];
    snprintf(below, sizeof below, "%.*s/properties", PATH_BYTES - 20, path);
    TRY(write_number(m, "\"{\" ws s", index, "-f0 \"}\"\n"));
    size_t i = 0;
    for (const struct json *p = properties->first; p; p = p->next, i++) {
        char name[40], rest[60], skip_first[64] = "", skip_more[64] = "";
        snprintf(name, sizeof name, "s%zu", index);
        snprintf(rest, sizeof rest, "%s-m%zu", name, i + 1);
        if (!is_required(schema, p)) {
            snprintf(skip_first, sizeof skip_first, "| %s-f%zu", name, i + 1);
            snprintf(skip_more, sizeof skip_more, "| %s", rest);
        }
        TRY(write_text(m, name));
        TRY(write_number(m, "-f", i, " ::= "));
        TRY(write_member(m, p, below));
        TRY(write_text(m, rest));
        TRY(write_text(m, skip_first));
        TRY(write_text(m, "\n"));
        TRY(write_text(m, name));
        TRY(write_number(m, "-m", i, " ::= ws \",\" ws "));
        TRY(write_member(m, p, below));
        TRY(write_text(m, rest));
        TRY(write_text(m, skip_more));
        TRY(write_text(m, "\n"));
    }
    TRY(write_number(m, "s", index, "-f"));
    TRY(write_number(m, "", i, " ::= \"\"\ns"));
    TRY(write_number(m, "", index, "-m"));
    return write_number(m, "", i, " ::= ws\n");
}

/* ---- other types ---------------------------------------------------------------------------- */

static wisp_status write_array(struct maker *m, const struct json *schema, size_t index,
                               const char *path) {
    const struct json *items = json_get(schema, "items");
    size_t least = 0, most = SIZE_MAX;
    TRY(read_count(m, schema, "minItems", path, &least));
    TRY(read_count(m, schema, "maxItems", path, &most));
    if (most < least)
        return refuse(m, WISP_ERROR_FORMAT, path, "maxItems is less than minItems");
    if (most == 0)
        return write_text(m, "\"[\" ws \"]\"\n");
    TRY(write_number(m, least == 0 ? "\"[\" ws (s" : "\"[\" ws s", index, "-i (ws \",\" ws s"));
    TRY(write_number(m, "", index, "-i)"));
    TRY(write_number(m, "{", least > 0 ? least - 1 : 0, ","));
    if (most != SIZE_MAX)
        TRY(write_number(m, "", most - 1, ""));
    TRY(write_text(m, least == 0 ? "} ws)? \"]\"\n" : "} ws \"]\"\n"));
    TRY(write_number(m, "s", index, "-i ::= "));
    TRY(items ? write_below(m, items, path, "items") : write_text(m, "value"));
    return write_text(m, "\n");
}

static wisp_status write_string(struct maker *m, const struct json *schema, const char *path) {
    size_t least = 0, most = SIZE_MAX;
    TRY(read_count(m, schema, "minLength", path, &least));
    TRY(read_count(m, schema, "maxLength", path, &most));
    if (most < least)
        return refuse(m, WISP_ERROR_FORMAT, path, "maxLength is less than minLength");
    TRY(write_number(m, "\"\\\"\" char{", least, ","));
    if (most != SIZE_MAX)
        TRY(write_number(m, "", most, ""));
    return write_text(m, "} \"\\\"\"\n");
}

static bool is_of_type(const struct json *value, int type) {
    double number;
    switch (type) {
    case OBJECT:
        return value->type == JSON_OBJECT;
    case ARRAY:
        return value->type == JSON_ARRAY;
    case STRING:
        return value->type == JSON_STRING;
    case NUMBER:
        return value->type == JSON_NUMBER;
    case INTEGER:
        return json_to_double(value, &number) && number >= -9e15 && number <= 9e15 &&
               number == (double)(int64_t)number;
    case BOOLEAN:
        return value->type == JSON_TRUE || value->type == JSON_FALSE;
    default:
        return value->type == JSON_NULL;
    }
}

/* Writes those values of enum, or of const, that have one of the types. */
static wisp_status write_values(struct maker *m, const struct json *first, const struct json *end,
                                const bool of[TYPES], const char *path) {
    size_t n = 0;
    for (const struct json *value = first; value != end; value = value->next) {
        bool fits = false;
        for (int t = 0; t < TYPES; t++)
            fits = fits || (of[t] && is_of_type(value, t));
        if (!fits)
            continue;
        TRY(write_text(m, n++ ? "| " : "("));
        TRY(write_literal(m, value->raw, value->raw_length));
    }
    if (n == 0)
        return refuse(m, WISP_ERROR_FORMAT, path, "no value is valid");
    return write_text(m, ")\n");
}

/* ---- keywords ------------------------------------------------------------------------------- */

static wisp_status check_keywords(const struct maker *m, const struct json *schema,
                                  const char *path) {
    for (const struct json *member = schema->first; member; member = member->next) {
        bool known = false;
        for (size_t i = 0; i < sizeof annotations / sizeof *annotations; i++)
            known = known || strcmp(member->key, annotations[i]) == 0;
        for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
            known = known || strcmp(member->key, keywords[i].name) == 0;
        if (!known)
            return refuse(m, WISP_ERROR_UNSUPPORTED, path,
                          "no grammar is made of the keyword \"%.60s\"", member->key);
    }
    return WISP_OK;
}

static wisp_status read_type(const struct maker *m, const struct json *name, const char *path,
                             bool of[TYPES]) {
    for (int t = 0; t < TYPES; t++)
        if (json_equals(name, types[t])) {
            of[t] = true;
            return WISP_OK;
        }
    return refuse(m, WISP_ERROR_FORMAT, path, "an unknown type");
}

/* Finds the types that a schema allows: those it names, else those that its keywords are about,
 * else all. */
static wisp_status read_types(const struct maker *m, const struct json *schema, const char *path,
                              bool of[TYPES]) {
    const struct json *type = json_get(schema, "type");
    bool any = false;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords && !type; i++)
        if (keywords[i].type < TYPES && json_get(schema, keywords[i].name))
            any = of[keywords[i].type] = true;
    if (type && type->type == JSON_ARRAY) {
        for (const struct json *name = type->first; name; name = name->next)
            TRY(read_type(m, name, path, of));
        return type->first ? WISP_OK : refuse(m, WISP_ERROR_FORMAT, path, "type has no value");
    }
    if (type)
        return read_type(m, type, path, of);
    for (int t = 0; t < TYPES && !any; t++)
        of[t] = true;
    return WISP_OK;
}

/* Finds what "#", "#/$defs/NAME" and other pointers within the schema refer to. */
static wisp_status find_reference(const struct maker *m, const struct json *reference,
                                  const char *path, const struct json **found) {
    if (reference->type != JSON_STRING || reference->text[0] != '#')
        return refuse(m, WISP_ERROR_UNSUPPORTED, path,
                      "$ref is not to a place in this schema (#/...)");
    const struct json *at = m->root;
    for (const char *c = reference->text + 1; *c;) {
        char key[256];
        size_t n = 0;
        if (*c++ != '/')
            return refuse(m, WISP_ERROR_UNSUPPORTED, path, "$ref is no pointer (#/...)");
        for (; *c && *c != '/' && n + 1 < sizeof key; c++) {
            key[n] = *c;
            if (*c == '~' && (c[1] == '0' || c[1] == '1'))
                key[n] = *++c == '0' ? '~' : '/';
            n++;
        }
        key[n] = '\0';
        at = json_get(at, key);
        if (!at)
            return refuse(m, WISP_ERROR_FORMAT, path, "$ref: the schema has no \"%.100s\"",
                          reference->text);
    }
    *found = at;
    return WISP_OK;
}

/* Writes the rule of one schema. */
static wisp_status write_rule(struct maker *m, const struct json *schema, size_t index,
                              const char *path) {
    static const char *const simple[TYPES] = {
        [NUMBER] = "number", [INTEGER] = "integer", [BOOLEAN] = "boolean", [NOTHING] = "null"};
    TRY(write_number(m, "s", index, " ::= "));
    if (schema->type == JSON_TRUE)
        return write_text(m, "value\n");
    if (schema->type != JSON_OBJECT)
        return refuse(m, WISP_ERROR_FORMAT, path,
                      schema->type == JSON_FALSE ? "false: nothing is valid"
                                                 : "not a schema, which is an object or true");
    TRY(check_keywords(m, schema, path));
    const struct json *reference = json_get(schema, "$ref"), *any = json_get(schema, "anyOf");
    const struct json *values = json_get(schema, "enum"), *one = json_get(schema, "const");
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords && (reference || any); i++)
        if (json_get(schema, keywords[i].name) &&
            json_get(schema, keywords[i].name) != (reference ? reference : any))
            return refuse(m, WISP_ERROR_UNSUPPORTED, path, "%s beside %s", keywords[i].name,
                          reference ? "$ref" : "anyOf");
    if ((reference || any) && json_get(schema, "type"))
        return refuse(m, WISP_ERROR_UNSUPPORTED, path, "type beside %s",
                      reference ? "$ref" : "anyOf");
    if (reference) {
        const struct json *found = NULL;
        TRY(find_reference(m, reference, path, &found));
        TRY(write_schema(m, found, reference->text));
        return write_text(m, "\n");
    }
    if (any) {
        size_t i = 0;
        if (any->type != JSON_ARRAY || !any->first)
            return refuse(m, WISP_ERROR_FORMAT, path, "anyOf is no array of schemas");
        for (const struct json *option = any->first; option; option = option->next, i++) {
            char key[40];
            snprintf(key, sizeof key, "anyOf/%zu", i);
            TRY(write_text(m, i ? "| " : ""));
            TRY(write_below(m, option, path, key));
        }
        return write_text(m, "\n");
    }
    bool of[TYPES] = {false};
    TRY(read_types(m, schema, path, of));
    if (values && one)
        return refuse(m, WISP_ERROR_UNSUPPORTED, path, "const beside enum");
    if (values && values->type != JSON_ARRAY)
        return refuse(m, WISP_ERROR_FORMAT, path, "enum is no array");
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords && (values || one); i++)
        if (keywords[i].type < TYPES && json_get(schema, keywords[i].name))
            return refuse(m, WISP_ERROR_UNSUPPORTED, path, "%s beside %s", keywords[i].name,
                          values ? "enum" : "const");
    if (values)
        return write_values(m, values->first, NULL, of, path);
    if (one)
        return write_values(m, one, one->next, of, path);
    if (of[NUMBER])
        of[INTEGER] = false; /* integers are numbers */
    size_t n = 0;
    for (int t = 0; t < TYPES; t++)
        if (of[t]) {
            TRY(write_text(m, n++ ? "| " : ""));
            if (simple[t])
                TRY(write_text(m, simple[t]));
            else
                TRY(write_number(m, "s", index, t == OBJECT ? "-o" : t == ARRAY ? "-l" : "-t"));
            TRY(write_text(m, " "));
        }
    TRY(write_text(m, "\n"));
    if (of[OBJECT]) {
        TRY(write_number(m, "s", index, "-o ::= "));
        TRY(write_object(m, schema, index, path));
    }
    if (of[ARRAY]) {
        TRY(write_number(m, "s", index, "-l ::= "));
        TRY(write_array(m, schema, index, path));
    }
    if (of[STRING]) {
        TRY(write_number(m, "s", index, "-t ::= "));
        TRY(write_string(m, schema, path));
    }
    return WISP_OK;
}

static wisp_status write_grammar(struct maker *m) {
    TRY(write_text(m, "root ::= "));
    TRY(write_schema(m, m->root, "#"));
    TRY(write_text(m, "\n"));
    for (; m->done < m->n; m->done++)
        TRY(write_rule(m, m->schemas[m->done].json, m->done, m->schemas[m->done].path));
    return write_text(m, basics);
}

wisp_status json_schema_to_gbnf(wisp_text schema, wisp_text *gbnf, wisp_error *error) {
    struct arena arena = {0};
    struct maker m = {.error = error};
    wisp_status status =
        json_parse(&arena, schema.bytes, schema.length, "json_schema", &m.root, error);
    if (status == WISP_OK)
        status = write_grammar(&m);
    for (size_t i = 0; i < m.n; i++)
        free(m.schemas[i].path);
    free(m.schemas);
    arena_release(&arena);
    if (status == WISP_OK)
        *gbnf = (wisp_text){m.text, m.length};
    else
        free(m.text);
    return status;
}
