/* SPDX-License-Identifier: Apache-2.0
 * The options of commands that generate text: how tokens are chosen and where a text ends. */
#ifndef WISP_CLI_GENERATE_OPTIONS_H
#define WISP_CLI_GENERATE_OPTIONS_H

#include "cli/cli.h"

struct generate_arguments {
    wisp_generate_options options;
    const char **stop;      /* [argc]: what options.stop points to */
    int32_t *stop_id;       /* [argc] */
    wisp_token_value *bias; /* [argc] */
};

/* Values of getopt_long for the options of GENERATE_OPTIONS. */
enum {
    OPTION_MAX_TOKENS = 'n',
    OPTION_TEMPERATURE = 2000,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_MIN_P,
    OPTION_TYPICAL_P,
    OPTION_ORDER,
    OPTION_REPETITION,
    OPTION_PRESENCE,
    OPTION_FREQUENCY,
    OPTION_PENALTY_WINDOW,
    OPTION_BIAS,
    OPTION_SEED,
    OPTION_STOP,
    OPTION_STOP_ID,
    OPTION_CONTEXT_SHIFT,
    OPTION_KEEP
};

#define GENERATE_OPTIONS                                                                           \
    {"max-tokens", required_argument, NULL, OPTION_MAX_TOKENS},                                    \
        {"temperature", required_argument, NULL, OPTION_TEMPERATURE},                              \
        {"top-k", required_argument, NULL, OPTION_TOP_K},                                          \
        {"top-p", required_argument, NULL, OPTION_TOP_P},                                          \
        {"min-p", required_argument, NULL, OPTION_MIN_P},                                          \
        {"typical-p", required_argument, NULL, OPTION_TYPICAL_P},                                  \
        {"order", required_argument, NULL, OPTION_ORDER},                                          \
        {"repetition-penalty", required_argument, NULL, OPTION_REPETITION},                        \
        {"presence-penalty", required_argument, NULL, OPTION_PRESENCE},                            \
        {"frequency-penalty", required_argument, NULL, OPTION_FREQUENCY},                          \
        {"penalty-window", required_argument, NULL, OPTION_PENALTY_WINDOW},                        \
        {"bias", required_argument, NULL, OPTION_BIAS},                                            \
        {"seed", required_argument, NULL, OPTION_SEED},                                            \
        {"stop", required_argument, NULL, OPTION_STOP},                                            \
        {"stop-id", required_argument, NULL, OPTION_STOP_ID},                                      \
        {"context-shift", no_argument, NULL, OPTION_CONTEXT_SHIFT}, {                              \
        "keep", required_argument, NULL, OPTION_KEEP                                               \
    }

#define GENERATE_HELP                                                                              \
    "  -n, --max-tokens N     generate at most N tokens (default: as many as fit the model)\n"     \
    "      --temperature T    0 takes the most likely token each time; 1 draws tokens by their\n"  \
    "                         probability; more is more random (default: 0)\n"                     \
    "      --top-k K          draw from the K most likely tokens\n"                                \
    "      --top-p P          draw from the fewest tokens whose probabilities reach P\n"           \
    "      --min-p P          draw from tokens at least P times as likely as the most likely "     \
    "one\n"                                                                                        \
    "      --typical-p P      draw from the fewest tokens of typical information that reach P\n"   \
    "      --order NAME       of the steps: transformers (temperature, top-k, top-p, min-p,\n"     \
    "                         typical-p; default) or llama.cpp (top-k, typical-p, top-p, min-p,\n" \
    "                         temperature). Bias and penalties come first\n"                       \
    "      --repetition-penalty X, --presence-penalty X, --frequency-penalty X\n"                  \
    "                         make tokens that stand in the text already less likely\n"            \
    "      --penalty-window N penalties count the last N tokens only\n"                            \
    "      --bias ID=X        add X to the logit of token ID; -inf: never (may be given more\n"    \
    "                         than once)\n"                                                        \
    "      --seed N           of the random numbers: the same seed gives the same text\n"          \
    "                         (default: 0), and with --data the text that --text would give:\n"    \
    "                         equal prompts get equal texts\n"                                     \
    "      --stop TEXT        end before this text (may be given more than once)\n"                \
    "      --stop-id ID       end before this token (may be given more than once)\n"               \
    "      --context-shift    where the model's context is full, drop the older half of what\n"    \
    "                         it reads and go on, with no end but that of --max-tokens or of\n"    \
    "                         the model; without this the text ends, and longer prompts are\n"     \
    "                         errors\n"                                                            \
    "      --keep N           with --context-shift: never drop the first N tokens of the prompt\n"

/* Makes room for the options of a command line of argc arguments. Returns false, after complaining,
 * where there is no memory. */
bool generate_arguments_open(struct generate_arguments *arguments, int argc);

/* Takes an option of GENERATE_OPTIONS. Returns false where it is none. Sets *code, after
 * complaining where it is not EXIT_GOOD. */
bool take_generate_option(struct generate_arguments *arguments, int option, const char *value,
                          int *code);

void generate_arguments_close(struct generate_arguments *arguments);

#endif
