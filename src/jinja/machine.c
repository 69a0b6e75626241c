/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "jinja/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja/lexer.h"

/* A template has no use for more, and ends in about a second at the worst. */
enum { MOST_BYTES = 256 << 20 };

void machine_fail(struct machine *m, wisp_status status, const char *format, ...) {
    char message[240];
    va_list arguments;
    if (m->status != WISP_OK)
        return;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    m->status = fail(m->error, status, m->file, JINJA_FIELD, "line %lu: %s", (unsigned long)m->line,
                     message);
}

void machine_fail_use(struct machine *m, struct value value, const char *use) {
    static const char *const names[] = {[JINJA_ABSENT] = "an absent value",
                                        [JINJA_NONE] = "none",
                                        [JINJA_FALSE] = "false",
                                        [JINJA_TRUE] = "true",
                                        [JINJA_INTEGER] = "an integer",
                                        [JINJA_REAL] = "a number",
                                        [JINJA_TEXT] = "a text",
                                        [JINJA_LIST] = "a list",
                                        [JINJA_TUPLE] = "a tuple",
                                        [JINJA_DICT] = "a dictionary",
                                        [JINJA_NAMESPACE] = "a namespace",
                                        [JINJA_LOOP] = "the loop",
                                        [JINJA_MACRO] = "a macro",
                                        [JINJA_FUNCTION] = "a function",
                                        [JINJA_METHOD] = "a method"};
    if (value.type == JINJA_UNDEFINED)
        machine_fail(m, WISP_ERROR_ARGUMENT, "'%.60s' is undefined, and %s",
                     value.as.name ? value.as.name : "a value", use);
    else
        machine_fail(m, WISP_ERROR_ARGUMENT, "%s: %s", names[value.type], use);
}

bool machine_spend(struct machine *m, size_t steps) {
    if (!machine_runs(m))
        return false;
    if (m->steps < steps) {
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "the template takes too many steps");
        return false;
    }
    m->steps -= steps;
    return true;
}

void *machine_take(struct machine *m, size_t count, size_t size) {
    if (!machine_runs(m))
        return NULL;
    if (count > MOST_BYTES / size || m->arena->total + count * size > MOST_BYTES) {
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "the template takes too much memory");
        return NULL;
    }
    void *taken = arena_allocate(m->arena, count * size);
    if (!taken)
        m->status = fail_memory(m->error, count * size);
    return taken;
}

/* ---- texts ---------------------------------------------------------------------------------- */

void put_characters(struct machine *m, struct builder *b, const uint32_t *text, size_t n) {
    if (n == 0 || !machine_spend(m, n / 16))
        return;
    if (n > b->capacity - b->n) {
        const size_t capacity = 2 * ((size_t)b->n + n) + 16;
        uint32_t *grown = machine_take(m, capacity, sizeof *grown);
        if (!grown)
            return;
        if (b->n > 0)
            memcpy(grown, b->text, b->n * sizeof *grown);
        b->text = grown;
        b->capacity = (uint32_t)capacity;
    }
    memcpy(b->text + b->n, text, n * sizeof *text);
    b->n += (uint32_t)n;
}

void put_character(struct machine *m, struct builder *b, uint32_t c) {
    put_characters(m, b, &c, 1);
}

void put_ascii(struct machine *m, struct builder *b, const char *text) {
    for (; *text; text++)
        put_character(m, b, (unsigned char)*text);
}

struct value machine_text(struct machine *m, const char *ascii) {
    struct builder b = {0};
    put_ascii(m, &b, ascii);
    return builder_text(&b);
}

/* ---- scopes --------------------------------------------------------------------------------- */

struct variable *scope_find(const struct scope *scope, const char *name) {
    struct variable *variable = scope->first;
    while (variable && strcmp(variable->name, name) != 0)
        variable = variable->next;
    return variable;
}

void scope_set(struct machine *m, struct scope *scope, const char *name, struct value value) {
    struct variable *variable = scope_find(scope, name);
    if (!variable) {
        variable = machine_take(m, 1, sizeof *variable);
        if (!variable)
            return;
        variable->next = scope->first;
        variable->name = name;
        scope->first = variable;
    }
    variable->value = value;
}

/* ---- calls ---------------------------------------------------------------------------------- */

const struct function *function_find(const struct function *table, const char *name) {
    for (; table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

const struct function *filter_find(const char *name) {
    const struct function *found = function_find(jinja_value_filters, name);
    return found ? found : function_find(jinja_list_filters, name);
}

/* Returns the place of a name among names with spaces between, or the number of these. */
static unsigned place_of(const char *names, const char *name, size_t length) {
    unsigned place = 0;
    while (*names) {
        const size_t n = strcspn(names, " ");
        if (name && n == length && memcmp(names, name, n) == 0)
            return place;
        names += n + (names[n] == ' ');
        place++;
    }
    return place;
}

/* Assigns arguments to the parameters of a function. */
static void bind(struct machine *m, const char *kind, const struct function *function,
                 const struct arguments *given, struct value *a) {
    const unsigned n = place_of(function->parameters, NULL, 0);
    for (uint32_t i = 0; i < given->n; i++) {
        const char *name = given->names[i];
        const unsigned place = name ? place_of(function->parameters, name, strlen(name)) : i;
        if (place >= n) {
            machine_fail(m, WISP_ERROR_UNSUPPORTED, "the %s '%s' with the argument %.40s", kind,
                         function->name, name ? name : "after its last");
            return;
        }
        a[place] = given->values[i];
    }
    for (unsigned i = 0; i < function->required; i++)
        if (a[i].type == JINJA_ABSENT)
            machine_fail(m, WISP_ERROR_ARGUMENT, "the %s '%s' lacks an argument", kind,
                         function->name);
}

struct value machine_call(struct machine *m, const char *kind, const struct function *function,
                          struct value subject, const struct arguments *arguments) {
    struct call call = {.subject = subject, .given = arguments};
    for (int i = 0; i < MAX_PARAMETERS; i++)
        call.a[i].type = JINJA_ABSENT;
    if (function->parameters)
        bind(m, kind, function, arguments, call.a);
    if (!machine_runs(m))
        return value_undefined(NULL);
    return function->run(m, &call);
}
