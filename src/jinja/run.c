/* SPDX-License-Identifier: Apache-2.0
 * Runs parsed templates.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "jinja/jinja.h"
#include "jinja/lexer.h"
#include "jinja/node.h"
#include "jinja/operators.h"
#include "jinja/print.h"

enum { MAX_DEPTH = 160, MAX_STEPS = 20000000 };

/* A macro, and the scope in which it was defined. */
struct macro {
    const struct node *node;
    struct scope *scope;
};

static struct value run_expression(struct machine *m, const struct node *node);
static void run_statements(struct machine *m, const struct node *node);

static bool enter(struct machine *m, const struct node *node) {
    m->line = node->line;
    if (m->depth >= MAX_DEPTH)
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "the template nests too deeply");
    return machine_spend(m, 1);
}

/* ---- names ---------------------------------------------------------------------------------- */

static struct value find_name(struct machine *m, const char *name) {
    const struct function *function = function_find(jinja_functions, name);
    for (const struct scope *scope = m->scope; scope && machine_spend(m, 1);
         scope = scope->parent) {
        struct variable *variable = scope_find(scope, name);
        if (variable) {
            variable->was_read = true;
            return variable->value;
        }
    }
    if (!function || (strcmp(name, "strftime_now") == 0 && !m->date.is_given))
        return value_undefined(name);
    return (struct value){.type = JINJA_FUNCTION, .as.function = function};
}

/* Begins a scope within the current one, and returns this one for end_scope. */
static struct scope *begin_scope(struct machine *m, struct scope *parent) {
    struct scope *outer = m->scope, *scope = machine_take(m, 1, sizeof *scope);
    if (scope) {
        scope->parent = parent;
        m->scope = scope;
    }
    return outer;
}

static void assign(struct machine *m, const struct node *target, struct value value) {
    uint32_t n;
    if (target->kind == NODE_NAME) {
        scope_set(m, m->scope, target->name, value);
    } else if (target->kind == NODE_ATTRIBUTE) {
        const struct value space = run_expression(m, target->a);
        if (space.type == JINJA_NAMESPACE)
            scope_set(m, space.as.scope, target->name, value);
        else
            machine_fail_use(m, space, "only attributes of a namespace are set");
    } else {
        const struct value *items = value_items(m, value, &n);
        if (machine_runs(m) && n != target->count)
            machine_fail(m, WISP_ERROR_ARGUMENT, "%lu values for %lu names", (unsigned long)n,
                         (unsigned long)target->count);
        if (machine_runs(m))
            for (const struct node *each = target->a; each; each = each->next)
                assign(m, each, *items++);
    }
}

/* ---- calls ---------------------------------------------------------------------------------- */

static struct arguments run_arguments(struct machine *m, const struct node *first, uint32_t n) {
    struct value *values = machine_take(m, n, sizeof *values);
    const char **names = machine_take(m, n, sizeof *names);
    if (!names)
        return (struct arguments){0};
    uint32_t i = 0;
    for (const struct node *each = first; each; each = each->next, i++) {
        values[i] = run_expression(m, each->a);
        names[i] = each->name;
    }
    return (struct arguments){values, names, n};
}

/* Returns the argument of a macro's parameter, or JINJA_ABSENT. */
static struct value argument_of(const struct arguments *arguments, const char *name, uint32_t at) {
    for (uint32_t i = 0; i < arguments->n; i++)
        if (arguments->names[i] ? strcmp(arguments->names[i], name) == 0 : i == at)
            return arguments->values[i];
    return (struct value){.type = JINJA_ABSENT};
}

/* Fails if a macro has no parameter for an argument. */
static void check_arguments(struct machine *m, const struct node *macro,
                            const struct arguments *arguments) {
    for (uint32_t i = 0; i < arguments->n; i++) {
        const char *name = arguments->names[i];
        const struct node *parameter = macro->a;
        while (parameter && name && strcmp(parameter->name, name) != 0)
            parameter = parameter->next;
        if (name ? !parameter && strcmp(name, "caller") != 0 : i >= macro->count)
            machine_fail(m, WISP_ERROR_ARGUMENT, "the macro '%.40s' with the argument %.40s",
                         macro->name, name ? name : "after its last");
    }
}

static struct value run_macro(struct machine *m, const struct macro *macro,
                              const struct arguments *arguments) {
    const struct node *node = macro->node;
    struct builder text = {0}, *out = m->out;
    const enum flow flow = m->flow;
    uint32_t at = 0;
    check_arguments(m, node, arguments);
    struct scope *outer = begin_scope(m, macro->scope);
    for (const struct node *each = node->a; each && machine_runs(m); each = each->next) {
        struct value value = argument_of(arguments, each->name, at++);
        if (value.type == JINJA_ABSENT)
            value = each->a ? run_expression(m, each->a) : value_undefined(each->name);
        scope_set(m, m->scope, each->name, value);
    }
    const struct value caller = argument_of(arguments, "caller", UINT32_MAX);
    if (caller.type != JINJA_ABSENT)
        scope_set(m, m->scope, "caller", caller);
    m->out = &text;
    run_statements(m, node->c);
    m->out = out;
    m->flow = flow;
    m->scope = outer;
    return builder_text(&text);
}

/* Calls what a template calls. */
static struct value machine_call_value(struct machine *m, struct value callee,
                                       const struct arguments *arguments) {
    switch (callee.type) {
    case JINJA_MACRO:
        return run_macro(m, callee.as.macro, arguments);
    case JINJA_FUNCTION:
        return machine_call(m, "function", callee.as.function, value_undefined(NULL), arguments);
    case JINJA_METHOD:
        return machine_call(m, "method", callee.as.method->function, callee.as.method->subject,
                            arguments);
    default:
        machine_fail_use(m, callee, "it is called");
        return value_undefined(NULL);
    }
}

static struct value run_call(struct machine *m, const struct node *node) {
    const struct value callee = run_expression(m, node->a);
    const struct arguments arguments = run_arguments(m, node->b, node->count);
    m->line = node->line;
    if (!machine_runs(m))
        return value_undefined(NULL);
    return machine_call_value(m, callee, &arguments);
}

/* Runs a filter or a test. `subject` is what a block has written if the node has no subject. */
static struct value run_named(struct machine *m, const struct node *node, struct value subject) {
    const bool tests = node->kind == NODE_TEST;
    const char *kind = tests ? "test" : "filter";
    const struct function *function =
        tests ? function_find(jinja_tests, node->name) : filter_find(node->name);
    if (node->a)
        subject = node->a->kind == NODE_FILTER && !tests ? run_named(m, node->a, subject)
                                                         : run_expression(m, node->a);
    const struct arguments arguments = run_arguments(m, node->b, node->count);
    m->line = node->line;
    if (!function)
        machine_fail(m, WISP_ERROR_UNSUPPORTED, "the %s '%.40s'", kind, node->name);
    if (!machine_runs(m))
        return value_undefined(NULL);
    return machine_call(m, kind, function, subject, &arguments);
}

/* ---- expressions ---------------------------------------------------------------------------- */

static struct value run_list(struct machine *m, const struct node *node) {
    struct value *items = machine_take(m, node->count, sizeof *items);
    uint32_t n = 0;
    for (const struct node *each = node->a; each && items; each = each->next)
        items[n++] = run_expression(m, each);
    return (struct value){
        .type = node->kind == NODE_LIST ? JINJA_LIST : JINJA_TUPLE, .n = n, .as.items = items};
}

static struct value run_dict(struct machine *m, const struct node *node) {
    struct entry *entries = machine_take(m, node->count / 2, sizeof *entries);
    uint32_t n = 0;
    for (const struct node *each = node->a; each && entries; each = each->next->next) {
        const struct value key = run_expression(m, each);
        uint32_t at = 0;
        while (at < n && !value_equal(m, entries[at].key, key))
            at++;
        if (at == n)
            entries[n++].key = key;
        entries[at].value = run_expression(m, each->next);
    }
    return (struct value){.type = JINJA_DICT, .n = n, .as.entries = entries};
}

static struct value run_slice(struct machine *m, const struct node *node) {
    const struct value subject = run_expression(m, node->a);
    const struct value absent = {.type = JINJA_ABSENT};
    struct value parts[3];
    const struct node *part = node->b;
    for (int i = 0; i < 3; i++, part = part->next)
        parts[i] = part->kind == NODE_NOTHING ? absent : run_expression(m, part);
    return machine_runs(m) ? value_slice(m, subject, parts) : value_undefined(NULL);
}

/* Runs what has two operands, both of which are needed. */
static struct value run_operands(struct machine *m, const struct node *node) {
    const struct value a = run_expression(m, node->a), b = run_expression(m, node->b);
    m->line = node->line;
    if (!machine_runs(m))
        return value_undefined(NULL);
    return node->kind == NODE_ITEM ? value_item(m, a, b) : value_operate(m, node->operation, a, b);
}

/* Runs what has one operand. */
static struct value run_operand(struct machine *m, const struct node *node) {
    const struct value a = run_expression(m, node->a);
    m->line = node->line;
    if (!machine_runs(m))
        return value_undefined(NULL);
    switch (node->kind) {
    case NODE_ATTRIBUTE:
        return value_attribute(m, a, node->name);
    case NODE_NOT:
        return value_boolean(!value_truth(a));
    case NODE_NEGATE:
        return value_negate(m, a);
    default:
        return value_operate(m, OPERATION_ADD, value_integer(0), a);
    }
}

static struct value run_any(struct machine *m, const struct node *node) {
    struct value value;
    switch (node->kind) {
    case NODE_CONSTANT:
        return node->constant;
    case NODE_NAME:
        return find_name(m, node->name);
    case NODE_LIST:
    case NODE_TUPLE:
        return run_list(m, node);
    case NODE_DICT:
        return run_dict(m, node);
    case NODE_AND:
    case NODE_OR:
        value = run_expression(m, node->a);
        return value_truth(value) == (node->kind == NODE_OR) ? value : run_expression(m, node->b);
    case NODE_CHOICE:
        if (value_truth(run_expression(m, node->b)))
            return run_expression(m, node->a);
        return node->c ? run_expression(m, node->c) : value_undefined("a choice without else");
    case NODE_OPERATION:
    case NODE_ITEM:
        return run_operands(m, node);
    case NODE_SLICE:
        return run_slice(m, node);
    case NODE_CALL:
        return run_call(m, node);
    case NODE_FILTER:
    case NODE_TEST:
        return run_named(m, node, value_undefined(NULL));
    default:
        return run_operand(m, node);
    }
}

static struct value run_expression(struct machine *m, const struct node *node) {
    if (!enter(m, node))
        return value_undefined(NULL);
    m->depth++;
    const struct value value = run_any(m, node);
    m->depth--;
    return value;
}

/* ---- statements ----------------------------------------------------------------------------- */

static void run_if(struct machine *m, const struct node *node) {
    while (machine_runs(m)) {
        const struct node *other = node->c;
        if (value_truth(run_expression(m, node->a))) {
            run_statements(m, node->b);
            return;
        }
        if (!other || other->kind != NODE_IF || other->next) {
            run_statements(m, other);
            return;
        }
        node = other; /* elif, or else with nothing but an if */
    }
}

/* Returns the items of a loop for which its condition holds. */
static const struct value *items_of_loop(struct machine *m, const struct node *node, uint32_t *n) {
    const struct value *items = value_items(m, run_expression(m, node->b), n);
    uint32_t count = 0;
    if (!node->e)
        return items;
    struct value *kept = machine_take(m, *n, sizeof *kept);
    for (uint32_t i = 0; kept && i < *n && machine_runs(m); i++) {
        struct scope *outer = begin_scope(m, m->scope);
        assign(m, node->a, items[i]);
        if (value_truth(run_expression(m, node->e)))
            kept[count++] = items[i];
        m->scope = outer;
    }
    *n = count;
    return kept;
}

static unsigned loop_depth(const struct scope *scope) {
    for (; scope; scope = scope->parent) {
        const struct variable *loop = scope_find(scope, "loop");
        if (loop && loop->value.type == JINJA_LOOP)
            return loop->value.as.loop->depth + 1;
    }
    return 0;
}

static void run_for(struct machine *m, const struct node *node) {
    struct loop *loop = machine_take(m, 1, sizeof *loop);
    uint32_t n;
    const struct value *items = items_of_loop(m, node, &n);
    if (!loop || !machine_runs(m))
        return;
    *loop = (struct loop){.items = items, .n = n, .depth = loop_depth(m->scope)};
    for (; loop->index < n && machine_spend(m, 1) && m->flow != FLOW_BREAK; loop->index++) {
        struct scope *outer = begin_scope(m, m->scope);
        m->flow = FLOW_NONE;
        scope_set(m, m->scope, "loop", (struct value){.type = JINJA_LOOP, .as.loop = loop});
        assign(m, node->a, items[loop->index]);
        run_statements(m, node->c);
        m->scope = outer;
    }
    m->flow = FLOW_NONE;
    if (n == 0 && node->d) {
        struct scope *outer = begin_scope(m, m->scope);
        run_statements(m, node->d);
        m->scope = outer;
    }
}

/* Returns what statements write, in a scope of their own. */
static struct value run_block(struct machine *m, const struct node *first) {
    struct builder text = {0}, *out = m->out;
    struct scope *outer = begin_scope(m, m->scope);
    m->out = &text;
    run_statements(m, first);
    m->out = out;
    m->scope = outer;
    return builder_text(&text);
}

static struct value make_macro(struct machine *m, const struct node *node) {
    struct macro *macro = machine_take(m, 1, sizeof *macro);
    if (!macro)
        return value_undefined(NULL);
    *macro = (struct macro){node, m->scope};
    return (struct value){.type = JINJA_MACRO, .as.macro = macro};
}

/* Calls a macro that may call the block. */
static void run_call_block(struct machine *m, const struct node *node) {
    const struct node *call = node->b;
    const struct value callee = run_expression(m, call->a);
    const struct arguments given = run_arguments(m, call->b, call->count);
    const struct value caller = make_macro(m, node->a);
    struct value *values = machine_take(m, (size_t)given.n + 1, sizeof *values);
    const char **names = machine_take(m, (size_t)given.n + 1, sizeof *names);
    if (!names)
        return;
    for (uint32_t i = 0; i < given.n; i++) {
        values[i] = given.values[i];
        names[i] = given.names[i];
    }
    values[given.n] = caller;
    names[given.n] = "caller";
    put_value(m, m->out,
              machine_call_value(m, callee, &(struct arguments){values, names, given.n + 1}));
}

static void run_with(struct machine *m, const struct node *node) {
    struct scope *outer = begin_scope(m, m->scope), *inner = m->scope;
    for (const struct node *each = node->b; each && machine_runs(m); each = each->next) {
        m->scope = outer;
        const struct value value = run_expression(m, each->b);
        m->scope = inner;
        assign(m, each->a, value);
    }
    run_statements(m, node->c);
    m->scope = outer;
}

static void run_statement(struct machine *m, const struct node *node) {
    switch (node->kind) {
    case NODE_TEXT:
        put_characters(m, m->out, node->constant.as.text, node->constant.n);
        return;
    case NODE_PRINT:
        put_value(m, m->out, run_expression(m, node->a));
        return;
    case NODE_IF:
        run_if(m, node);
        return;
    case NODE_FOR:
        run_for(m, node);
        return;
    case NODE_SET:
        assign(m, node->a, run_expression(m, node->b));
        return;
    case NODE_SET_BLOCK: {
        const struct value text = run_block(m, node->c);
        assign(m, node->a, node->b ? run_named(m, node->b, text) : text);
        return;
    }
    case NODE_FILTERED:
        put_value(m, m->out, run_named(m, node->b, run_block(m, node->c)));
        return;
    case NODE_MACRO:
        scope_set(m, m->scope, node->name, make_macro(m, node));
        return;
    case NODE_CALL_BLOCK:
        run_call_block(m, node);
        return;
    case NODE_WITH:
        run_with(m, node);
        return;
    default:
        m->flow = node->kind == NODE_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        if (loop_depth(m->scope) == 0)
            machine_fail(m, WISP_ERROR_UNSUPPORTED, "break or continue outside a loop");
    }
}

/* Runs a list of statements until something ends it. */
static void run_statements(struct machine *m, const struct node *node) {
    m->depth++;
    for (; node && m->flow == FLOW_NONE && enter(m, node); node = node->next)
        run_statement(m, node);
    m->depth--;
}

wisp_status jinja_run(struct arena *arena, const struct jinja_call *call, struct value *text,
                      wisp_error *error) {
    struct scope given = {0}, globals = {.parent = &given};
    struct builder out = {0};
    struct machine m = {.arena = arena,
                        .file = call->file,
                        .scope = &globals,
                        .out = &out,
                        .steps = MAX_STEPS,
                        .error = error};
    const struct node *root;
    if (call->date && !date_parse(call->date, &m.date))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "date",
                    "\"%.40s\" is not a date such as 2026-11-26 or 2026-11-26T05:47:20",
                    call->date);
    TRY(node_parse(arena, call->source, call->file, &root, error));
    for (size_t i = 0; i < call->n; i++)
        scope_set(&m, &given, call->variables[i].name, call->variables[i].value);
    run_statements(&m, root);
    for (size_t i = 0; i < call->n && machine_runs(&m); i++)
        call->variables[i].was_read = scope_find(&given, call->variables[i].name)->was_read;
    *text = builder_text(&out);
    return m.status;
}
