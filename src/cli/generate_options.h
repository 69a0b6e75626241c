/* SPDX-License-Identifier: Apache-2.0
 * The options of commands that generate text: how tokens are chosen and where a text ends. */
#ifndef WISP_CLI_GENERATE_OPTIONS_H
#define WISP_CLI_GENERATE_OPTIONS_H

#include "cli/cli.h"
#include "cli/options.h"

struct generate_arguments {
    wisp_generate_options options;
    const char **stop;      /* [argc]: what options.stop points to */
    int32_t *stop_id;       /* [argc] */
    wisp_token_value *bias; /* [argc] */
};

/* A table for these. */
extern const struct command_option generate_options[];

/* Makes room for the options of a command line of argc arguments. Returns false, after complaining,
 * if there is no memory. */
bool generate_arguments_open(struct generate_arguments *arguments, int argc);

void generate_arguments_close(struct generate_arguments *arguments);

#endif
