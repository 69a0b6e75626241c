/* SPDX-License-Identifier: Apache-2.0
 * The options of commands with a model: tables for struct model_arguments. */
#ifndef WISP_CLI_MODEL_OPTIONS_H
#define WISP_CLI_MODEL_OPTIONS_H

#include "cli/options.h"

struct model_arguments;

/* Options of commands whose default model is $WISP_MODEL, and of those with $WISP_GENERATOR: the
 * most used ones, and a group for --help-model. */
extern const struct command_option model_options[];
extern const struct command_option generator_options[];

/* Options of commands that a device can compute. */
extern const struct command_option device_options[];

/* Options of commands that embed. */
extern const struct command_option vector_cache_options[];

/* More options of commands with a model that generates. */
extern const struct command_option cache_options[];
extern const struct command_option prompt_cache_options[];
extern const struct command_option memory_options[];
extern const struct command_option kv_options[];

/* Refuses the size of a cache that has no folder. Returns an exit code, after complaining if it is
 * not EXIT_GOOD. */
int check_caches(const struct model_arguments *arguments);

/* Takes --model. `field` is a const char *. Returns an exit code, after complaining if it is not
 * EXIT_GOOD. */
int take_model_path(void *field, const char *value);

#endif
