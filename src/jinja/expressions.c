/* SPDX-License-Identifier: Apache-2.0
 * Parses expressions.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "jinja/parser.h"

enum { MAX_DEPTH = 48 };

wisp_status parser_node(struct parser *p, enum node_kind kind, struct node **node) {
    ARENA_TAKE(p->lexer.arena, *node, 1, p->lexer.error);
    (*node)->kind = kind;
    (*node)->line = p->lexer.token.line;
    return WISP_OK;
}

bool parser_at(const struct parser *p, const char *operator) {
    const struct token *token = &p->lexer.token;
    return token->kind == LEX_OPERATOR && strcmp(token->name, operator) == 0;
}

bool parser_at_name(const struct parser *p, const char *name) {
    const struct token *token = &p->lexer.token;
    return token->kind == LEX_NAME && strcmp(token->word, name) == 0;
}

wisp_status parser_take(struct parser *p, const char *operator, bool * taken) {
    *taken = parser_at(p, operator);
    return *taken ? lexer_next(&p->lexer) : WISP_OK;
}

wisp_status parser_take_name(struct parser *p, const char *name, bool *taken) {
    *taken = parser_at_name(p, name);
    return *taken ? lexer_next(&p->lexer) : WISP_OK;
}

wisp_status parser_fail_token(struct parser *p, const char *wanted) {
    static const char *const kinds[] = {
        "the end of the template", "text", "{{", "}}", "{%", "%}", NULL, "a text", NULL, NULL};
    const struct token *token = &p->lexer.token;
    const char *found = kinds[token->kind] ? kinds[token->kind]
                        : token->word      ? token->word
                                           : token->name;
    return lexer_fail(&p->lexer, token->line, "found '%.40s', expected %s", found, wanted);
}

wisp_status parser_expect(struct parser *p, const char *operator) {
    return parser_at(p, operator) ? lexer_next(&p->lexer) : parser_fail_token(p, operator);
}

wisp_status parser_name(struct parser *p, const char **name) {
    if (p->lexer.token.kind != LEX_NAME)
        return parser_fail_token(p, "a name");
    *name = p->lexer.token.word;
    return lexer_next(&p->lexer);
}

wisp_status parser_enter(struct parser *p) {
    if (p->depth++ == MAX_DEPTH)
        return lexer_fail(&p->lexer, p->lexer.token.line, "nested too deeply");
    return WISP_OK;
}

/* ---- operands ------------------------------------------------------------------------------- */

/* Parses expressions with commas between up to a closing bracket, which it takes. Sets *commas
 * if there is a comma. */
static wisp_status parse_items(struct parser *p, const char *closing, struct node *list,
                               bool *commas) {
    struct node_list items = {0};
    bool taken;
    TRY(parser_take(p, closing, &taken));
    while (!taken) {
        struct node *item;
        TRY(parse_expression(p, &item));
        node_list_add(&items, item);
        if (closing[0] == '}' && items.count % 2 == 1) {
            TRY(parser_expect(p, ":"));
            continue;
        }
        TRY(parser_take(p, ",", commas));
        if (!*commas && !parser_at(p, closing))
            return parser_fail_token(p, closing);
        *commas = *commas || items.count > 1;
        TRY(parser_take(p, closing, &taken));
    }
    list->a = items.first;
    list->count = items.count;
    return WISP_OK;
}

static wisp_status parse_brackets(struct parser *p, struct node **node) {
    const char opening = p->lexer.token.name[0];
    bool commas = false;
    TRY(parser_node(p, opening == '(' ? NODE_TUPLE : opening == '[' ? NODE_LIST : NODE_DICT, node));
    TRY(lexer_next(&p->lexer));
    TRY(parse_items(p, opening == '(' ? ")" : opening == '[' ? "]" : "}", *node, &commas));
    if (opening == '(' && (*node)->count == 1 && !commas)
        *node = (*node)->a;
    return WISP_OK;
}

static wisp_status parse_text(struct parser *p, struct node **node) {
    TRY(parser_node(p, NODE_CONSTANT, node));
    (*node)->constant = p->lexer.token.value;
    TRY(lexer_next(&p->lexer));
    while (p->lexer.token.kind == LEX_TEXT) { /* texts beside each other are one */
        const struct value first = (*node)->constant, second = p->lexer.token.value;
        uint32_t *text;
        ARENA_TAKE(p->lexer.arena, text, (size_t)first.n + second.n, p->lexer.error);
        if (first.n > 0)
            memcpy(text, first.as.text, first.n * sizeof *text);
        if (second.n > 0)
            memcpy(text + first.n, second.as.text, second.n * sizeof *text);
        (*node)->constant = value_text(text, first.n + second.n);
        TRY(lexer_next(&p->lexer));
    }
    return WISP_OK;
}

static wisp_status parse_word(struct parser *p, struct node **node) {
    static const struct {
        const char *name;
        enum jinja_type type;
    } constants[] = {{"true", JINJA_TRUE},   {"True", JINJA_TRUE}, {"false", JINJA_FALSE},
                     {"False", JINJA_FALSE}, {"none", JINJA_NONE}, {"None", JINJA_NONE}};
    static const char *const reserved[] = {"and", "or", "not", "if", "else", "elif", "in", "is"};
    TRY(parser_node(p, NODE_NAME, node));
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (parser_at_name(p, reserved[i]))
            return parser_fail_token(p, "a value");
    TRY(parser_name(p, &(*node)->name));
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (strcmp((*node)->name, constants[i].name) == 0) {
            (*node)->kind = NODE_CONSTANT;
            (*node)->constant = (struct value){.type = constants[i].type};
        }
    return WISP_OK;
}

static wisp_status parse_primary(struct parser *p, struct node **node) {
    const struct token *token = &p->lexer.token;
    switch (token->kind) {
    case LEX_NAME:
        return parse_word(p, node);
    case LEX_TEXT:
        return parse_text(p, node);
    case LEX_NUMBER:
        TRY(parser_node(p, NODE_CONSTANT, node));
        TRY(value_from_number(p->lexer.arena, wisp_text_of(token->word), &(*node)->constant,
                              p->lexer.error));
        return lexer_next(&p->lexer);
    default:
        if (parser_at(p, "(") || parser_at(p, "[") || parser_at(p, "{"))
            return parse_brackets(p, node);
        return parser_fail_token(p, "a value");
    }
}

/* ---- what follows an operand ---------------------------------------------------------------- */

wisp_status parse_arguments(struct parser *p, struct node **first, uint32_t *count) {
    struct node_list arguments = {0};
    bool taken;
    TRY(parser_expect(p, "("));
    TRY(parser_take(p, ")", &taken));
    while (!taken) {
        struct node *argument;
        if (parser_at(p, "*") || parser_at(p, "**"))
            return lexer_fail(&p->lexer, p->lexer.token.line, "arguments from a list (*)");
        TRY(parser_node(p, NODE_ARGUMENT, &argument));
        TRY(parse_expression(p, &argument->a));
        TRY(parser_take(p, "=", &taken));
        if (taken) {
            if (argument->a->kind != NODE_NAME)
                return parser_fail_token(p, ", or )");
            argument->name = argument->a->name;
            TRY(parse_expression(p, &argument->a));
        }
        node_list_add(&arguments, argument);
        TRY(parser_take(p, ",", &taken));
        if (!taken && !parser_at(p, ")"))
            return parser_fail_token(p, ", or )");
        TRY(parser_take(p, ")", &taken));
    }
    *first = arguments.first;
    *count = arguments.count;
    return WISP_OK;
}

static wisp_status parse_part(struct parser *p, struct node **part) {
    if (!parser_at(p, ":") && !parser_at(p, "]"))
        return parse_expression(p, part);
    return parser_node(p, NODE_NOTHING, part);
}

static wisp_status parse_subscript(struct parser *p, struct node *subject, struct node **node) {
    struct node_list parts = {0};
    struct node *part;
    bool taken = true;
    TRY(parser_node(p, NODE_ITEM, node));
    (*node)->a = subject;
    TRY(parser_expect(p, "["));
    while (taken && parts.count < 3) {
        TRY(parse_part(p, &part));
        node_list_add(&parts, part);
        TRY(parser_take(p, ":", &taken));
    }
    (*node)->b = parts.first;
    if (parts.count > 1 || taken) {
        (*node)->kind = NODE_SLICE;
        while (parts.count < 3) {
            TRY(parser_node(p, NODE_NOTHING, &part));
            node_list_add(&parts, part);
        }
    } else if (parts.first->kind == NODE_NOTHING) {
        return parser_fail_token(p, "an index");
    }
    return parser_expect(p, "]");
}

static wisp_status parse_attribute(struct parser *p, struct node *subject, struct node **node) {
    TRY(parser_expect(p, "."));
    TRY(parser_node(p, NODE_ATTRIBUTE, node));
    (*node)->a = subject;
    if (p->lexer.token.kind != LEX_NUMBER)
        return parser_name(p, &(*node)->name);
    (*node)->kind = NODE_ITEM;
    return parse_primary(p, &(*node)->b);
}

static wisp_status parse_call(struct parser *p, struct node *callee, struct node **node) {
    TRY(parser_node(p, NODE_CALL, node));
    (*node)->a = callee;
    return parse_arguments(p, &(*node)->b, &(*node)->count);
}

static wisp_status parse_postfix(struct parser *p, struct node **node) {
    for (;;) {
        if (parser_at(p, "."))
            TRY(parse_attribute(p, *node, node));
        else if (parser_at(p, "["))
            TRY(parse_subscript(p, *node, node));
        else if (parser_at(p, "("))
            TRY(parse_call(p, *node, node));
        else
            return WISP_OK;
    }
}

/* Parses `name(arguments)` of a filter, whose subject is *node. */
static wisp_status parse_filter(struct parser *p, struct node **node) {
    struct node *subject = *node;
    TRY(parser_node(p, NODE_FILTER, node));
    (*node)->a = subject;
    TRY(parser_name(p, &(*node)->name));
    return parser_at(p, "(") ? parse_arguments(p, &(*node)->b, &(*node)->count) : WISP_OK;
}

/* Parses `is name argument`, whose argument may be without parentheses. */
static wisp_status parse_test(struct parser *p, struct node **node) {
    struct node *test, *negated = NULL;
    bool taken;
    TRY(lexer_next(&p->lexer));
    TRY(parser_take_name(p, "not", &taken));
    if (taken)
        TRY(parser_node(p, NODE_NOT, &negated));
    TRY(parser_node(p, NODE_TEST, &test));
    test->a = *node;
    TRY(parser_name(p, &test->name));
    const enum token_kind kind = p->lexer.token.kind;
    const bool goes_on = parser_at_name(p, "else") || parser_at_name(p, "or") ||
                         parser_at_name(p, "and") || parser_at_name(p, "if") ||
                         parser_at_name(p, "is");
    if (parser_at(p, "(")) {
        TRY(parse_arguments(p, &test->b, &test->count));
    } else if (!goes_on && (kind == LEX_NAME || kind == LEX_TEXT || kind == LEX_NUMBER ||
                            parser_at(p, "[") || parser_at(p, "{"))) {
        TRY(parser_node(p, NODE_ARGUMENT, &test->b));
        TRY(parse_primary(p, &test->b->a));
        TRY(parse_postfix(p, &test->b->a));
        test->count = 1;
    }
    if (negated)
        negated->a = test;
    *node = negated ? negated : test;
    return WISP_OK;
}

static wisp_status parse_filters_and_tests(struct parser *p, struct node **node) {
    for (;;) {
        bool taken;
        TRY(parser_take(p, "|", &taken));
        if (taken)
            TRY(parse_filter(p, node));
        else if (parser_at_name(p, "is"))
            TRY(parse_test(p, node));
        else if (parser_at(p, "("))
            TRY(parse_call(p, *node, node));
        else
            return WISP_OK;
    }
}

wisp_status parse_filters(struct parser *p, struct node **node) {
    *node = NULL;
    TRY(parse_filter(p, node));
    return parse_filters_and_tests(p, node);
}

/* ---- operators ------------------------------------------------------------------------------ */

static wisp_status parse_unary(struct parser *p, bool filters, struct node **node) {
    const bool negates = parser_at(p, "-");
    TRY(parser_enter(p));
    if (negates || parser_at(p, "+")) {
        struct node *sign;
        TRY(parser_node(p, negates ? NODE_NEGATE : NODE_POSITIVE, &sign));
        TRY(lexer_next(&p->lexer));
        TRY(parse_unary(p, false, &sign->a));
        *node = sign;
    } else {
        TRY(parse_primary(p, node));
    }
    TRY(parse_postfix(p, node));
    p->depth--;
    return filters ? parse_filters_and_tests(p, node) : WISP_OK;
}

enum {
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_ADD,
    LEVEL_JOIN,
    LEVEL_MULTIPLY,
    LEVEL_POWER,
    LEVEL_UNARY
};

static const struct binary {
    const char *name;
    int level;
    enum node_kind kind;
    enum operation operation;
} binaries[] = {
    {"or", LEVEL_OR, NODE_OR, 0},
    {"and", LEVEL_AND, NODE_AND, 0},
    {"in", LEVEL_COMPARE, NODE_OPERATION, OPERATION_IN},
    {"not", LEVEL_COMPARE, NODE_OPERATION, OPERATION_NOT_IN}, /* "not in" */
    {"==", LEVEL_COMPARE, NODE_OPERATION, OPERATION_EQUAL},
    {"!=", LEVEL_COMPARE, NODE_OPERATION, OPERATION_UNEQUAL},
    {"<", LEVEL_COMPARE, NODE_OPERATION, OPERATION_LESS},
    {"<=", LEVEL_COMPARE, NODE_OPERATION, OPERATION_LESS_EQUAL},
    {">", LEVEL_COMPARE, NODE_OPERATION, OPERATION_GREATER},
    {">=", LEVEL_COMPARE, NODE_OPERATION, OPERATION_GREATER_EQUAL},
    {"+", LEVEL_ADD, NODE_OPERATION, OPERATION_ADD},
    {"-", LEVEL_ADD, NODE_OPERATION, OPERATION_SUBTRACT},
    {"~", LEVEL_JOIN, NODE_OPERATION, OPERATION_JOIN},
    {"*", LEVEL_MULTIPLY, NODE_OPERATION, OPERATION_MULTIPLY},
    {"/", LEVEL_MULTIPLY, NODE_OPERATION, OPERATION_DIVIDE},
    {"//", LEVEL_MULTIPLY, NODE_OPERATION, OPERATION_FLOOR},
    {"%", LEVEL_MULTIPLY, NODE_OPERATION, OPERATION_REMAINDER},
    {"**", LEVEL_POWER, NODE_OPERATION, OPERATION_POWER},
};

/* Returns the operator that is the current token, if its level is at least `level`. */
static const struct binary *binary_at(const struct parser *p, int level) {
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        if (binaries[i].level >= level &&
            (parser_at(p, binaries[i].name) || parser_at_name(p, binaries[i].name)))
            return &binaries[i];
    return NULL;
}

/* Parses operators of at least a level, which bind the tighter the higher it is. */
static wisp_status parse_binary(struct parser *p, int level, struct node **node) {
    const struct binary *binary;
    const struct node *compared = NULL; /* the last comparison of a < b < c */
    bool taken = false;
    TRY(parser_enter(p));
    if (level <= LEVEL_NOT)
        TRY(parser_take_name(p, "not", &taken));
    if (taken) {
        TRY(parser_node(p, NODE_NOT, node));
        TRY(parse_binary(p, LEVEL_NOT, &(*node)->a));
    } else {
        TRY(parse_unary(p, true, node));
    }
    while ((binary = binary_at(p, level))) {
        struct node *joined;
        TRY(parser_node(p, binary->kind, &joined));
        joined->operation = binary->operation;
        TRY(lexer_next(&p->lexer));
        if (binary->operation == OPERATION_NOT_IN) {
            TRY(parser_take_name(p, "in", &taken));
            if (!taken)
                return parser_fail_token(p, "in");
        }
        TRY(parse_binary(p, binary->level + 1, &joined->b));
        joined->a = *node;
        *node = joined;
        if (binary->level != LEVEL_COMPARE)
            continue;
        if (compared) {
            struct node *both;
            TRY(parser_node(p, NODE_AND, &both));
            both->a = joined->a;
            both->b = joined;
            joined->a = compared->b;
            *node = both;
        }
        compared = joined;
    }
    p->depth--;
    return WISP_OK;
}

/* Parses an expression without `a if b else c`. */
static wisp_status parse_condition(struct parser *p, struct node **node) {
    return parse_binary(p, LEVEL_OR, node);
}

wisp_status parse_expression(struct parser *p, struct node **node) {
    bool taken;
    TRY(parse_condition(p, node));
    for (;;) {
        struct node *choice;
        TRY(parser_take_name(p, "if", &taken));
        if (!taken)
            return WISP_OK;
        TRY(parser_node(p, NODE_CHOICE, &choice));
        choice->a = *node;
        TRY(parse_condition(p, &choice->b));
        TRY(parser_take_name(p, "else", &taken));
        if (taken) {
            TRY(parser_enter(p));
            TRY(parse_expression(p, &choice->c));
            p->depth--;
        }
        *node = choice;
    }
}

wisp_status parse_tuple(struct parser *p, bool choices, struct node **node) {
    struct node_list items = {0};
    struct node *item = NULL;
    bool taken = true, commas = false;
    TRY(parser_node(p, NODE_TUPLE, node));
    for (; taken; commas = commas || taken) {
        if (items.count > 0 &&
            (p->lexer.token.kind == LEX_BLOCK_END || p->lexer.token.kind == LEX_VARIABLE_END))
            break;
        TRY(choices ? parse_expression(p, &item) : parse_condition(p, &item));
        node_list_add(&items, item);
        TRY(parser_take(p, ",", &taken));
    }
    (*node)->a = items.first;
    (*node)->count = items.count;
    if (!commas)
        *node = items.first;
    return WISP_OK;
}

wisp_status parse_target(struct parser *p, struct node **node) {
    struct node_list items = {0};
    bool taken = true, brackets;
    struct node *list;
    TRY(parser_node(p, NODE_TUPLE, &list));
    TRY(parser_take(p, "(", &brackets));
    while (taken && !(items.count > 0 && (parser_at(p, ")") || parser_at_name(p, "in")))) {
        struct node *item;
        TRY(parser_node(p, NODE_NAME, &item));
        TRY(parser_name(p, &item->name));
        if (items.count == 0 && parser_at(p, "."))
            TRY(parse_attribute(p, item, &item));
        node_list_add(&items, item);
        TRY(parser_take(p, ",", &taken));
    }
    if (brackets)
        TRY(parser_expect(p, ")"));
    list->a = items.first;
    list->count = items.count;
    *node = items.count == 1 ? items.first : list;
    return WISP_OK;
}
