/* SPDX-License-Identifier: Apache-2.0
 * Shared by the two halves of the parser. The current token is the lexer's. */
#ifndef WISP_JINJA_PARSER_H
#define WISP_JINJA_PARSER_H

#include "jinja/lexer.h"
#include "jinja/node.h"

struct parser {
    struct lexer lexer;
    unsigned depth; /* of expressions and statements within others */
};

/* A list of nodes that grows. */
struct node_list {
    struct node *first, **last;
    uint32_t count;
};

static inline void node_list_add(struct node_list *list, struct node *node) {
    *(list->count++ ? list->last : &list->first) = node;
    list->last = &node->next;
}

/* Makes a node at the current line. */
wisp_status parser_node(struct parser *p, enum node_kind kind, struct node **node);

/* Return whether the current token is this operator, or this name. */
bool parser_at(const struct parser *p, const char *operator);
bool parser_at_name(const struct parser *p, const char *name);

/* Take such a token. `_take` sets *taken and fails only in the token after it; `_expect` fails
 * unless it is there. */
wisp_status parser_take(struct parser *p, const char *operator, bool * taken);
wisp_status parser_take_name(struct parser *p, const char *name, bool *taken);
wisp_status parser_expect(struct parser *p, const char *operator);

/* Takes a name. */
wisp_status parser_name(struct parser *p, const char **name);

/* Fails at the current token, which is not `wanted`. */
wisp_status parser_fail_token(struct parser *p, const char *wanted);

/* Go a level deeper, which has a limit. The caller takes it back. */
wisp_status parser_enter(struct parser *p);

/* Parse an expression; a tuple or an expression up to the end of the
 * tag; what is assigned to; the filters of a block, whose first begins at the current token; and
 * arguments in parentheses. */
wisp_status parse_expression(struct parser *p, struct node **node);
wisp_status parse_tuple(struct parser *p, bool choices, struct node **node);
wisp_status parse_target(struct parser *p, struct node **node);
wisp_status parse_filters(struct parser *p, struct node **node);
wisp_status parse_arguments(struct parser *p, struct node **first, uint32_t *count);

#endif
