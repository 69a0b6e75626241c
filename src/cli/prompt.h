/* SPDX-License-Identifier: Apache-2.0
 * Options that choose a prompt, by its name in the model or literally. */
#ifndef WISP_CLI_PROMPT_H
#define WISP_CLI_PROMPT_H

#include "wisp.h"

struct prompt_choice {
    const char *option; /* the option that takes a name; "-text" after it takes a text */
    const char *name;   /* NULL: not given */
    const char *text;   /* NULL: not given */
};

/* Sets *prompt to what wisp_embed takes: the chosen text, or NULL for the model's default prompt.
 * Returns EXIT_GOOD, or EXIT_USAGE after complaining if the model has no prompt of this name or
 * if both name and text are given. */
int choose_prompt(const wisp_model *model, const struct prompt_choice *choice, const char **prompt);

#endif
