/* SPDX-License-Identifier: Apache-2.0
 * Routes that write text: OpenAI's /v1/chat/completions and /v1/completions.
 * Source: OpenAI's API reference. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "serve/api.h"
#include "serve/text_job.h"

/* A reply in one of the two forms. */
struct completion {
    struct text_job writing;
    const struct form *form;
    bool streams, usage; /* `usage`: the stream ends with the numbers of tokens */
    bool holds;          /* the text may be calls of tools, and is handed out at its end */
    bool asks_logprobs;
    uint64_t top;                /* likely tokens of each token's entry */
    struct text_buffer logprobs; /* the entries, with commas between */
    char id[40];
    time_t created;
};

/* How the two APIs differ. */
struct form {
    const char *prefix, *object, *chunk;
    void (*add_logprob)(struct completion *c, const wisp_piece *piece);
};

/* Begins an object with what all replies have, up to "choices". */
static void begin_object(const struct completion *c, const char *object, struct text_buffer *out) {
    text_print(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", c->id,
               object, (int64_t)c->created);
    text_add_string(out, wisp_text_of(c->writing.call->served->of.name));
}

static void add_usage(const struct completion *c, struct text_buffer *out) {
    const wisp_generation *result = &c->writing.result;
    text_print(out,
               "{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,\"total_tokens\":%zu,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
               result->prompt_tokens, result->tokens, result->prompt_tokens + result->tokens,
               result->reused_tokens);
}

/* ---- log-probabilities ---------------------------------------------------------------------- */

static void add_entry(const struct completion *c, int32_t id, float logprob,
                      struct text_buffer *out) {
    wisp_text text = {"", 0};
    wisp_token_text(c->writing.call->served->model, id, &text);
    text_print(out, "{\"token\":");
    text_add_string(out, text);
    text_print(out, ",\"logprob\":");
    text_add_number(out, (double)logprob, 9);
    text_print(out, ",\"bytes\":[");
    for (size_t i = 0; i < text.length; i++)
        text_print(out, "%s%u", i ? "," : "", (unsigned)(unsigned char)text.bytes[i]);
    text_print(out, "]");
}

static void add_chat_logprob(struct completion *c, const wisp_piece *piece) {
    struct text_buffer *out = &c->logprobs;
    text_print(out, "%s", out->length ? "," : "");
    add_entry(c, piece->id, piece->logprob, out);
    text_print(out, ",\"top_logprobs\":[");
    for (size_t i = 0; i < piece->likely_count && i < c->top; i++) {
        text_print(out, "%s", i ? "," : "");
        add_entry(c, piece->likely[i].id, piece->likely[i].value, out);
        text_print(out, "}");
    }
    text_print(out, "]}");
}

/* In the older API the entries are columns; a row of them is enough for clients that read both. */
static void add_text_logprob(struct completion *c, const wisp_piece *piece) {
    struct text_buffer *out = &c->logprobs;
    text_print(out, "%s", out->length ? "," : "");
    text_add_number(out, (double)piece->logprob, 9);
}

static void add_logprobs(const struct completion *c, struct text_buffer *out) {
    if (!c->asks_logprobs) {
        text_print(out, "null");
        return;
    }
    text_print(out, c->writing.chats ? "{\"content\":[" : "{\"token_logprobs\":[");
    text_add(out, c->logprobs.bytes, c->logprobs.length);
    text_print(out, "]}");
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Sends an event, and empties the buffer. Returns false if the client has gone. */
static bool send_event(struct completion *c, struct text_buffer *event) {
    text_print(event, "\n\n");
    const bool good =
        !event->failed && web_send(c->writing.call->request, event->bytes, event->length);
    free(event->bytes);
    *event = (struct text_buffer){0};
    return good;
}

/* Sends a chunk. `delta` is what its choice adds, in JSON; `reason` ends the text, or is NULL. */
static bool send_chunk(struct completion *c, const struct text_buffer *delta, const char *reason) {
    struct text_buffer event = {0};
    text_print(&event, "data: ");
    begin_object(c, c->form->chunk, &event);
    text_print(&event, ",\"choices\":[{\"index\":0,");
    if (delta)
        text_add(&event, delta->bytes, delta->length);
    else
        text_print(&event, c->writing.chats ? "\"delta\":{}" : "\"text\":\"\"");
    text_print(&event, ",\"logprobs\":");
    add_logprobs(c, &event);
    c->logprobs.length = 0;
    if (reason)
        text_print(&event, ",\"finish_reason\":\"%s\"}]}", reason);
    else
        text_print(&event, ",\"finish_reason\":null}]}");
    return send_event(c, &event);
}

static bool send_text(struct completion *c, wisp_text text) {
    struct text_buffer delta = {0};
    text_print(&delta, c->writing.chats ? "\"delta\":{\"content\":" : "\"text\":");
    text_add_string(&delta, text);
    if (c->writing.chats)
        text_print(&delta, "}");
    const bool good = send_chunk(c, &delta, NULL);
    free(delta.bytes);
    return good;
}

static bool begin_stream(struct completion *c) {
    if (c->writing.call->request->status != 0)
        return true;
    struct text_buffer delta = {0};
    web_begin_stream(c->writing.call->request, "text/event-stream");
    if (!c->writing.chats)
        return true;
    text_print(&delta, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}");
    const bool good = send_chunk(c, &delta, NULL);
    free(delta.bytes);
    return good;
}

static bool receive(struct text_job *writing, const wisp_piece *piece) {
    struct completion *c = writing->context;
    if (c->asks_logprobs && piece->id >= 0)
        c->form->add_logprob(c, piece);
    if (!c->streams || c->holds)
        return true;
    return begin_stream(c) && (piece->text.length == 0 || send_text(c, piece->text));
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* Adds the calls of a message as chunks have them: with their index, and arguments as text. */
static void add_calls(struct completion *c, const struct json *message, struct text_buffer *out) {
    const struct json *calls = json_get(message, "tool_calls");
    size_t index = 0;
    text_print(out, "[");
    for (const struct json *call = calls ? calls->first : NULL; call; call = call->next, index++) {
        const struct json *function = json_get(call, "function");
        const struct json *id = json_get(call, "id"), *name = json_get(function, "name");
        const struct json *arguments = json_get(function, "arguments");
        text_print(out, "%s{\"index\":%zu,\"type\":\"function\",\"id\":", index ? "," : "", index);
        if (json_is(id, JSON_STRING))
            text_add_string(out, json_text(id));
        else
            text_print(out, "\"call_%s_%zu\"", c->id, index);
        text_print(out, ",\"function\":{\"name\":");
        text_add_string(out, json_is(name, JSON_STRING) ? json_text(name) : wisp_text_of(""));
        text_print(out, ",\"arguments\":");
        text_add_string(out, arguments ? (wisp_text){arguments->raw, arguments->raw_length}
                                       : wisp_text_of("{}"));
        text_print(out, "}}");
    }
    text_print(out, "]");
}

/* Adds the message of a reply with calls of tools. Returns whether it has some. */
static bool add_tool_message(struct completion *c, struct text_buffer *out) {
    const struct json *message = text_job_tool_message(&c->writing);
    const struct json *content = json_get(message, "content");
    if (!message)
        return false;
    text_print(out, "{\"role\":\"assistant\",\"content\":");
    if (json_is(content, JSON_STRING) && content->text_length > 0)
        text_add_string(out, json_text(content));
    else
        text_print(out, "null");
    text_print(out, ",\"tool_calls\":");
    add_calls(c, message, out);
    text_print(out, "}");
    return true;
}

static void add_message(struct completion *c, struct text_buffer *out, const char **reason) {
    text_print(out, "\"message\":");
    if (add_tool_message(c, out)) {
        *reason = "tool_calls";
        return;
    }
    text_print(out, "{\"role\":\"assistant\",\"content\":");
    text_add_string(out, (wisp_text){c->writing.text.bytes, c->writing.text.length});
    text_print(out, "}");
}

static void reply_whole(struct completion *c) {
    struct text_buffer out = {0};
    const char *reason = text_job_reason(&c->writing);
    begin_object(c, c->form->object, &out);
    text_print(&out, ",\"choices\":[{\"index\":0,");
    if (c->writing.chats)
        add_message(c, &out, &reason);
    else {
        text_print(&out, "\"text\":");
        text_add_string(&out, (wisp_text){c->writing.text.bytes, c->writing.text.length});
    }
    text_print(&out, ",\"logprobs\":");
    add_logprobs(c, &out);
    text_print(&out, ",\"finish_reason\":\"%s\"}],\"usage\":", reason);
    add_usage(c, &out);
    text_print(&out, "}");
    reply_json(c->writing.call, &out);
}

/* Sends the text or the calls that were held back. Returns the reason of the end. */
static const char *send_held(struct completion *c) {
    struct text_buffer delta = {0};
    const char *reason = text_job_reason(&c->writing);
    text_print(&delta, "\"delta\":");
    if (add_tool_message(c, &delta)) {
        send_chunk(c, &delta, NULL);
        reason = "tool_calls";
    } else if (c->writing.text.length > 0)
        send_text(c, (wisp_text){c->writing.text.bytes, c->writing.text.length});
    free(delta.bytes);
    return reason;
}

static void end_stream(struct completion *c, const wisp_error *error) {
    struct text_buffer event = {0};
    if (error->status != WISP_OK) {
        text_print(&event, "data: {\"error\":{\"type\":\"server_error\",\"message\":");
        text_add_string(&event, wisp_text_of(public_message(error)));
        text_print(&event, "}}");
        send_event(c, &event);
    } else {
        begin_stream(c);
        send_chunk(c, NULL, c->holds ? send_held(c) : text_job_reason(&c->writing));
        if (c->usage) {
            text_print(&event, "data: ");
            begin_object(c, c->form->chunk, &event);
            text_print(&event, ",\"choices\":[],\"usage\":");
            add_usage(c, &event);
            text_print(&event, "}");
            send_event(c, &event);
        }
    }
    text_print(&event, "data: [DONE]");
    send_event(c, &event);
    web_end_stream(c->writing.call->request);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Reads "logprobs": a bool beside "top_logprobs", or in the older API their number. */
static bool take_logprobs(struct completion *c) {
    const struct json *body = c->writing.call->body, *value = json_get(body, "logprobs");
    const struct json *top = json_get(body, "top_logprobs");
    bool asked = false;
    if (json_is(value, JSON_NUMBER)) {
        top = value;
        asked = true;
    } else if (!json_is_absent(value) && !json_to_bool(value, &asked)) {
        reply_problem(c->writing.call, 400, "invalid_request_error", "logprobs",
                      "logprobs: must be true, false or a number");
        return false;
    }
    if (!json_is_absent(top) && (!json_to_u64(top, &c->top) || c->top > 100)) {
        reply_problem(c->writing.call, 400, "invalid_request_error", "top_logprobs",
                      "top_logprobs: must be a whole number from 0 to 100");
        return false;
    }
    c->asks_logprobs = asked;
    c->writing.options.logprobs = asked ? (uint32_t)(c->top ? c->top : 1) : 0;
    return true;
}

static bool take_request(struct completion *c, bool chats) {
    struct text_job *w = &c->writing;
    const struct json *body = w->call->body;
    json_to_bool(json_get(body, "stream"), &c->streams);
    json_to_bool(json_get(json_get(body, "stream_options"), "include_usage"), &c->usage);
    if (!text_job_can_run(w))
        return false;
    if (!text_job_take_options(w) || !take_logprobs(c))
        return false;
    if (chats)
        return text_job_take_messages(w, json_get(body, "messages"), json_get(body, "tools"));
    const struct json *prompt = json_get(body, "prompt");
    if (json_is(prompt, JSON_ARRAY) && prompt->count == 1)
        prompt = prompt->first;
    if (!json_is(prompt, JSON_STRING)) {
        reply_problem(w->call, 400, "invalid_request_error", "prompt", "prompt: must be a text");
        return false;
    }
    w->prompt = json_text(prompt);
    return true;
}

static void complete(struct call *call, const struct form *form, bool chats) {
    struct completion c = {.form = form, .created = time(NULL)};
    wisp_error error = {0};
    c.writing = (struct text_job){.call = call, .receive = receive, .context = &c};
    call_new_id(call, form->prefix, c.id, sizeof c.id);
    if (take_request(&c, chats)) {
        c.holds = c.writing.has_tools;
        const bool good = text_job_run(&c.writing, &error);
        if (c.streams && (good || call->request->status == 200))
            end_stream(&c, &error);
        else if (good)
            reply_whole(&c);
    }
    free(c.logprobs.bytes);
    text_job_release(&c.writing);
}

static void run_chat(struct call *call) {
    static const struct form form = {"chatcmpl-", "chat.completion", "chat.completion.chunk",
                                     add_chat_logprob};
    complete(call, &form, true);
}

static void run_completions(struct call *call) {
    static const struct form form = {"cmpl-", "text_completion", "text_completion",
                                     add_text_logprob};
    complete(call, &form, false);
}

const struct route chat_routes[] = {
    {"POST", "/v1/chat/completions", run_chat}, {"POST", "/v1/completions", run_completions}, {0}};
