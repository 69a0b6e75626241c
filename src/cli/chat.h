/* SPDX-License-Identifier: Apache-2.0
 * Conversations of wisp generate: on a terminal or line by line (--chat), or from a file
 * (--messages). */
#ifndef WISP_CLI_CHAT_H
#define WISP_CLI_CHAT_H

#include "cli/options.h"
#include "wisp.h"

struct chat_arguments {
    bool interactive;      /* --chat */
    const char *messages;  /* a file of conversations; NULL: not given */
    const char *format;    /* NULL: a template */
    const char *path;      /* the file of a template; NULL: the model's */
    const char *tools;     /* a file of tools; NULL: none */
    const char *variables; /* a JSON object for the template; NULL: none */
    const char *date;      /* NULL: today */
    const char *system;    /* NULL: no message of the system */
    bool no_thinking;
};

/* A table for these. */
extern const struct command_option chat_options[];

/* Complains and returns false if options of conversations do not go together, or with `other`
 * (NULL: none), an option that is for prompts. */
bool chat_check_usage(const struct chat_arguments *arguments, const char *other);

/* Returns whether there is a conversation, and no prompt. */
static inline bool chat_is_asked_for(const struct chat_arguments *arguments) {
    return arguments->interactive || arguments->messages;
}

/* Prints the figures of a reply that `threads` threads computed. */
typedef void chat_stats(const wisp_session *session, const wisp_generation *result,
                        uint32_t threads);

/* Talks until the input ends. `stats` (may be NULL) is called after each reply. Returns an exit
 * code, after complaining if it is not EXIT_GOOD. */
int chat_run(const struct chat_arguments *arguments, const wisp_model *model, wisp_session *session,
             const wisp_generate_options *options, chat_stats *stats, uint32_t threads);

#endif
