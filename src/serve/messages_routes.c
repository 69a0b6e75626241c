/* SPDX-License-Identifier: Apache-2.0
 * Anthropic's /v1/messages and /v1/messages/count_tokens: their messages become those of a
 * template, and a reply becomes blocks. Source: Anthropic's API reference. */
#include <stdlib.h>

#include "serve/api.h"
#include "serve/text_job.h"

struct exchange {
    struct text_job writing;
    bool streams;
    char id[40];
};

/* ---- requests ------------------------------------------------------------------------------- */

/* Adds the joined texts of a string or of blocks, as a JSON string. */
static bool add_texts(const struct json *content, struct text_buffer *out) {
    if (json_is(content, JSON_STRING)) {
        text_add_string(out, json_text(content));
        return true;
    }
    struct text_buffer joined = {0};
    bool good = json_is(content, JSON_ARRAY);
    for (const struct json *block = good ? content->first : NULL; block; block = block->next) {
        const struct json *text = json_get(block, "text"), *type = json_get(block, "type");
        if (json_equals(type, "text") && json_is(text, JSON_STRING))
            text_add(&joined, text->text, text->text_length);
        else if (!json_equals(type, "tool_use") && !json_equals(type, "tool_result") &&
                 !json_equals(type, "thinking"))
            good = false;
    }
    text_add_buffer(out, &joined);
    return good;
}

/* Adds the calls of tools in an assistant's blocks. */
static void add_tool_uses(const struct json *content, struct text_buffer *out) {
    bool begun = false;
    for (const struct json *block = json_is(content, JSON_ARRAY) ? content->first : NULL; block;
         block = block->next) {
        const struct json *name = json_get(block, "name"), *input = json_get(block, "input");
        const struct json *id = json_get(block, "id");
        if (!json_equals(json_get(block, "type"), "tool_use") || !json_is(name, JSON_STRING))
            continue;
        text_print(out, begun ? "," : ",\"tool_calls\":[");
        text_print(out, "{\"type\":\"function\",\"id\":");
        text_add_string(out, json_is(id, JSON_STRING) ? json_text(id) : wisp_text_of(""));
        text_print(out, ",\"function\":{\"name\":");
        text_add_string(out, json_text(name));
        text_print(out, ",\"arguments\":");
        text_add(out, input ? input->raw : "{}", input ? input->raw_length : 2);
        text_print(out, "}}");
        begun = true;
    }
    if (begun)
        text_print(out, "]");
}

/* Adds the results of tools in a user's blocks, each as a message of the role "tool". */
static bool add_tool_results(const struct json *content, struct text_buffer *out, size_t *others) {
    *others = json_is(content, JSON_ARRAY) ? content->count : 1;
    for (const struct json *block = json_is(content, JSON_ARRAY) ? content->first : NULL; block;
         block = block->next) {
        const struct json *id = json_get(block, "tool_use_id");
        if (!json_equals(json_get(block, "type"), "tool_result"))
            continue;
        text_print(out, ",{\"role\":\"tool\",\"tool_call_id\":");
        text_add_string(out, json_is(id, JSON_STRING) ? json_text(id) : wisp_text_of(""));
        text_print(out, ",\"content\":");
        if (json_is_absent(json_get(block, "content")))
            text_print(out, "\"\"");
        else if (!add_texts(json_get(block, "content"), out))
            return false;
        text_print(out, "}");
        --*others;
    }
    return true;
}

/* Adds all messages as templates take them, after "[". */
static bool add_messages(struct call *call, struct text_buffer *out) {
    const struct json *messages = json_get(call->body, "messages");
    const struct json *system = json_get(call->body, "system");
    const size_t begin = out->length;
    if (!json_is(messages, JSON_ARRAY) || messages->count == 0)
        return reply_invalid(call, "messages", "must be a list with at least one message");
    if (!json_is_absent(system)) {
        text_print(out, ",{\"role\":\"system\",\"content\":");
        if (!add_texts(system, out))
            return reply_invalid(call, "system", "must be a text or blocks of texts");
        text_print(out, "}");
    }
    for (const struct json *m = messages->first; m; m = m->next) {
        const struct json *role = json_get(m, "role"), *content = json_get(m, "content");
        const bool assistant = json_equals(role, "assistant");
        size_t others;
        if (!assistant && !json_equals(role, "user"))
            return reply_invalid(call, "messages", "a role must be \"user\" or \"assistant\"");
        if (!add_tool_results(content, out, &others))
            return reply_invalid(call, "messages", "the result of a tool must be a text");
        if (others == 0)
            continue;
        text_print(out, ",{\"role\":\"%s\",\"content\":", assistant ? "assistant" : "user");
        if (!add_texts(content, out))
            return reply_invalid(
                call, "messages",
                "content must be a text, or blocks of texts, tool_use or tool_result");
        if (assistant)
            add_tool_uses(content, out);
        text_print(out, "}");
    }
    if (out->length > begin)
        out->bytes[begin] = ' '; /* the first comma */
    return true;
}

/* Adds the tools as templates take them. */
static void add_tools(const struct json *tools, struct text_buffer *out) {
    for (const struct json *tool = json_is(tools, JSON_ARRAY) ? tools->first : NULL; tool;
         tool = tool->next) {
        const struct json *schema = json_get(tool, "input_schema");
        static const char *const texts[] = {"name", "description"};
        text_print(out, "%s{\"type\":\"function\",\"function\":{\"parameters\":",
                   tool == tools->first ? "" : ",");
        text_add(out, schema ? schema->raw : "{}", schema ? schema->raw_length : 2);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            const struct json *value = json_get(tool, texts[i]);
            if (json_is(value, JSON_STRING)) {
                text_print(out, ",\"%s\":", texts[i]);
                text_add_string(out, json_text(value));
            }
        }
        text_print(out, "}}");
    }
}

/* Makes the conversation of a request: its JSON is rewritten, and parsed as that of others. */
static bool take_request(struct exchange *x) {
    struct text_job *w = &x->writing;
    struct call *call = w->call;
    struct text_buffer out = {0};
    const struct json *rewritten = NULL;
    wisp_error error = {0};
    json_to_bool(json_get(call->body, "stream"), &x->streams);
    if (!text_job_can_run(w))
        return false;
    text_print(&out, "{\"messages\":[");
    bool good = add_messages(call, &out);
    text_print(&out, "],\"tools\":[");
    add_tools(json_get(call->body, "tools"), &out);
    text_print(&out, "]}");
    char *copy = good && !out.failed ? arena_copy_text(&call->arena, out.bytes, out.length) : NULL;
    const size_t length = out.length;
    free(out.bytes);
    if (!good)
        return false;
    if (!copy ||
        json_parse(&call->arena, copy, length, "messages", &rewritten, &error) != WISP_OK) {
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
        return false;
    }
    return text_job_take_messages(w, json_get(rewritten, "messages"), json_get(rewritten, "tools"));
}

/* ---- replies -------------------------------------------------------------------------------- */

static const char *stop_reason(const struct exchange *x, bool calls) {
    switch (x->writing.result.end) {
    case WISP_END_LENGTH:
    case WISP_END_CONTEXT:
        return "max_tokens";
    case WISP_END_STOP:
        return "stop_sequence";
    default:
        return calls ? "tool_use" : "end_turn";
    }
}

static void add_usage(const struct exchange *x, struct text_buffer *out) {
    const wisp_generation *r = &x->writing.result;
    text_print(out,
               "\"usage\":{\"input_tokens\":%zu,\"cache_read_input_tokens\":%zu,"
               "\"output_tokens\":%zu}",
               r->prompt_tokens - r->reused_tokens, r->reused_tokens, r->tokens);
}

static void add_text_block(wisp_text text, struct text_buffer *out) {
    text_print(out, "{\"type\":\"text\",\"text\":");
    text_add_string(out, text);
    text_print(out, "}");
}

static void add_tool_block(const struct json *call, struct text_buffer *out) {
    const struct json *function = json_get(call, "function"), *id = json_get(call, "id");
    const struct json *name = json_get(function, "name");
    const struct json *arguments = json_get(function, "arguments");
    text_print(out, "{\"type\":\"tool_use\",\"id\":");
    text_add_string(out, json_is(id, JSON_STRING) ? json_text(id) : wisp_text_of("toolu_1"));
    text_print(out, ",\"name\":");
    text_add_string(out, json_is(name, JSON_STRING) ? json_text(name) : wisp_text_of(""));
    text_print(out, ",\"input\":");
    text_add(out, arguments ? arguments->raw : "{}", arguments ? arguments->raw_length : 2);
    text_print(out, "}");
}

/* Adds the blocks of a reply, with commas between. Returns whether there are calls of tools. */
static bool add_blocks(struct exchange *x, struct text_buffer *out) {
    const struct json *message = text_job_tool_message(&x->writing);
    const struct json *content = json_get(message, "content");
    const struct json *calls = json_get(message, "tool_calls");
    if (!calls) {
        add_text_block((wisp_text){x->writing.text.bytes, x->writing.text.length}, out);
        return false;
    }
    const bool has_text = json_is(content, JSON_STRING) && content->text_length > 0;
    if (has_text)
        add_text_block(json_text(content), out);
    for (const struct json *call = calls->first; call; call = call->next) {
        text_print(out, "%s", has_text || call != calls->first ? "," : "");
        add_tool_block(call, out);
    }
    return true;
}

static void begin_message(const struct exchange *x, struct text_buffer *out) {
    text_print(out, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", x->id);
    text_add_string(out, wisp_text_of(x->writing.call->served->of.name));
    text_print(out, ",\"content\":[");
}

static void add_stop(const struct exchange *x, bool calls, struct text_buffer *out) {
    text_print(out, "\"stop_reason\":\"%s\",\"stop_sequence\":null", stop_reason(x, calls));
}

static void reply_whole(struct exchange *x) {
    struct text_buffer out = {0};
    begin_message(x, &out);
    const bool calls = add_blocks(x, &out);
    text_print(&out, "],");
    add_stop(x, calls, &out);
    text_print(&out, ",");
    add_usage(x, &out);
    text_print(&out, "}");
    reply_json(x->writing.call, &out);
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Sends an event whose data is {"type": name, DATA}. Returns false if the client has gone. */
static bool send_event(struct exchange *x, const char *name, const struct text_buffer *data) {
    struct text_buffer event = {0};
    text_print(&event, "event: %s\ndata: {\"type\":\"%s\"", name, name);
    if (data && data->length > 0) {
        text_add(&event, ",", 1);
        text_add(&event, data->bytes, data->length);
    }
    text_print(&event, "}\n\n");
    const bool good = !event.failed && !(data && data->failed) &&
                      web_send(x->writing.call->request, event.bytes, event.length);
    free(event.bytes);
    return good;
}

static bool send_printed(struct exchange *x, const char *name, struct text_buffer *data) {
    const bool good = send_event(x, name, data);
    free(data->bytes);
    *data = (struct text_buffer){0};
    return good;
}

static bool begin_stream(struct exchange *x) {
    struct text_buffer data = {0};
    if (x->writing.call->request->status != 0)
        return true;
    web_begin_stream(x->writing.call->request, "text/event-stream");
    text_print(&data, "\"message\":");
    begin_message(x, &data);
    text_print(&data, "],\"stop_reason\":null,\"stop_sequence\":null,");
    add_usage(x, &data);
    text_print(&data, "}");
    if (!send_printed(x, "message_start", &data))
        return false;
    text_print(&data, "\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    return send_printed(x, "content_block_start", &data);
}

static bool send_text(struct exchange *x, wisp_text text) {
    struct text_buffer data = {0};
    text_print(&data, "\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":");
    text_add_string(&data, text);
    text_print(&data, "}");
    return send_printed(x, "content_block_delta", &data);
}

static bool receive(struct text_job *writing, const wisp_piece *piece) {
    struct exchange *x = writing->context;
    if (!x->streams || x->writing.has_tools)
        return true;
    return begin_stream(x) && (piece->text.length == 0 || send_text(x, piece->text));
}

/* Sends a call of a tool as a block of its own. */
static void send_tool(struct exchange *x, const struct json *call, size_t index) {
    const struct json *arguments = json_get(json_get(call, "function"), "arguments");
    struct text_buffer data = {0};
    text_print(&data, "\"index\":%zu,\"content_block\":", index);
    add_tool_block(call, &data);
    send_printed(x, "content_block_start", &data);
    text_print(&data,
               "\"index\":%zu,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":", index);
    text_add_string(&data, arguments ? (wisp_text){arguments->raw, arguments->raw_length}
                                     : wisp_text_of("{}"));
    text_print(&data, "}");
    send_printed(x, "content_block_delta", &data);
    text_print(&data, "\"index\":%zu", index);
    send_printed(x, "content_block_stop", &data);
}

static void end_stream(struct exchange *x, const wisp_error *error) {
    struct text_buffer data = {0};
    if (error->status != WISP_OK) {
        text_print(&data, "\"error\":{\"type\":\"api_error\",\"message\":");
        text_add_string(&data, wisp_text_of(public_message(error)));
        text_print(&data, "}");
        send_printed(x, "error", &data);
        web_end_stream(x->writing.call->request);
        return;
    }
    const struct json *message = text_job_tool_message(&x->writing);
    const struct json *content = json_get(message, "content");
    const struct json *calls = json_get(message, "tool_calls");
    begin_stream(x);
    if (calls && json_is(content, JSON_STRING) && content->text_length > 0)
        send_text(x, json_text(content));
    else if (x->writing.has_tools && !calls && x->writing.text.length > 0)
        send_text(x, (wisp_text){x->writing.text.bytes, x->writing.text.length});
    text_print(&data, "\"index\":0");
    send_printed(x, "content_block_stop", &data);
    size_t index = 1;
    for (const struct json *call = calls ? calls->first : NULL; call; call = call->next)
        send_tool(x, call, index++);
    text_print(&data, "\"delta\":{");
    add_stop(x, calls != NULL, &data);
    text_print(&data, "},");
    add_usage(x, &data);
    send_printed(x, "message_delta", &data);
    send_event(x, "message_stop", NULL);
    web_end_stream(x->writing.call->request);
}

/* ---- routes --------------------------------------------------------------------------------- */

static void run_messages(struct call *call) {
    struct exchange x = {.writing = {.call = call, .receive = receive}};
    wisp_error error = {0};
    x.writing.context = &x;
    call_new_id(call, "msg_", x.id, sizeof x.id);
    if (take_request(&x) && text_job_take_options(&x.writing)) {
        const bool good = text_job_run(&x.writing, &error);
        if (x.streams && (good || call->request->status == 200))
            end_stream(&x, &error);
        else if (good)
            reply_whole(&x);
    }
    text_job_release(&x.writing);
}

static void run_count(struct call *call) {
    struct exchange x = {.writing = {.call = call}};
    wisp_error error = {0};
    struct text_buffer text = {0};
    size_t count = 0;
    if (!take_request(&x))
        return;
    if (wisp_chat_tokenize(call->served->model, &x.writing.conversation, NULL, 0, &count, &error) !=
        WISP_OK) {
        reply_error(call, &error);
        return;
    }
    text_print(&text, "{\"input_tokens\":%zu}", count);
    reply_json(call, &text);
}

const struct route messages_routes[] = {
    {"POST", "/v1/messages", run_messages}, {"POST", "/v1/messages/count_tokens", run_count}, {0}};
