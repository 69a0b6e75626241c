/* SPDX-License-Identifier: Apache-2.0
 * The built-in chat formats. The marks of a format are tokens; all else is text.
 * Source: the chat templates that the models were published with.
 * Compiled for size in WebAssembly. */
#include <string.h>

#include "text/chat_parts.h"
#include "text/reader.h"
#include "text/unicode.h"

/* Returns whether Python's str.strip removes the character. */
static bool is_space(uint32_t c) {
    return c != READER_NONE && ((unicode_flags(c) & UNICODE_SPACE) || (c >= 0x1C && c <= 0x1F));
}

/* Returns the text without the white space around it. */
static wisp_text trim(wisp_text text) {
    struct reader reader = reader_of(text);
    const char *start = reader.at, *end = reader.at;
    while (!reader_at_end(&reader)) {
        const char *at = reader.at;
        if (is_space(reader_next(&reader)))
            continue;
        start = end == start ? at : start;
        end = reader.at;
    }
    return (wisp_text){start, (size_t)(end - start)};
}

/* Returns the text after the last "</think>" and the line breaks that follow it, or the whole text
 * where it has no "</think>". */
static wisp_text without_thoughts(wisp_text text) {
    static const char end[] = "</think>";
    enum { END_BYTES = sizeof end - 1 };
    size_t from = 0;
    for (size_t i = text.length; i >= END_BYTES && from == 0; i--)
        if (memcmp(text.bytes + i - END_BYTES, end, END_BYTES) == 0)
            from = i;
    if (from == 0)
        return text;
    while (from < text.length && text.bytes[from] == '\n')
        from++;
    return (wisp_text){text.bytes + from, text.length - from};
}

static const char *role_name(const wisp_message *message) {
    return wisp_role_name((size_t)message->role);
}

/* ---- ChatML --------------------------------------------------------------------------------- */

#define CHATML_MARKS {"<|im_start|>", "<|im_end|>"}

static void begin_chatml(struct chat_writer *w, const char *role) {
    chat_mark(w, "<|im_start|>");
    chat_text(w, role);
    chat_text(w, "\n");
}

static void end_chatml(struct chat_writer *w) {
    chat_mark(w, "<|im_end|>");
    chat_text(w, "\n");
}

static void write_chatml(struct chat_writer *w, const wisp_message *messages, size_t n) {
    if (w->format->system && messages[0].role != WISP_ROLE_SYSTEM) {
        begin_chatml(w, "system");
        chat_text(w, w->format->system);
        end_chatml(w);
    }
    for (size_t i = 0; i < n; i++) {
        const wisp_message *m = &messages[i];
        if (w->format->skips_no_system && m->role == WISP_ROLE_SYSTEM && m->content.length == 0)
            continue;
        begin_chatml(w, role_name(m));
        chat_content(w, w->format->thinks && m->role == WISP_ROLE_ASSISTANT
                            ? without_thoughts(m->content)
                            : m->content);
        end_chatml(w);
    }
    begin_chatml(w, "assistant");
    if (w->no_thinking)
        chat_text(w, "<think>\n\n</think>\n\n");
}

static void write_lfm2(struct chat_writer *w, const wisp_message *messages, size_t n) {
    chat_mark(w, "<|startoftext|>");
    write_chatml(w, messages, n);
}

/* ---- Llama ---------------------------------------------------------------------------------- */

#define LLAMA3_MARKS {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}

static void begin_llama3(struct chat_writer *w, const char *role) {
    chat_mark(w, "<|start_header_id|>");
    chat_text(w, role);
    chat_mark(w, "<|end_header_id|>");
    chat_text(w, "\n\n");
}

static void write_llama3_from(struct chat_writer *w, const wisp_message *messages, size_t n) {
    for (size_t i = 0; i < n; i++) {
        begin_llama3(w, role_name(&messages[i]));
        chat_content(w, trim(messages[i].content));
        chat_mark(w, "<|eot_id|>");
    }
    begin_llama3(w, "assistant");
}

static void write_llama3(struct chat_writer *w, const wisp_message *messages, size_t n) {
    chat_mark(w, "<|begin_of_text|>");
    write_llama3_from(w, messages, n);
}

/* The system message begins with two dates. The second is always that of the published template
 * rather than the current one: models know it, and prompts do not change every day. */
static void write_llama31(struct chat_writer *w, const wisp_message *messages, size_t n) {
    const size_t systems = messages[0].role == WISP_ROLE_SYSTEM;
    chat_mark(w, "<|begin_of_text|>");
    begin_llama3(w, "system");
    chat_text(w, "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n");
    if (systems)
        chat_content(w, trim(messages[0].content));
    chat_mark(w, "<|eot_id|>");
    write_llama3_from(w, messages + systems, n - systems);
}

/* Returns the white space at the start of a text that is not all white space. */
static wisp_text leading_space(wisp_text text) {
    const wisp_text trimmed = trim(text);
    return (wisp_text){text.bytes, trimmed.length > 0 ? (size_t)(trimmed.bytes - text.bytes) : 0};
}

/* The system message and the user's first one are trimmed as one text. */
static void write_llama2(struct chat_writer *w, const wisp_message *messages, size_t n) {
    const size_t systems = messages[0].role == WISP_ROLE_SYSTEM;
    for (size_t i = systems; i < n; i++) {
        const wisp_text content = trim(messages[i].content);
        const bool replies = messages[i].role == WISP_ROLE_ASSISTANT;
        if (!replies)
            chat_mark(w, "<s>");
        chat_text(w, replies ? " " : "[INST] ");
        if (systems && i == 1) {
            chat_text(w, "<<SYS>>\n");
            chat_content(w, messages[0].content);
            chat_text(w, content.length > 0 ? "\n<</SYS>>\n\n" : "\n<</SYS>>");
            chat_content(w, leading_space(messages[1].content));
        }
        chat_content(w, content);
        chat_text(w, replies ? " " : " [/INST]");
        if (replies)
            chat_mark(w, "</s>");
    }
}

/* ---- Mistral and Gemma ---------------------------------------------------------------------- */

/* The first version spells [INST] as text, and puts the system message before the first message of
 * the user. Later ones have tokens for it, and put the system message before the last. */
static void write_mistral(struct chat_writer *w, const wisp_message *messages, size_t n) {
    const size_t systems = messages[0].role == WISP_ROLE_SYSTEM;
    const bool first = strcmp(w->format->name, "mistral-v1") == 0;
    chat_mark(w, "<s>");
    for (size_t i = systems; i < n; i++) {
        if (messages[i].role == WISP_ROLE_ASSISTANT) {
            chat_space(w);
            chat_content(w, trim(messages[i].content));
            chat_mark(w, "</s>");
            continue;
        }
        if (first) {
            chat_space(w);
            chat_text(w, "[INST] ");
        } else {
            chat_mark(w, "[INST]");
            chat_space(w);
        }
        if (systems && i == (first ? 1 : n - 1)) {
            chat_content(w, messages[0].content);
            chat_text(w, "\n\n");
        }
        chat_content(w, messages[i].content);
        if (first)
            chat_text(w, " [/INST]");
        else
            chat_mark(w, "[/INST]");
    }
}

static void write_gemma(struct chat_writer *w, const wisp_message *messages, size_t n) {
    const size_t systems = messages[0].role == WISP_ROLE_SYSTEM;
    chat_mark(w, "<bos>");
    for (size_t i = systems; i < n; i++) {
        chat_mark(w, "<start_of_turn>");
        chat_text(w, messages[i].role == WISP_ROLE_ASSISTANT ? "model\n" : "user\n");
        if (systems && i == 1) {
            chat_content(w, messages[0].content);
            chat_text(w, "\n\n");
        }
        chat_content(w, trim(messages[i].content));
        chat_mark(w, "<end_of_turn>");
        chat_text(w, "\n");
    }
    chat_mark(w, "<start_of_turn>");
    chat_text(w, "model\n");
}

/* ---- Phi-3 ---------------------------------------------------------------------------------- */

/* Returns the text without the white space before it, as the vocabulary's marks take it. */
static wisp_text without_leading_space(wisp_text text) {
    struct reader reader = reader_of(text);
    const char *start = reader.at;
    for (uint32_t c = reader_next(&reader); c != READER_NONE && (unicode_flags(c) & UNICODE_SPACE);
         c = reader_next(&reader))
        start = reader.at;
    return (wisp_text){start, (size_t)(reader.end - start)};
}

/* The template has a line break after each mark. Tokenizers drop it: each mark takes all white
 * space that follows (rstrip). The marks of the three roles stand in the order of wisp_role. */
static void write_phi3(struct chat_writer *w, const wisp_message *messages, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (messages[i].role == WISP_ROLE_SYSTEM && messages[i].content.length == 0)
            continue;
        chat_mark(w, w->format->marks[messages[i].role]);
        chat_content(w, without_leading_space(messages[i].content));
        chat_mark(w, "<|end|>");
    }
    chat_mark(w, w->format->marks[WISP_ROLE_ASSISTANT]);
}

/* ---- plain ---------------------------------------------------------------------------------- */

/* Messages of the user begin lines, and the model continues the line. */
static void write_plain(struct chat_writer *w, const wisp_message *messages, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && messages[i].role != WISP_ROLE_ASSISTANT)
            chat_text(w, "\n");
        chat_content(w, messages[i].content);
    }
}

/* ---- the table ------------------------------------------------------------------------------ */

static const char start_of_chatml[] = "<|im_start|>", helpful[] = "You are a helpful assistant.",
                  qwen[] = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

const struct chat_format chat_formats[CHAT_FORMATS] = {
    {.name = "llama2",
     .marks = {"<s>", "</s>"},
     .end = "</s>",
     .alternates = true,
     .recognised = "[INST]",
     .also = "<<SYS>>",
     .write = write_llama2},
    {.name = "llama3",
     .marks = LLAMA3_MARKS,
     .end = "<|eot_id|>",
     .recognised = "<|start_header_id|>",
     .also = "<|eot_id|>",
     .lacks = {"Cutting Knowledge Date"},
     .write = write_llama3},
    {.name = "llama3.1",
     .marks = LLAMA3_MARKS,
     .end = "<|eot_id|>",
     .recognised = "<|start_header_id|>",
     .also = "Cutting Knowledge Date: December 2023",
     .write = write_llama31},
    {.name = "chatml",
     .marks = CHATML_MARKS,
     .end = "<|im_end|>",
     .recognised = start_of_chatml,
     .also = "<|im_end|>",
     .lacks = {"You are", "think>", "bos_token", "<|im_sep|>"},
     .write = write_chatml},
    {.name = "qwen2",
     .marks = CHATML_MARKS,
     .end = "<|im_end|>",
     .system = helpful,
     .recognised = start_of_chatml,
     .also = helpful,
     .lacks = {"You are Qwen", "think>"},
     .write = write_chatml},
    {.name = "qwen2.5",
     .marks = CHATML_MARKS,
     .end = "<|im_end|>",
     .system = qwen,
     .recognised = start_of_chatml,
     .also = qwen,
     .lacks = {"think>"},
     .write = write_chatml},
    {.name = "qwen3",
     .marks = CHATML_MARKS,
     .end = "<|im_end|>",
     .thinks = true,
     .recognised = start_of_chatml,
     .also = "enable_thinking",
     .lacks = {"You are"},
     .write = write_chatml},
    {.name = "lfm2",
     .marks = {"<|startoftext|>", "<|im_start|>", "<|im_end|>"},
     .end = "<|im_end|>",
     .skips_no_system = true,
     .recognised = start_of_chatml,
     .also = "bos_token",
     .lacks = {"You are", "think>", "<|im_sep|>"},
     .write = write_lfm2},
    {.name = "gemma",
     .marks = {"<bos>", "<start_of_turn>", "<end_of_turn>"},
     .end = "<end_of_turn>",
     .alternates = true,
     .recognised = "<start_of_turn>",
     .also = "<end_of_turn>",
     .write = write_gemma},
    {.name = "mistral-v1",
     .marks = {"<s>", "</s>"},
     .end = "</s>",
     .alternates = true,
     .places_spaces = true,
     .recognised = "[INST]",
     .also = " [/INST]",
     .lacks = {"<<SYS>>", "[SYSTEM_PROMPT]"},
     .write = write_mistral},
    {.name = "mistral-v3",
     .marks = {"<s>", "</s>", "[INST]", "[/INST]"},
     .end = "</s>",
     .alternates = true,
     .places_spaces = true,
     .recognised = "[INST]",
     .also = "[/INST]",
     .lacks = {"<<SYS>>", "[SYSTEM_PROMPT]", " [/INST]"},
     .write = write_mistral},
    {.name = "phi3",
     .marks = {"<|system|>", "<|user|>", "<|assistant|>", "<|end|>"},
     .end = "<|end|>",
     .recognised = "<|system|>",
     .also = "<|end|>",
     .lacks = {"bos_token", "<|tool"},
     .write = write_phi3},
    {.name = "plain", .write = write_plain},
};
