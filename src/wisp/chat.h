/* SPDX-License-Identifier: Apache-2.0
 * Part of wisp.h: conversations. A chat template turns messages into a prompt, and the reply is
 * generated as any text is.
 */
#ifndef WISP_CHAT_H
#define WISP_CHAT_H

#ifndef WISP_H
#error "include wisp.h, which includes this header"
#endif

typedef enum wisp_role {
    WISP_ROLE_SYSTEM = 0, /* instructions for the model, usually the first message */
    WISP_ROLE_USER = 1,
    WISP_ROLE_ASSISTANT = 2 /* the model */
} wisp_role;

/* Work as wisp_compute_name and wisp_compute_find. The names are "system", "user" and "assistant".
 */
WISP_API const char *wisp_role_name(size_t role);
WISP_API bool wisp_role_find(const char *name, wisp_role *role);

typedef struct wisp_message {
    wisp_role role;
    wisp_text content;
} wisp_message;

/* A conversation that the model continues with a message of the assistant. The chat template in the
 * model's file turns messages into a prompt, with control tokens that mark the beginning and end of
 * each message. It is a Jinja program, run as transformers runs it, and can read nothing but the
 * conversation (docs/formats.md). */
typedef struct wisp_conversation {
    const wisp_message *messages; /* [n] */
    size_t n;
    wisp_text json;          /* instead of `messages`: a JSON array of objects with everything that
                                templates may use: "role", "content", "tool_calls",
                                "reasoning_content" and so on */
    const char *format;      /* a name of wisp_chat_format_name. NULL: a template */
    wisp_text chat_template; /* a template instead of the model's own, or empty */
    wisp_text variables;     /* a JSON object with other variables of the template: "tools",
                                "documents", "add_generation_prompt" and so on; or empty */
    const char *date;        /* the result of strftime_now in a template: "2026-11-26" or
                                "2026-11-26T05:47:20". NULL: the function is undefined, and many templates
                                then write no date or an old one */
    bool no_thinking;        /* set the variable enable_thinking to false */
} wisp_conversation;

/* Returns the name of a format for models without a template, and NULL after the last: "chatml",
 * and "plain", in which messages are plain text. */
WISP_API const char *wisp_chat_format_name(size_t index);

/* Sets *source to the template of the model's file, which lives as long as the model. Fails with
 * WISP_ERROR_NOT_FOUND if the file has none, and with WISP_ERROR_UNSUPPORTED if the model does not
 * generate text. */
WISP_API wisp_status wisp_model_chat_template(const wisp_model *model, wisp_text *source,
                                              wisp_error *error);

/* Generates the reply to a conversation. It ends with the control token that the template writes
 * after a reply (WISP_END_TOKEN). Otherwise this works like wisp_generate: if a conversation
 * extends the last one, only the new tokens are computed. Messages and variables are text and
 * cannot produce control tokens. Fails as wisp_generate and wisp_model_chat_template do, with
 * WISP_ERROR_ARGUMENT if a field is invalid or the template rejects the conversation, and with
 * WISP_ERROR_UNSUPPORTED if the template uses an unsupported feature: the message names it and the
 * line. */
WISP_API wisp_status wisp_chat(wisp_session *session, const wisp_conversation *conversation,
                               const wisp_generate_options *options, wisp_generation *result,
                               wisp_error *error);

/* Finds tool calls in a reply, given by the n ids that wisp_chat delivered. If there are any, sets
 * *length to the length of the reply as a JSON message, and writes it to json [capacity] if it
 * fits: {"role": "assistant", "content": ..., "tool_calls": [{"type": "function", "id": ...,
 * "function": {"name": ..., "arguments": {...}}}]}, in the form that templates accept. If there are
 * none, or one is incomplete, *length is 0. Recognises the formats of Hermes, Qwen, Llama 3,
 * Mistral, Granite, Command R7B, Kimi, DeepSeek, Functionary and Firefunction. Call it only if the
 * conversation had tools, because any text may look like a call. */
WISP_API wisp_status wisp_chat_tool_calls(const wisp_model *model, const int32_t *ids, size_t n,
                                          char *json, size_t capacity, size_t *length,
                                          wisp_error *error);

/* Converts a conversation to the token ids of its prompt. Writes ids as wisp_tokenize does. */
WISP_API wisp_status wisp_chat_tokenize(const wisp_model *model,
                                        const wisp_conversation *conversation, int32_t *ids,
                                        size_t capacity, size_t *count, wisp_error *error);

#endif
