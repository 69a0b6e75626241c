/* SPDX-License-Identifier: Apache-2.0
 * Parses statements. Source of the grammar: the documentation of Jinja 3.1.
 * Compiled for size in WebAssembly. */
#include "jinja/parser.h"

#include <string.h>

static wisp_status parse_statements(struct parser *p, const char *const *ends, struct node **first);

/* Takes the end of a tag. */
static wisp_status end_tag(struct parser *p) {
    if (p->lexer.token.kind != LEX_BLOCK_END)
        return parser_fail_token(p, "%}");
    return lexer_next(&p->lexer);
}

/* Takes the end of a tag and the statements up to a tag that one of `ends` begins, whose name
 * becomes the current token. */
static wisp_status parse_body(struct parser *p, const char *const *ends, struct node **first) {
    TRY(end_tag(p));
    return parse_statements(p, ends, first);
}

/* Likewise, if there is one end, which is taken. */
static wisp_status parse_whole_body(struct parser *p, const char *end, struct node **first) {
    const char *const ends[] = {end, NULL};
    TRY(parse_body(p, ends, first));
    return lexer_next(&p->lexer);
}

static wisp_status parse_if(struct parser *p, struct node *node) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    for (bool taken = true; taken;) {
        TRY(parse_tuple(p, false, &node->a));
        TRY(parse_body(p, ends, &node->b));
        TRY(parser_take_name(p, "elif", &taken));
        if (!taken)
            break;
        TRY(parser_node(p, NODE_IF, &node->c));
        node = node->c;
    }
    if (parser_at_name(p, "endif"))
        return lexer_next(&p->lexer);
    TRY(lexer_next(&p->lexer));
    return parse_whole_body(p, "endif", &node->c);
}

static wisp_status parse_for(struct parser *p, struct node *node) {
    static const char *const ends[] = {"else", "endfor", NULL};
    bool taken;
    TRY(parse_target(p, &node->a));
    TRY(parser_take_name(p, "in", &taken));
    if (!taken)
        return parser_fail_token(p, "in");
    TRY(parse_tuple(p, false, &node->b));
    TRY(parser_take_name(p, "if", &taken));
    if (taken)
        TRY(parse_expression(p, &node->e));
    if (parser_at_name(p, "recursive"))
        return lexer_fail(&p->lexer, node->line, "a recursive loop");
    TRY(parse_body(p, ends, &node->c));
    TRY(parser_take_name(p, "else", &taken));
    return taken ? parse_whole_body(p, "endfor", &node->d) : lexer_next(&p->lexer);
}

static wisp_status parse_set(struct parser *p, struct node *node) {
    bool taken;
    TRY(parse_target(p, &node->a));
    TRY(parser_take(p, "=", &taken));
    if (taken)
        return parse_tuple(p, true, &node->b);
    node->kind = NODE_SET_BLOCK;
    TRY(parser_take(p, "|", &taken));
    if (taken)
        TRY(parse_filters(p, &node->b));
    return parse_whole_body(p, "endset", &node->c);
}

/* Parses (name, name=default) of a macro. */
static wisp_status parse_parameters(struct parser *p, struct node *macro) {
    TRY(parse_arguments(p, &macro->a, &macro->count));
    for (struct node *each = macro->a; each; each = each->next) {
        if (each->name)
            continue;
        if (each->a->kind != NODE_NAME)
            return lexer_fail(&p->lexer, macro->line, "a macro's parameter is not a name");
        each->name = each->a->name;
        each->a = NULL;
    }
    return WISP_OK;
}

static wisp_status parse_macro(struct parser *p, struct node *node) {
    TRY(parser_name(p, &node->name));
    TRY(parse_parameters(p, node));
    return parse_whole_body(p, "endmacro", &node->c);
}

static wisp_status parse_call_block(struct parser *p, struct node *node) {
    TRY(parser_node(p, NODE_MACRO, &node->a));
    node->a->name = lexer_name(&p->lexer, "caller", 6);
    if (!node->a->name)
        return fail_memory(p->lexer.error, 6);
    if (parser_at(p, "("))
        TRY(parse_parameters(p, node->a));
    TRY(parse_expression(p, &node->b));
    if (node->b->kind != NODE_CALL)
        return lexer_fail(&p->lexer, node->line, "call without a call");
    return parse_whole_body(p, "endcall", &node->a->c);
}

static wisp_status parse_filter_block(struct parser *p, struct node *node) {
    TRY(parse_filters(p, &node->b));
    return parse_whole_body(p, "endfilter", &node->c);
}

static wisp_status parse_with(struct parser *p, struct node *node) {
    struct node_list settings = {0};
    for (bool taken = p->lexer.token.kind != LEX_BLOCK_END; taken;) {
        struct node *set;
        TRY(parser_node(p, NODE_SET, &set));
        TRY(parse_target(p, &set->a));
        TRY(parser_expect(p, "="));
        TRY(parse_expression(p, &set->b));
        node_list_add(&settings, set);
        TRY(parser_take(p, ",", &taken));
    }
    node->b = settings.first;
    return parse_whole_body(p, "endwith", &node->c);
}

/* {% generation %}: transformers' mark for the model's own text. */
static wisp_status parse_generation(struct parser *p, struct node *node) {
    return parse_whole_body(p, "endgeneration", &node->c);
}

static wisp_status parse_nothing(struct parser *p, struct node *node) {
    (void)p;
    (void)node;
    return WISP_OK;
}

static const struct {
    const char *name;
    enum node_kind kind;
    wisp_status (*parse)(struct parser *p, struct node *node);
} statements[] = {
    {"if", NODE_IF, parse_if},
    {"for", NODE_FOR, parse_for},
    {"set", NODE_SET, parse_set},
    {"macro", NODE_MACRO, parse_macro},
    {"call", NODE_CALL_BLOCK, parse_call_block},
    {"filter", NODE_FILTERED, parse_filter_block},
    {"with", NODE_WITH, parse_with},
    {"generation", NODE_WITH, parse_generation},
    {"break", NODE_BREAK, parse_nothing},
    {"continue", NODE_CONTINUE, parse_nothing},
};

/* Parses the tag whose name is the current token, up to its end. */
static wisp_status parse_statement(struct parser *p, struct node **node) {
    const char *name;
    const uint32_t line = p->lexer.token.line;
    TRY(parser_node(p, NODE_TEXT, node));
    TRY(parser_name(p, &name));
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (strcmp(statements[i].name, name) == 0) {
            (*node)->kind = statements[i].kind;
            TRY(parser_enter(p));
            TRY(statements[i].parse(p, *node));
            p->depth--;
            return end_tag(p);
        }
    return lexer_fail(&p->lexer, line, "the tag '%.40s'", name);
}

static wisp_status parse_print(struct parser *p, struct node **node) {
    TRY(lexer_next(&p->lexer));
    TRY(parser_node(p, NODE_PRINT, node));
    TRY(parse_tuple(p, true, &(*node)->a));
    if (p->lexer.token.kind != LEX_VARIABLE_END)
        return parser_fail_token(p, "}}");
    return lexer_next(&p->lexer);
}

/* Parses statements up to a tag that one of `ends` (NULL: the end of the template) begins. */
static wisp_status parse_statements(struct parser *p, const char *const *ends,
                                    struct node **first) {
    struct node_list list = {0};
    struct node *node;
    for (;; node_list_add(&list, node)) {
        *first = list.first;
        switch (p->lexer.token.kind) {
        case LEX_DATA:
            TRY(parser_node(p, NODE_TEXT, &node));
            node->constant = p->lexer.token.value;
            TRY(lexer_next(&p->lexer));
            continue;
        case LEX_VARIABLE_BEGIN:
            TRY(parse_print(p, &node));
            continue;
        case LEX_BLOCK_BEGIN:
            TRY(lexer_next(&p->lexer));
            for (size_t i = 0; ends && ends[i]; i++)
                if (parser_at_name(p, ends[i]))
                    return WISP_OK;
            TRY(parse_statement(p, &node));
            continue;
        default:
            return ends ? parser_fail_token(p, ends[0]) : WISP_OK;
        }
    }
}

wisp_status node_parse(struct arena *arena, wisp_text source, const char *file,
                       const struct node **root, wisp_error *error) {
    struct parser p = {.lexer = {.arena = arena, .file = file, .error = error}};
    struct node *first;
    TRY(lexer_open(&p.lexer, source));
    TRY(parse_statements(&p, NULL, &first));
    *root = first;
    return WISP_OK;
}
