/* SPDX-License-Identifier: Apache-2.0
 * Conversations of wisp generate: on a terminal or line by line (--chat), or from a file
 * (--messages). */
#ifndef WISP_CLI_CHAT_H
#define WISP_CLI_CHAT_H

#include "wisp.h"

struct chat_arguments {
    bool interactive;     /* --chat */
    const char *messages; /* a file of conversations; NULL: not given */
    const char *format;   /* NULL: the model's */
    const char *system;   /* NULL: no message of the system */
    bool no_thinking;
};

/* Values of getopt_long for the options of CHAT_OPTIONS. */
enum { OPTION_CHAT = 3000, OPTION_MESSAGES, OPTION_CHAT_FORMAT, OPTION_SYSTEM, OPTION_NO_THINKING };

#define CHAT_OPTIONS                                                                               \
    {"chat", no_argument, NULL, OPTION_CHAT},                                                      \
        {"messages", required_argument, NULL, OPTION_MESSAGES},                                    \
        {"chat-format", required_argument, NULL, OPTION_CHAT_FORMAT},                              \
        {"system", required_argument, NULL, OPTION_SYSTEM}, {                                      \
        "no-thinking", no_argument, NULL, OPTION_NO_THINKING                                       \
    }

#define CHAT_HELP                                                                                  \
    "      --chat             answer line after line of standard input, and keep what was said;\n" \
    "                         Ctrl-C ends a reply; /help lists what else can be typed\n"           \
    "      --messages FILE    reply to conversations: FILE has one as a JSON array of objects\n"   \
    "                         with \"role\" and \"content\", or one on each line. Writes each\n"   \
    "                         reply as such an object on a line\n"                                 \
    "      --chat-format NAME how messages become a prompt (default: as the model's file says):\n" \
    "                         llama2, llama3, llama3.1, chatml, qwen2, qwen2.5, qwen3, lfm2,\n"    \
    "                         gemma, mistral-v1, mistral-v3, phi3 or plain, which is only their\n" \
    "                         text\n"                                                              \
    "      --system TEXT      what the model is told before the conversation\n"                    \
    "      --no-thinking      qwen3: answer without thinking first\n"

/* Takes an option of CHAT_OPTIONS; returns false where it is another. */
bool take_chat_option(struct chat_arguments *arguments, int option, const char *value);

/* Complains and returns false where options of conversations do not go together, or with `other`
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
 * code, after complaining where it is not EXIT_GOOD. */
int chat_run(const struct chat_arguments *arguments, const wisp_model *model, wisp_session *session,
             const wisp_generate_options *options, chat_stats *stats, uint32_t threads);

#endif
