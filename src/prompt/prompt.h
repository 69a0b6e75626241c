/* SPDX-License-Identifier: Apache-2.0
 * Applies a chat template to a conversation. */
#ifndef WISP_PROMPT_PROMPT_H
#define WISP_PROMPT_PROMPT_H

#include "prompt/variables.h"

/* Texts whose characters have JINJA_GIVEN if they come from the conversation. Names of roles and
 * tokens have it not. */
struct prompt {
    struct value text;
    struct value trial; /* a conversation that the reply PROMPT_PROBE ends; JINJA_NONE: the template
                           refuses it */
};

/* Runs the template. Memory is the arena's. Errors are those of jinja_run, and WISP_ERROR_ARGUMENT
 * for a conversation that is malformed or asks for what the template cannot do. */
wisp_status prompt_make(struct arena *arena, const struct prompt_call *call, struct prompt *prompt,
                        wisp_error *error);

#endif
