/* SPDX-License-Identifier: Apache-2.0
 * OpenAI's /v1/responses without state: items become the messages of a template, and a reply
 * becomes items. What was said before comes with each request.
 * Source: OpenAI's API reference. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "serve/api.h"
#include "serve/text_job.h"

struct exchange {
    struct text_job writing;
    bool streams;
    char id[40], item[40]; /* of the response, and of its text */
    time_t created;
    unsigned events;          /* sent so far */
    struct text_buffer items; /* of the reply, as JSON with commas between */
    size_t n_items;
};

/* ---- requests ------------------------------------------------------------------------------- */

/* Adds a text, or the joined texts of parts, as a JSON string. */
static bool add_texts(const struct json *content, struct text_buffer *out) {
    static const char *const types[] = {"input_text", "output_text", "text"};
    if (json_is(content, JSON_STRING)) {
        text_add_string(out, json_text(content));
        return true;
    }
    struct text_buffer joined = {0};
    bool good = json_is(content, JSON_ARRAY);
    for (const struct json *part = good ? content->first : NULL; part; part = part->next) {
        const struct json *text = json_get(part, "text"), *type = json_get(part, "type");
        bool known = false;
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            known = known || json_equals(type, types[i]);
        good = good && known && json_is(text, JSON_STRING);
        if (good)
            text_add(&joined, text->text, text->text_length);
    }
    text_add_buffer(out, &joined);
    return good;
}

/* An item as a message, with a comma before it. Each returns false if the item is malformed. */

static bool add_message(const struct json *item, struct text_buffer *out) {
    const struct json *role = json_get(item, "role");
    const bool developer = json_equals(role, "developer"); /* as newer models call it */
    if (!developer && !json_equals(role, "user") && !json_equals(role, "assistant") &&
        !json_equals(role, "system"))
        return false;
    text_print(out, ",{\"role\":\"%s\",\"content\":", developer ? "system" : role->text);
    const bool good = add_texts(json_get(item, "content"), out);
    text_print(out, "}");
    return good;
}

static bool add_call(const struct json *item, struct text_buffer *out) {
    const struct json *id = json_get(item, "call_id"), *name = json_get(item, "name");
    const struct json *arguments = json_get(item, "arguments");
    if (!json_is(id, JSON_STRING) || !json_is(name, JSON_STRING) ||
        !json_is(arguments, JSON_STRING))
        return false;
    text_print(out, ",{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":"
                    "\"function\",\"id\":");
    text_add_string(out, json_text(id));
    text_print(out, ",\"function\":{\"name\":");
    text_add_string(out, json_text(name));
    text_print(out, ",\"arguments\":");
    text_add(out, arguments->text, arguments->text_length);
    text_print(out, "}}]}");
    return arguments->text_length > 0;
}

static bool add_output(const struct json *item, struct text_buffer *out) {
    const struct json *id = json_get(item, "call_id");
    if (!json_is(id, JSON_STRING))
        return false;
    text_print(out, ",{\"role\":\"tool\",\"tool_call_id\":");
    text_add_string(out, json_text(id));
    text_print(out, ",\"content\":");
    const bool good = add_texts(json_get(item, "output"), out);
    text_print(out, "}");
    return good;
}

/* Leaves out an item of thoughts: other models' thoughts are not shown to this one. */
static bool leave_out(const struct json *item, struct text_buffer *out) {
    return item && out;
}

static const struct {
    const char *type;
    bool (*add)(const struct json *item, struct text_buffer *out);
} kinds[] = {{"message", add_message},
             {"function_call", add_call},
             {"function_call_output", add_output},
             {"reasoning", leave_out}};

static bool add_item(const struct json *item, struct text_buffer *out) {
    const struct json *type = json_get(item, "type");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (json_equals(type, kinds[i].type) || (json_is_absent(type) && i == 0))
            return kinds[i].add(item, out);
    return false;
}

/* Adds all messages as templates take them, with a comma before each. */
static bool add_messages(struct call *call, struct text_buffer *out) {
    const struct json *input = json_get(call->body, "input");
    const struct json *instructions = json_get(call->body, "instructions");
    if (!json_is_absent(instructions)) {
        text_print(out, ",{\"role\":\"system\",\"content\":");
        if (!add_texts(instructions, out))
            return reply_invalid(call, "instructions", "must be a text");
        text_print(out, "}");
    }
    if (json_is(input, JSON_STRING)) {
        text_print(out, ",{\"role\":\"user\",\"content\":");
        text_add_string(out, json_text(input));
        text_print(out, "}");
        return true;
    }
    if (!json_is(input, JSON_ARRAY) || input->count == 0)
        return reply_invalid(call, "input", "must be a text, or a list with at least one item");
    for (const struct json *item = input->first; item; item = item->next)
        if (!add_item(item, out))
            return reply_invalid(
                call, "input",
                "an item must be a message of texts with a role, a function_call with "
                "call_id, name and arguments, or a function_call_output");
    return true;
}

/* Adds the tools as templates take them, with a comma before each. */
static bool add_tools(struct call *call, struct text_buffer *out) {
    const struct json *tools = json_get(call->body, "tools");
    static const char *const members[] = {"name", "description", "parameters"};
    for (const struct json *tool = json_is(tools, JSON_ARRAY) ? tools->first : NULL; tool;
         tool = tool->next) {
        if (!json_equals(json_get(tool, "type"), "function"))
            return reply_invalid(call, "tools",
                                 "this server has no tools of its own: only functions");
        text_print(out, ",{\"type\":\"function\",\"function\":{");
        bool begun = false;
        for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
            const struct json *value = json_get(tool, members[i]);
            if (json_is_absent(value))
                continue;
            text_print(out, "%s\"%s\":", begun ? "," : "", members[i]);
            text_add(out, value->raw, value->raw_length);
            begun = true;
        }
        text_print(out, "}}");
    }
    return true;
}

static bool is_no(const struct json *value) {
    bool flag = true;
    return json_to_bool(value, &flag) && !flag;
}

static bool is_disabled(const struct json *value) {
    return json_equals(value, "disabled");
}

static bool is_never(const struct json *value) {
    (void)value;
    return false;
}

/* Fields that ask for what this server does not do. */
static const struct {
    const char *name;
    bool (*is_fine)(const struct json *value);
    const char *problem;
} others[] = {
    {"previous_response_id", is_never, "this server keeps no responses: send all items"},
    {"conversation", is_never, "this server keeps no conversations: send all items"},
    {"prompt", is_never, "this server keeps no prompts"},
    {"background", is_no, "this server writes while the client waits"},
    {"truncation", is_disabled, "this server leaves out no items: \"disabled\""},
};

/* Makes a JSON list of what a function adds with commas before. */
static bool add_list(struct call *call, const char *name,
                     bool (*add)(struct call *call, struct text_buffer *out),
                     struct text_buffer *out) {
    struct text_buffer list = {0};
    const bool good = add(call, &list);
    text_print(out, "%s\"%s\":[", out->length > 1 ? "," : "", name);
    text_add(out, list.length ? list.bytes + 1 : "", list.length ? list.length - 1 : 0);
    text_print(out, "]");
    out->failed = out->failed || list.failed;
    free(list.bytes);
    return good;
}

/* Makes the conversation of a request: its JSON is rewritten, and parsed as that of others. */
static bool take_request(struct exchange *x) {
    struct call *call = x->writing.call;
    struct text_buffer out = {0};
    const struct json *rewritten = NULL;
    wisp_error error = {0};
    if (!text_job_can_run(&x->writing))
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct json *value = json_get(call->body, others[i].name);
        if (!json_is_absent(value) && !others[i].is_fine(value))
            return reply_invalid(call, others[i].name, others[i].problem);
    }
    json_to_bool(json_get(call->body, "stream"), &x->streams);
    text_print(&out, "{");
    const bool good =
        add_list(call, "messages", add_messages, &out) && add_list(call, "tools", add_tools, &out);
    text_print(&out, "}");
    char *copy = good && !out.failed ? arena_copy_text(&call->arena, out.bytes, out.length) : NULL;
    const size_t length = out.length;
    free(out.bytes);
    if (!good)
        return false;
    if (!copy) {
        reply_problem(call, 500, "server_error", NULL, "not enough memory for the request");
        return false;
    }
    if (json_parse(&call->arena, copy, length, "input", &rewritten, &error) != WISP_OK)
        return reply_invalid(call, "input", "the arguments of a function_call must be JSON");
    return text_job_take_messages(&x->writing, json_get(rewritten, "messages"),
                                  json_get(rewritten, "tools"));
}

/* ---- replies -------------------------------------------------------------------------------- */

static bool is_cut(const struct exchange *x) {
    return strcmp(text_job_reason(&x->writing), "length") == 0;
}

static void add_part(wisp_text text, struct text_buffer *out) {
    text_print(out, "{\"type\":\"output_text\",\"annotations\":[],\"text\":");
    text_add_string(out, text);
    text_print(out, "}");
}

static void add_message_item(const struct exchange *x, const char *status, wisp_text text,
                             struct text_buffer *out) {
    text_print(out,
               "{\"type\":\"message\",\"id\":\"%s\",\"status\":\"%s\",\"role\":\"assistant\","
               "\"content\":[",
               x->item, status);
    if (strcmp(status, "in_progress") != 0)
        add_part(text, out);
    text_print(out, "]}");
}

/* Returns the arguments of a call as text. */
static wisp_text arguments_of(const struct json *call) {
    const struct json *arguments = json_get(json_get(call, "function"), "arguments");
    return arguments ? (wisp_text){arguments->raw, arguments->raw_length} : wisp_text_of("{}");
}

static void add_call_item(const struct exchange *x, const struct json *call, size_t index,
                          const char *status, struct text_buffer *out) {
    const struct json *id = json_get(call, "id");
    const struct json *name = json_get(json_get(call, "function"), "name");
    const bool begins = strcmp(status, "in_progress") == 0;
    text_print(out, "{\"type\":\"function_call\",\"id\":\"fc_%s_%zu\",\"status\":\"%s\",", x->id,
               index, status);
    text_print(out, "\"call_id\":");
    if (json_is(id, JSON_STRING))
        text_add_string(out, json_text(id));
    else
        text_print(out, "\"call_%s_%zu\"", x->id, index);
    text_print(out, ",\"name\":");
    text_add_string(out, json_is(name, JSON_STRING) ? json_text(name) : wisp_text_of(""));
    text_print(out, ",\"arguments\":");
    text_add_string(out, begins ? wisp_text_of("") : arguments_of(call));
    text_print(out, "}");
}

/* Adds the response. `status` is "in_progress" before its end. */
static void add_response(const struct exchange *x, const char *status, struct text_buffer *out) {
    const wisp_generation *r = &x->writing.result;
    const wisp_generate_options *o = &x->writing.options;
    text_print(out,
               "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%" PRId64
               ",\"status\":\"%s\",\"error\":null,\"incomplete_details\":%s,\"instructions\":null,"
               "\"model\":",
               x->id, (int64_t)x->created, status,
               strcmp(status, "incomplete") == 0 ? "{\"reason\":\"max_output_tokens\"}" : "null");
    text_add_string(out, wisp_text_of(x->writing.call->served->of.name));
    text_print(out, ",\"output\":[");
    text_add(out, x->items.bytes, x->items.length);
    text_print(out, "],\"parallel_tool_calls\":true,\"previous_response_id\":null,\"store\":false,"
                    "\"tool_choice\":\"auto\",\"tools\":[],\"metadata\":{},\"temperature\":");
    text_add_number(out, (double)o->sampling.temperature, 6);
    text_print(out, ",\"top_p\":");
    text_add_number(out, o->sampling.top_p > 0 ? (double)o->sampling.top_p : 1, 6);
    if (strcmp(status, "in_progress") == 0)
        text_print(out, ",\"usage\":null}");
    else
        text_print(out,
                   ",\"usage\":{\"input_tokens\":%zu,\"input_tokens_details\":{\"cached_tokens\":"
                   "%zu},\"output_tokens\":%zu,\"output_tokens_details\":{\"reasoning_tokens\":0},"
                   "\"total_tokens\":%zu}}",
                   r->prompt_tokens, r->reused_tokens, r->tokens, r->prompt_tokens + r->tokens);
}

static const char *final_status(const struct exchange *x) {
    return is_cut(x) ? "incomplete" : "completed";
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Sends an event whose data is {"type": name, "sequence_number": n, DATA}, and empties the data.
 * Returns false if the client has gone. */
static bool send_event(struct exchange *x, const char *name, struct text_buffer *data) {
    struct text_buffer event = {0};
    text_print(&event, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u,", name, name,
               x->events++);
    text_add(&event, data->bytes, data->length);
    text_print(&event, "}\n\n");
    const bool good = !event.failed && !data->failed &&
                      web_send(x->writing.call->request, event.bytes, event.length);
    free(event.bytes);
    free(data->bytes);
    *data = (struct text_buffer){0};
    return good;
}

static bool send_response(struct exchange *x, const char *name, const char *status) {
    struct text_buffer data = {0};
    text_print(&data, "\"response\":");
    add_response(x, status, &data);
    return send_event(x, name, &data);
}

/* Begins the data of an event about an item. */
static struct text_buffer item_data(size_t index) {
    struct text_buffer data = {0};
    text_print(&data, "\"output_index\":%zu,\"item\":", index);
    return data;
}

/* Begins the data of an event about the text. */
static struct text_buffer text_data(const struct exchange *x) {
    struct text_buffer data = {0};
    text_print(&data, "\"item_id\":\"%s\",\"output_index\":0,\"content_index\":0,", x->item);
    return data;
}

static bool begin_stream(struct exchange *x) {
    if (x->writing.call->request->status != 0)
        return true;
    web_begin_stream(x->writing.call->request, "text/event-stream");
    return send_response(x, "response.created", "in_progress") &&
           send_response(x, "response.in_progress", "in_progress");
}

static bool begin_text(struct exchange *x) {
    struct text_buffer data = item_data(0);
    if (x->n_items > 0)
        return true;
    x->n_items = 1;
    add_message_item(x, "in_progress", wisp_text_of(""), &data);
    if (!send_event(x, "response.output_item.added", &data))
        return false;
    data = text_data(x);
    text_print(&data, "\"part\":");
    add_part(wisp_text_of(""), &data);
    return send_event(x, "response.content_part.added", &data);
}

static bool send_text(struct exchange *x, wisp_text text) {
    if (!begin_text(x))
        return false;
    struct text_buffer data = text_data(x);
    text_print(&data, "\"logprobs\":[],\"delta\":");
    text_add_string(&data, text);
    return send_event(x, "response.output_text.delta", &data);
}

static bool receive(struct text_job *writing, const wisp_piece *piece) {
    struct exchange *x = writing->context;
    if (!x->streams || writing->has_tools)
        return true;
    return begin_stream(x) && (piece->text.length == 0 || send_text(x, piece->text));
}

static void end_text(struct exchange *x, wisp_text text) {
    begin_text(x);
    struct text_buffer data = text_data(x);
    text_print(&data, "\"logprobs\":[],\"text\":");
    text_add_string(&data, text);
    send_event(x, "response.output_text.done", &data);
    data = text_data(x);
    text_print(&data, "\"part\":");
    add_part(text, &data);
    send_event(x, "response.content_part.done", &data);
    data = item_data(0);
    add_message_item(x, final_status(x), text, &data);
    send_event(x, "response.output_item.done", &data);
}

static void send_call(struct exchange *x, const struct json *call, size_t index) {
    static const char *const events[] = {"response.function_call_arguments.delta",
                                         "response.function_call_arguments.done"};
    struct text_buffer data = item_data(index);
    add_call_item(x, call, index, "in_progress", &data);
    send_event(x, "response.output_item.added", &data);
    for (size_t i = 0; i < 2; i++) {
        text_print(&data, "\"item_id\":\"fc_%s_%zu\",\"output_index\":%zu,\"%s\":", x->id, index,
                   index, i ? "arguments" : "delta");
        text_add_string(&data, arguments_of(call));
        send_event(x, events[i], &data);
    }
    data = item_data(index);
    add_call_item(x, call, index, "completed", &data);
    send_event(x, "response.output_item.done", &data);
}

/* ---- ends ----------------------------------------------------------------------------------- */

/* Makes the items of the reply, and sends what of them was not sent yet. */
static void settle_items(struct exchange *x) {
    const struct json *message = text_job_tool_message(&x->writing);
    const struct json *calls = json_get(message, "tool_calls");
    const struct json *content = json_get(message, "content");
    wisp_text text = {x->writing.text.bytes ? x->writing.text.bytes : "", x->writing.text.length};
    size_t index = 0;
    if (calls)
        text = json_is(content, JSON_STRING) ? json_text(content) : wisp_text_of("");
    if (!calls || text.length > 0) {
        if (x->streams && x->writing.has_tools && text.length > 0)
            send_text(x, text);
        if (x->streams)
            end_text(x, text);
        add_message_item(x, final_status(x), text, &x->items);
        index++;
    }
    for (const struct json *call = calls ? calls->first : NULL; call; call = call->next, index++) {
        text_print(&x->items, "%s", index ? "," : "");
        if (x->streams)
            send_call(x, call, index);
        add_call_item(x, call, index, "completed", &x->items);
    }
}

static void end_stream(struct exchange *x, const wisp_error *error) {
    struct text_buffer data = {0};
    if (error->status != WISP_OK) {
        text_print(&data, "\"code\":\"server_error\",\"param\":null,\"message\":");
        text_add_string(&data, wisp_text_of(public_message(error)));
        send_event(x, "error", &data);
    } else {
        begin_stream(x);
        settle_items(x);
        send_response(x, is_cut(x) ? "response.incomplete" : "response.completed", final_status(x));
    }
    web_end_stream(x->writing.call->request);
}

static void reply_whole(struct exchange *x) {
    struct text_buffer out = {0};
    settle_items(x);
    add_response(x, final_status(x), &out);
    out.failed = out.failed || x->items.failed;
    reply_json(x->writing.call, &out);
}

static void run_responses(struct call *call) {
    struct exchange x = {.writing = {.call = call, .receive = receive}, .created = time(NULL)};
    wisp_error error = {0};
    x.writing.context = &x;
    call_new_id(call, "resp_", x.id, sizeof x.id);
    call_new_id(call, "msg_", x.item, sizeof x.item);
    if (take_request(&x) && text_job_take_options(&x.writing)) {
        const bool good = text_job_run(&x.writing, &error);
        if (x.streams && (good || call->request->status == 200))
            end_stream(&x, &error);
        else if (good)
            reply_whole(&x);
    }
    free(x.items.bytes);
    text_job_release(&x.writing);
}

const struct route responses_routes[] = {{"POST", "/v1/responses", run_responses}, {0}};
