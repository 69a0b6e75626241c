/* SPDX-License-Identifier: Apache-2.0
 * Templates, grammars and schemas in a module of their own, which takes texts and returns bytes.
 * Pages that need none of them do not load it. */
#ifndef WISP_BINDING_LANGUAGES_LANGUAGES_H
#define WISP_BINDING_LANGUAGES_LANGUAGES_H

#include "grammar/grammar.h"
#include "prompt/prompt.h"

enum language { LANGUAGE_GBNF, LANGUAGE_JSON_SCHEMA, LANGUAGE_TEMPLATE };

/* ---- the module that reads languages (answer.c) --------------------------------------------- */

/* Answers a question, whose texts have a 0 behind them: a grammar, or a schema, with the bytes of
 * the grammar, and a template and a conversation with those of a prompt. The answer is the
 * arena's. */
wisp_status language_answer(enum language language, const wisp_text *texts, size_t n,
                            struct arena *arena, wisp_text *answer, wisp_error *error);

/* ---- modules that ask it (ask.c) ------------------------------------------------------------ */

/* Has a question answered. It is the program's. The caller frees the answer's bytes. */
wisp_status language_ask(enum language language, const wisp_text *texts, size_t n,
                         wisp_text *answer, wisp_error *error);

/* Do what wisp_grammar_open, wisp_grammar_open_schema and prompt_make do, by a question. Answers
 * are checked as files are. Messages that are not in JSON are an error. */
wisp_status language_ask_grammar(enum language language, wisp_text source, wisp_grammar **grammar,
                                 wisp_error *error);
wisp_status language_ask_prompt(struct arena *arena, const struct prompt_call *call,
                                struct prompt *prompt, wisp_error *error);

/* Takes the prompt that an answer is, and checks it. */
wisp_status language_take_prompt(struct arena *arena, wisp_text answer, struct prompt *prompt,
                                 wisp_error *error);

/* The texts of a question about a template. */
enum {
    ABOUT_SOURCE,
    ABOUT_SOURCE_WITH_TOOLS,
    ABOUT_MESSAGES,
    ABOUT_VARIABLES,
    ABOUT_DATE,
    ABOUT_FILE,
    ABOUT_NO_THINKING, /* any text: it is turned off */
    ABOUT_TOKENS,
    ABOUT_TEXTS = ABOUT_TOKENS + PROMPT_TOKENS
};

/* Before the characters of a prompt, and of the trial behind it. */
struct prompt_header {
    uint32_t characters, trial; /* UINT32_MAX: there is no trial */
};

#endif
