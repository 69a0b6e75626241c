/* SPDX-License-Identifier: Apache-2.0
 * Continues each prompt of a file, many at a time, and writes a JSON object for each. */
#ifndef WISP_CLI_GENERATE_LINES_H
#define WISP_CLI_GENERATE_LINES_H

#include "cli/cli.h"

/* Sums over texts. */
struct generate_totals {
    size_t texts, prompt_tokens, reused_tokens, tokens;
};

/* Reads prompts from the file at `path` ("-": standard input), each line a JSON string or an object
 * with a string "prompt". Writes the objects in the order of the prompts, each as soon as it and
 * those before it are complete, with the members of the prompt's object. `options` holds for all.
 * Returns an exit code, after complaining if it is not EXIT_GOOD. */
int generate_lines(wisp_session *session, const wisp_generate_options *options, const char *path,
                   size_t at_once, struct generate_totals *totals);

/* Writes the members of an object that a text has. */
void print_generation(const wisp_generation *result, wisp_text text);

#endif
