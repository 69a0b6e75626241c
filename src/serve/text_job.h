/* SPDX-License-Identifier: Apache-2.0
 * A text that a request asks for: its prompt, its options and its result, for every API. */
#ifndef WISP_SERVE_TEXT_JOB_H
#define WISP_SERVE_TEXT_JOB_H

#include "serve/call.h"

struct text_job {
    struct call *call;
    bool chats;                     /* `conversation`, not `prompt`, is what the text continues */
    wisp_text prompt;               /* any text */
    wisp_conversation conversation; /* its JSON lives in the call's arena */
    const struct json *messages;    /* the array that this JSON is */
    bool has_tools;
    wisp_generate_options options;
    wisp_grammar *grammar; /* that `options` names; text_job_release closes it */

    /* Receives each piece's text, which is not empty, and the piece. Returning false ends the
     * text. NULL: the text is collected alone. */
    bool (*receive)(struct text_job *writing, const wisp_piece *piece);
    void *context;

    struct text_buffer text; /* all of it */
    int32_t *ids;            /* [n_ids]: of the text's tokens */
    size_t n_ids, most_ids;
    wisp_generation result;
};

/* Returns whether the model generates text, after a reply if it does not. */
bool text_job_can_run(struct text_job *writing);

/* Reads the options that the APIs have in common: max_tokens (and its other names), temperature,
 * top_p, top_k, min_p, seed, stop, penalties, logit_bias, response_format and the like. Returns
 * false after a reply. */
bool text_job_take_options(struct text_job *writing);

/* Reads the messages and tools of the body's members of these names, and chat_template_kwargs.
 * Returns false after a reply. */
bool text_job_take_messages(struct text_job *writing, const struct json *messages,
                            const struct json *tools);

/* Writes the text. Returns false after a reply, unless `receive` got a piece before the failure:
 * then *error says what happened. */
bool text_job_run(struct text_job *writing, wisp_error *error);

/* Returns the message with calls of tools that the text is, which lives as long as the call, or
 * NULL if it has none. */
const struct json *text_job_tool_message(struct text_job *writing);

/* Returns "stop" or "length". */
const char *text_job_reason(const struct text_job *writing);

void text_job_release(struct text_job *writing);

#endif
