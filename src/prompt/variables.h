/* SPDX-License-Identifier: Apache-2.0
 * The variables of a chat template. */
#ifndef WISP_PROMPT_VARIABLES_H
#define WISP_PROMPT_VARIABLES_H

#include "jinja/jinja.h"

/* The tokens of a file whose spellings templates read. */
enum { PROMPT_BOS, PROMPT_EOS, PROMPT_UNKNOWN, PROMPT_PADDING, PROMPT_TOKENS };

struct prompt_call {
    const wisp_conversation *conversation;
    wisp_text source;                /* the template; bytes NULL: there is only that with tools */
    wisp_text source_with_tools;     /* the template for conversations with tools */
    wisp_text tokens[PROMPT_TOKENS]; /* bytes NULL: the file has no such token */
    const char *file;                /* of the template, for errors; may be NULL */
};

/* The variable by which templates turn thinking off. */
#define CHAT_THINKING "enable_thinking"

enum { CHAT_MAX_VARIABLES = 64 };

struct chat_variables {
    struct jinja_variable list[CHAT_MAX_VARIABLES];
    size_t n;
    bool has_tools;
};

/* Checks a conversation and makes the variables of it. Memory is the arena's. */
wisp_status chat_variables_of(const struct prompt_call *call, struct arena *arena,
                              struct chat_variables *variables, wisp_error *error);

/* The reply of a trial, after which a template shows what it puts behind replies. */
#define PROMPT_PROBE 0xE001u

/* Sets `messages` to a question and the reply PROMPT_PROBE, after which nothing is to follow. */
wisp_status chat_probe(struct arena *arena, struct chat_variables *variables, wisp_error *error);

#endif
