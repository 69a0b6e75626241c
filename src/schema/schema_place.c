/* SPDX-License-Identifier: Apache-2.0
 * Paths of errors, and what references refer to.
 * Compiled for size in WebAssembly. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "schema/schema.h"

enum { PATH_BYTES = 260, MOST_URI = 512 };

/* A schema with an $id of its own. Those within it come before it in the list. */
struct schema_resource {
    const struct json *schema;
    char uri[MOST_URI];
    struct schema_resource *next;
};

/* ---- paths ---------------------------------------------------------------------------------- */

static bool is_within(const struct json *inner, const struct json *outer) {
    return inner->raw >= outer->raw && inner->raw < outer->raw + outer->raw_length;
}

static void write_path(const struct schema_compiler *c, const struct json *at, char *path) {
    size_t n = 1;
    path[0] = '#';
    path[1] = '\0';
    for (const struct json *outer = c->root; outer != at;) {
        const struct json *child = outer->first;
        uint32_t index = 0;
        while (child && !is_within(at, child)) {
            child = child->next;
            index++;
        }
        if (!child || n + 1 >= PATH_BYTES)
            return;
        const int written = outer->type == JSON_OBJECT
                                ? snprintf(path + n, PATH_BYTES - n, "/%.80s", child->key)
                                : snprintf(path + n, PATH_BYTES - n, "/%u", (unsigned)index);
        n += (size_t)written < PATH_BYTES - n ? (size_t)written : PATH_BYTES - n - 1;
        outer = child;
    }
}

wisp_status schema_refuse(const struct schema_compiler *c, wisp_status status,
                          const struct json *at, const char *format, ...) {
    char message[200], path[PATH_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    write_path(c, at, path);
    return fail(c->error, status, NULL, "json_schema", "%s: %s", path, message);
}

wisp_status schema_refuse_again(const struct schema_compiler *c, wisp_status status,
                                const struct json *at) {
    char message[200];
    if (status != WISP_ERROR_FORMAT && status != WISP_ERROR_UNSUPPORTED)
        return status;
    snprintf(message, sizeof message, "%.199s", c->error ? c->error->message : "");
    return schema_refuse(c, status, at, "%.*s: %s",
                         (int)(at->raw_length < 60 ? at->raw_length : 60), at->raw, message);
}

const struct json *schema_get(const struct schema_compiler *c, const struct json *schema,
                              const char *key) {
    static const struct {
        const char *key;
        unsigned draft;
    } since[] = {{"const", 6},
                 {"contains", 6},
                 {"propertyNames", 6},
                 {"if", 7},
                 {"minContains", 8},
                 {"maxContains", 8},
                 {"dependentRequired", 8},
                 {"dependentSchemas", 8},
                 {"unevaluatedItems", 8},
                 {"unevaluatedProperties", 8},
                 {"$recursiveRef", 8},
                 {"prefixItems", 9},
                 {"$dynamicRef", 9}};
    for (size_t i = 0; i < sizeof since / sizeof *since; i++)
        if (c->draft < since[i].draft && strcmp(key, since[i].key) == 0)
            return NULL;
    return json_get(schema, key);
}

wisp_status schema_count(struct schema_compiler *c, const struct json *schema, const char *key,
                         uint32_t *count, bool *has) {
    const struct json *value = schema_get(c, schema, key);
    double number;
    if (has)
        *has = value != NULL;
    if (!value)
        return WISP_OK;
    if (!json_to_double(value, &number) || number < 0 || number != (double)(uint64_t)number)
        return schema_refuse(c, WISP_ERROR_FORMAT, value, "not a whole number");
    *count = number < 4294967294.0 ? (uint32_t)number : UINT32_MAX - 1;
    return WISP_OK;
}

/* ---- URIs ----------------------------------------------------------------------------------- */

/* Returns the length of the part before #. */
static size_t before_fragment(const char *uri) {
    return strcspn(uri, "#");
}

/* Resolves a reference against the URI of the schema that has it (RFC 3986, without dot segments).
 * A longer one than MOST_URI is cut, and refers to nothing then. */
static void resolve_uri(const char *base, const char *reference, char *uri) {
    const size_t scheme = strcspn(reference, ":/?#");
    size_t keep = 0; /* bytes of the base that stay */
    if (reference[scheme] != ':' || scheme == 0) {
        const char *authority = strstr(base, "://");
        const size_t host =
            authority ? (size_t)(authority + 3 - base) + strcspn(authority + 3, "/?#") : 0;
        if (reference[0] == '/') {
            keep = host;
        } else if (reference[0] == '#' || reference[0] == '\0') {
            keep = before_fragment(base);
        } else {
            keep = before_fragment(base);
            while (keep > host && base[keep - 1] != '/')
                keep--;
        }
    }
    snprintf(uri, MOST_URI, "%.*s%s", (int)(keep < MOST_URI ? keep : MOST_URI - 1), base,
             reference);
    uri[before_fragment(uri)] = '\0';
}

static const struct json *id_of(const struct json *schema) {
    const struct json *id = json_get(schema, "$id");
    if (!id)
        id = json_get(schema, "id");
    return id && id->type == JSON_STRING ? id : NULL;
}

/* Finds the innermost resource that a value belongs to. */
static const struct schema_resource *resource_of(const struct schema_compiler *c,
                                                 const struct json *at) {
    const struct schema_resource *found = NULL;
    for (const struct schema_resource *r = c->resources; r; r = r->next)
        if (is_within(at, r->schema) && (!found || is_within(r->schema, found->schema)))
            found = r;
    return found;
}

static wisp_status add_resource(struct schema_compiler *c, const struct json *schema,
                                const char *base, const char *id) {
    struct schema_resource *resource;
    ARENA_TAKE(&c->arena, resource, 1, c->error);
    resource->schema = schema;
    resolve_uri(base, id, resource->uri);
    resource->next = c->resources;
    c->resources = resource;
    return WISP_OK;
}

/* Adds the resources below a value, whose own URI is `base`. */
static wisp_status add_resources(struct schema_compiler *c, const struct json *value,
                                 const char *base) {
    const struct json *id = value == c->root ? NULL : id_of(value);
    if (id && id->text[0] != '#') {
        TRY(add_resource(c, value, base, id->text));
        base = c->resources->uri;
    }
    for (const struct json *child = value->first; child; child = child->next)
        if (child->first)
            TRY(add_resources(c, child, base));
    return WISP_OK;
}

wisp_status schema_find_resources(struct schema_compiler *c) {
    const struct json *id = id_of(c->root), *draft = json_get(c->root, "$schema");
    const char *name = draft && draft->type == JSON_STRING ? strstr(draft->text, "draft-0") : NULL;
    const bool is_2019 = json_is(draft, JSON_STRING) && strstr(draft->text, "2019-09");
    c->draft = name && name[7] >= '3' && name[7] <= '7' ? (unsigned)(name[7] - '0')
               : is_2019                                ? 8
                                                        : 9;
    TRY(add_resource(c, c->root, "", id ? id->text : ""));
    return add_resources(c, c->root, c->resources->uri);
}

/* ---- references ----------------------------------------------------------------------------- */

static int hex_value(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Reads one part of a pointer, in which %XX, ~0 and ~1 stand for other characters. Returns false if
 * it is too long. */
static bool read_part(const char **at, char *part, size_t bytes) {
    size_t n = 0;
    for (; **at && **at != '/'; ++*at) {
        char byte = **at;
        if (byte == '%' && hex_value((*at)[1]) >= 0 && hex_value((*at)[2]) >= 0) {
            byte = (char)(hex_value((*at)[1]) * 16 + hex_value((*at)[2]));
            *at += 2;
        }
        if (n + 1 == bytes)
            return false;
        part[n++] = byte;
        if (n > 1 && part[n - 2] == '~' && (byte == '0' || byte == '1'))
            part[--n - 1] = byte == '0' ? '~' : '/';
    }
    part[n] = '\0';
    return true;
}

static const struct json *follow_pointer(const struct json *at, const char *pointer) {
    while (at && *pointer == '/') {
        char part[256], *end;
        pointer++;
        if (!read_part(&pointer, part, sizeof part))
            return NULL;
        if (at->type == JSON_OBJECT) {
            at = json_get(at, part);
            continue;
        }
        size_t index = 0;
        for (end = part; *end >= '0' && *end <= '9' && index < UINT32_MAX; end++)
            index = index * 10 + (size_t)(*end - '0');
        if (at->type != JSON_ARRAY || *end || end == part || (part[0] == '0' && part[1]))
            return NULL;
        for (at = at->first; at && index > 0; index--)
            at = at->next;
    }
    return *pointer ? NULL : at;
}

static bool has_anchor(const struct json *schema, const char *name) {
    const struct json *id = id_of(schema);
    return json_equals(json_get(schema, "$anchor"), name) ||
           json_equals(json_get(schema, "$dynamicAnchor"), name) ||
           (id && id->text[0] == '#' && strcmp(id->text + 1, name) == 0);
}

/* Finds the schema of an anchor in a resource, but not in those within it. */
static const struct json *find_anchor(const struct json *at, const char *name, bool is_resource) {
    const struct json *id = id_of(at);
    if (!is_resource && id && id->text[0] != '#')
        return NULL;
    if (has_anchor(at, name))
        return at;
    for (const struct json *child = at->first; child; child = child->next) {
        const struct json *found = child->first ? find_anchor(child, name, false) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

wisp_status schema_resolve(struct schema_compiler *c, const struct json *reference,
                           const struct json **found) {
    char uri[MOST_URI];
    if (reference->type != JSON_STRING)
        return schema_refuse(c, WISP_ERROR_FORMAT, reference, "not a string");
    const char *text = reference->text, *fragment = text + before_fragment(text);
    const struct schema_resource *resource = resource_of(c, reference);
    if (resource && fragment != text) {
        resolve_uri(resource->uri, text, uri);
        for (resource = c->resources; resource && strcmp(resource->uri, uri) != 0;)
            resource = resource->next;
    }
    if (!resource)
        return schema_refuse(c, WISP_ERROR_UNSUPPORTED, reference,
                             "\"%.100s\" is not in this document", text);
    fragment += *fragment == '#';
    if (*fragment && *fragment != '/') {
        *found = find_anchor(resource->schema, fragment, true);
    } else {
        *found = follow_pointer(resource->schema, fragment);
        if (!*found) /* many a schema has an id by mistake: pointers mean the document */
            *found = follow_pointer(c->root, fragment);
    }
    if (!*found)
        return schema_refuse(c, WISP_ERROR_FORMAT, reference, "the schema has no \"%.100s\"", text);
    return WISP_OK;
}
