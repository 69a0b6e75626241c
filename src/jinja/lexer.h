/* SPDX-License-Identifier: Apache-2.0
 * The parts of a template: texts, and the tokens between {{ }} and {% %}. As transformers sets
 * Jinja up: a line break after a block is dropped, and so is the white space before a block that
 * begins a line. */
#ifndef WISP_JINJA_LEXER_H
#define WISP_JINJA_LEXER_H

#include "jinja/value.h"

enum token_kind {
    LEX_END,
    LEX_DATA, /* text between tags */
    LEX_VARIABLE_BEGIN,
    LEX_VARIABLE_END,
    LEX_BLOCK_BEGIN,
    LEX_BLOCK_END,
    LEX_NAME,
    LEX_TEXT,
    LEX_NUMBER,
    LEX_OPERATOR
};

struct token {
    enum token_kind kind;
    uint32_t line;
    char name[4];       /* an operator */
    const char *word;   /* a name, or the characters of a number */
    struct value value; /* data, a text */
};

struct lexer {
    struct arena *arena;
    const char *file;
    const uint32_t *source; /* line breaks are \n */
    uint32_t n, at;
    uint32_t line;
    bool within, is_block; /* between tags; those of a block */
    bool begins_line;      /* what was taken last ended a line */
    unsigned open;         /* brackets */
    char brackets[64];     /* [open] */
    struct name *names;
    struct token token; /* the current one */
    wisp_error *error;
};

/* Begins to read a template. Its first token is the current one. */
wisp_status lexer_open(struct lexer *lexer, wisp_text source);

/* Reads the next token. */
wisp_status lexer_next(struct lexer *lexer);

/* Returns the one copy of a name, or NULL if there is no memory. */
const char *lexer_name(struct lexer *lexer, const char *name, size_t length);

/* Fails at the line of the current token. */
wisp_status lexer_fail(struct lexer *lexer, uint32_t line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The metadata key of templates, which errors name. */
#define JINJA_FIELD "tokenizer.chat_template"

#endif
