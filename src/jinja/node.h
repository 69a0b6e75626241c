/* SPDX-License-Identifier: Apache-2.0
 * A parsed template: a tree in an arena. */
#ifndef WISP_JINJA_NODE_H
#define WISP_JINJA_NODE_H

#include "jinja/value.h"

enum node_kind {
    /* Expressions: */
    NODE_CONSTANT,
    NODE_NAME,
    NODE_LIST,      /* a: items */
    NODE_TUPLE,     /* a: items */
    NODE_DICT,      /* a: keys and values in turn */
    NODE_OPERATION, /* a, b: operands; c: where a comparison goes on, else NULL */
    NODE_NEGATE,
    NODE_POSITIVE,
    NODE_NOT,
    NODE_AND,
    NODE_OR,
    NODE_CHOICE,    /* a if b else c */
    NODE_ATTRIBUTE, /* a.name */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* a[b], if b is the first of three that may be NODE_NOTHING */
    NODE_CALL,      /* a(b), whose arguments are NODE_ARGUMENT */
    NODE_FILTER,    /* a | name(b); without a in a block */
    NODE_TEST,      /* a is name(b) */
    NODE_ARGUMENT,  /* name = a, or a */
    NODE_NOTHING,
    /* Statements: */
    NODE_TEXT,       /* the constant, which is a text */
    NODE_PRINT,      /* a */
    NODE_IF,         /* if a: b; else c */
    NODE_FOR,        /* for a in b: c; else d; if e */
    NODE_SET,        /* a = b */
    NODE_SET_BLOCK,  /* a = the text of c, filtered by b */
    NODE_FILTERED,   /* the text of c, filtered by b */
    NODE_MACRO,      /* name(a: parameters, NODE_ARGUMENT with defaults): c */
    NODE_CALL_BLOCK, /* a call b of a macro with the macro a as its caller */
    NODE_WITH,       /* b: settings; c: statements */
    NODE_BREAK,
    NODE_CONTINUE
};

enum operation {
    OPERATION_ADD,
    OPERATION_SUBTRACT,
    OPERATION_MULTIPLY,
    OPERATION_DIVIDE,
    OPERATION_FLOOR,
    OPERATION_REMAINDER,
    OPERATION_POWER,
    OPERATION_JOIN,
    OPERATION_EQUAL,
    OPERATION_UNEQUAL,
    OPERATION_LESS,
    OPERATION_LESS_EQUAL,
    OPERATION_GREATER,
    OPERATION_GREATER_EQUAL,
    OPERATION_IN,
    OPERATION_NOT_IN
};

struct node {
    enum node_kind kind;
    enum operation operation;
    uint32_t line;
    uint32_t count; /* of the nodes that begin with a or, in a call, filter or test, with b */
    const char *name;
    struct value constant;
    struct node *a, *b, *c, *d, *e;
    struct node *next; /* in a list of nodes */
};

/* Parses a template. Fails with the line and the construct that is not known. `file` may be NULL.
 */
wisp_status node_parse(struct arena *arena, wisp_text source, const char *file,
                       const struct node **root, wisp_error *error);

#endif
