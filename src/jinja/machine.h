/* SPDX-License-Identifier: Apache-2.0
 * The machine that runs a template. After the first failure nothing has an effect, and loops end.
 */
#ifndef WISP_JINJA_MACHINE_H
#define WISP_JINJA_MACHINE_H

#include "jinja/date.h"
#include "jinja/value.h"

/* Variables that a template has set, the newest first; also those of a namespace. */
struct variable {
    struct variable *next;
    const char *name;
    struct value value;
    bool was_read;
};

struct scope {
    struct scope *parent; /* where other names are looked up; NULL: none */
    struct variable *first;
};

/* A statement that ends the body of a loop early. */
enum flow { FLOW_NONE, FLOW_BREAK, FLOW_CONTINUE };

/* A text that grows. It starts as zeros. */
struct builder {
    uint32_t *text;
    uint32_t n, capacity;
};

struct machine {
    struct arena *arena;
    const char *file;
    struct date date;
    struct scope *scope;
    struct builder *out;
    size_t steps; /* that are left */
    unsigned depth;
    uint32_t line; /* of what is being run */
    enum flow flow;
    wisp_status status;
    wisp_error *error;
};

/* Fails with the line, unless the machine has failed before. */
void machine_fail(struct machine *m, wisp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails because a value cannot be used as it is. */
void machine_fail_use(struct machine *m, struct value value, const char *use);

static inline bool machine_runs(const struct machine *m) {
    return m->status == WISP_OK;
}

/* Takes steps, which are limited. Returns false if the machine has failed. */
bool machine_spend(struct machine *m, size_t steps);

/* Returns zeroed memory for `count` items of `size` bytes, or NULL after a failure. */
void *machine_take(struct machine *m, size_t count, size_t size);

/* Append to a text. */
void put_character(struct machine *m, struct builder *b, uint32_t c);
void put_ascii(struct machine *m, struct builder *b, const char *text);
void put_characters(struct machine *m, struct builder *b, const uint32_t *text, size_t n);

static inline struct value builder_text(const struct builder *b) {
    return value_text(b->text, b->n);
}

/* Return an ASCII text of the template's, and a list of `n` items. */
struct value machine_text(struct machine *m, const char *ascii);
static inline struct value machine_list(const struct value *items, size_t n) {
    return (struct value){.type = JINJA_LIST, .n = (uint32_t)n, .as.items = items};
}

/* Sets a variable of a scope, and finds one of only that scope (NULL: none). */
void scope_set(struct machine *m, struct scope *scope, const char *name, struct value value);
struct variable *scope_find(const struct scope *scope, const char *name);

/* The arguments of a function, filter, test or method. values[i] is the value of the parameter
 * names[i], or of the i-th parameter if that is NULL. */
struct arguments {
    const struct value *values;
    const char *const *names;
    uint32_t n;
};

/* A loop that is under way. */
struct loop {
    const struct value *items; /* [n] */
    uint32_t n, index, depth;
};

struct value loop_attribute(const struct loop *loop, const char *name);

enum { MAX_PARAMETERS = 4 };

struct call {
    struct value subject;           /* what is filtered or tested, or whose method it is */
    struct value a[MAX_PARAMETERS]; /* by the parameters; JINJA_ABSENT if not given */
    const struct arguments *given;
};

struct function {
    const char *name;
    struct value (*run)(struct machine *m, const struct call *call);
    unsigned required;      /* parameters that must be given */
    const char *parameters; /* their names, with spaces between; NULL: any */
};

struct method {
    struct value subject;
    const struct function *function;
};

/* Calls a function. `kind` is what errors call it. */
struct value machine_call(struct machine *m, const char *kind, const struct function *function,
                          struct value subject, const struct arguments *arguments);

/* Returns the function of a name, or NULL. A table ends with a NULL. */
const struct function *function_find(const struct function *table, const char *name);

extern const struct function jinja_value_filters[], jinja_list_filters[], jinja_tests[],
    jinja_functions[], jinja_text_methods[], jinja_dict_methods[], jinja_loop_methods[];

/* Returns the filter of a name, or NULL. */
const struct function *filter_find(const char *name);

#endif
