/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/text_job.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "serve/writers.h"

static bool refuse(struct text_job *w, const char *field, const char *problem) {
    return reply_invalid(w->call, field, problem);
}

static bool no_memory(struct text_job *w) {
    reply_problem(w->call, 500, "server_error", NULL, "not enough memory for the request");
    return false;
}

/* ---- options -------------------------------------------------------------------------------- */

/* Options that are numbers, and where they go. OpenAI's have the bounds of its reference. */
static const struct {
    const char *name;
    double least, most;
    size_t place; /* in wisp_generate_options: of a float or a uint32_t */
    enum { FLOAT, WHOLE } kind;
    float zero; /* instead of a float that is 0, which the library takes for none given */
} numbers[] = {
#define PLACE(field) offsetof(wisp_generate_options, field)
    {"temperature", 0, 100, PLACE(sampling.temperature), FLOAT, 0},
    {"top_p", 0, 1, PLACE(sampling.top_p), FLOAT, FLT_MIN},
    {"min_p", 0, 1, PLACE(sampling.min_p), FLOAT, 0},
    {"typical_p", 0, 1, PLACE(sampling.typical_p), FLOAT, FLT_MIN},
    {"top_k", 0, 1e9, PLACE(sampling.top_k), WHOLE, 0}, /* 0: all, as in other servers */
    {"presence_penalty", -2, 2, PLACE(sampling.presence_penalty), FLOAT, 0},
    {"frequency_penalty", -2, 2, PLACE(sampling.frequency_penalty), FLOAT, 0},
    {"repetition_penalty", 0.01, 100, PLACE(sampling.repetition_penalty), FLOAT, 0},
    {"max_tokens", 1, 1e9, PLACE(max_tokens), WHOLE, 0},
    {"max_completion_tokens", 1, 1e9, PLACE(max_tokens), WHOLE, 0},
    {"max_output_tokens", 1, 1e9, PLACE(max_tokens), WHOLE, 0},
#undef PLACE
};

static bool take_number(struct text_job *w, size_t i) {
    const struct json *value = json_get(w->call->body, numbers[i].name);
    double number;
    if (json_is_absent(value))
        return true;
    if (!json_to_double(value, &number) || !(number >= numbers[i].least) ||
        !(number <= numbers[i].most) || (numbers[i].kind == WHOLE && number != floor(number))) {
        reply_problem(w->call, 400, "invalid_request_error", numbers[i].name,
                      "%s: must be a %snumber from %g to %g", numbers[i].name,
                      numbers[i].kind == WHOLE ? "whole " : "", numbers[i].least, numbers[i].most);
        return false;
    }
    char *place = (char *)&w->options + numbers[i].place;
    const float real = (float)number;
    if (numbers[i].kind == FLOAT)
        memcpy(place, real != 0 ? &real : &numbers[i].zero, sizeof real);
    else
        memcpy(place, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
    return true;
}

/* Texts that end the text: "stop", a string or a list, or Anthropic's "stop_sequences". */
static bool take_stops(struct text_job *w) {
    const struct json *stop = json_get(w->call->body, "stop");
    if (json_is_absent(stop))
        stop = json_get(w->call->body, "stop_sequences");
    if (json_is_absent(stop))
        return true;
    const struct json *first = json_is(stop, JSON_ARRAY) ? stop->first : stop;
    const size_t n = json_is(stop, JSON_ARRAY) ? stop->count : 1;
    const char **texts = arena_allocate(&w->call->arena, (n + 1) * sizeof *texts);
    if (!texts)
        return no_memory(w);
    size_t i = 0;
    for (const struct json *item = first; i < n; item = item->next, i++) {
        if (!json_is(item, JSON_STRING) || item->text_length == 0 ||
            strlen(item->text) != item->text_length)
            return refuse(w, "stop", "must be a text, or a list of texts, none of them empty");
        texts[i] = item->text;
    }
    w->options.stop = texts;
    w->options.stops = n;
    return true;
}

static bool take_bias(struct text_job *w) {
    const struct json *bias = json_get(w->call->body, "logit_bias");
    if (json_is_absent(bias) || (json_is(bias, JSON_OBJECT) && bias->count == 0))
        return true;
    if (!json_is(bias, JSON_OBJECT))
        return refuse(w, "logit_bias", "must be an object of token ids and numbers");
    wisp_token_value *values = arena_allocate(&w->call->arena, bias->count * sizeof *values);
    if (!values)
        return no_memory(w);
    size_t n = 0;
    for (const struct json *item = bias->first; item; item = item->next, n++) {
        char *end;
        double value;
        const long id = strtol(item->key, &end, 10);
        if (*end || end == item->key || id < 0 || id > INT32_MAX || !json_to_double(item, &value))
            return refuse(w, "logit_bias", "must be an object of token ids and numbers");
        values[n] = (wisp_token_value){(int32_t)id, (float)value};
    }
    w->options.sampling.bias = values;
    w->options.sampling.biases = n;
    return true;
}

static bool open_schema(struct text_job *w, wisp_text schema) {
    wisp_error error = {0};
    if (wisp_grammar_open_schema(schema, &w->grammar, &error) != WISP_OK) {
        reply_error(w->call, &error);
        return false;
    }
    w->options.grammar = w->grammar;
    return true;
}

/* "response_format": a text, any JSON object, or JSON by a schema. */
static bool take_format(struct text_job *w) {
    const struct json *format = json_get(w->call->body, "response_format");
    const struct json *schema = json_get(json_get(format, "json_schema"), "schema");
    static const char *const places[] = {"text", "output_config"}; /* of responses, of messages */
    for (size_t i = 0; i < sizeof places / sizeof *places && json_is_absent(format); i++) {
        format = json_get(json_get(w->call->body, places[i]), "format");
        schema = json_get(format, "schema");
    }
    const struct json *type = json_get(format, "type");
    if (json_is_absent(format) || json_equals(type, "text"))
        return true;
    if (json_equals(type, "json_object"))
        return open_schema(w, wisp_text_of("{\"type\": \"object\"}"));
    if (!json_equals(type, "json_schema") || json_is_absent(schema))
        return refuse(
            w, "response_format",
            "must be of type \"text\", \"json_object\", or \"json_schema\" with a schema");
    return open_schema(w, (wisp_text){schema->raw, schema->raw_length});
}

static bool take_seed(struct text_job *w) {
    const struct json *seed = json_get(w->call->body, "seed");
    int64_t number = 0;
    if (json_is_absent(seed)) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        w->options.sampling.seed =
            (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid();
        return true;
    }
    if (!json_to_i64(seed, &number))
        return refuse(w, "seed", "must be a whole number");
    w->options.sampling.seed = (uint64_t)number;
    return true;
}

static bool is_flag(const struct json *value) {
    bool flag;
    return json_to_bool(value, &flag);
}

static bool is_false(const struct json *value) {
    bool flag = true;
    return json_to_bool(value, &flag) && !flag;
}

static bool is_empty(const struct json *value) {
    return json_equals(value, "");
}

static bool is_one(const struct json *value) {
    uint64_t n = 0;
    return json_to_u64(value, &n) && n == 1;
}

static bool is_list(const struct json *value) {
    return json_is(value, JSON_ARRAY);
}

/* Fields by which the APIs ask for something else than this server writes, unless they are so. */
static const struct {
    const char *name;
    bool (*is_fine)(const struct json *value);
    const char *problem;
} others[] = {
    {"stream", is_flag, "must be true or false"},
    {"n", is_one, "this server writes one text for a request"},
    {"best_of", is_one, "this server writes one text for a request"},
    {"echo", is_false, "this server does not repeat the prompt"},
    {"suffix", is_empty, "this server writes what follows a prompt only"},
    {"tools", is_list, "must be a list"},
};

bool text_job_can_run(struct text_job *w) {
    if (!w->call->served->writers)
        reply_problem(w->call, 400, "invalid_request_error", "model", "the model %s writes no text",
                      w->call->served->of.name);
    return w->call->served->writers != NULL;
}

bool text_job_take_options(struct text_job *w) {
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const struct json *value = json_get(w->call->body, others[i].name);
        if (!json_is_absent(value) && !others[i].is_fine(value))
            return refuse(w, others[i].name, others[i].problem);
    }
    w->options.sampling.temperature = 1; /* the APIs' default */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!take_number(w, i))
            return false;
    return take_stops(w) && take_bias(w) && take_seed(w) && take_format(w);
}

/* ---- messages ------------------------------------------------------------------------------- */

/* Adds the members of chat_template_kwargs, each with a comma before it. */
static void add_variables(const struct json *variables, struct text_buffer *out) {
    for (const struct json *v = variables ? variables->first : NULL; v; v = v->next) {
        text_add(out, ",", 1);
        text_add_string(out, (wisp_text){v->key, v->key_length});
        text_add(out, ":", 1);
        text_add(out, v->raw, v->raw_length);
    }
}

bool text_job_take_messages(struct text_job *w, const struct json *messages,
                            const struct json *tools) {
    const struct json *choice = json_get(w->call->body, "tool_choice");
    const struct json *variables = json_get(w->call->body, "chat_template_kwargs");
    if (!json_is(messages, JSON_ARRAY) || messages->count == 0)
        return refuse(w, "messages", "must be a list with at least one message");
    if (!json_is_absent(variables) && !json_is(variables, JSON_OBJECT))
        return refuse(w, "chat_template_kwargs", "must be an object");
    w->chats = true;
    w->messages = messages;
    w->conversation.format = w->call->served->chat_format;
    w->conversation.json = (wisp_text){messages->raw, messages->raw_length};
    w->has_tools = json_is(tools, JSON_ARRAY) && tools->count > 0 && !json_equals(choice, "none");
    if (w->has_tools && !json_is_absent(choice) && !json_equals(choice, "auto") &&
        !json_equals(json_get(choice, "type"), "auto"))
        return refuse(w, "tool_choice", "this server leaves the choice to the model: \"auto\"");
    struct text_buffer text = {0};
    text_print(&text, "{\"add_generation_prompt\":true");
    if (w->has_tools) {
        text_print(&text, ",\"tools\":");
        text_add(&text, tools->raw, tools->raw_length);
    }
    add_variables(variables, &text);
    text_print(&text, "}");
    char *copy = text.failed ? NULL : arena_copy_text(&w->call->arena, text.bytes, text.length);
    w->conversation.variables = (wisp_text){copy, text.length};
    free(text.bytes);
    static _Thread_local char date[24];
    const time_t now = time(NULL);
    struct tm day;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", localtime_r(&now, &day));
    w->conversation.date = date;
    return copy || no_memory(w);
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool receive_piece(void *context, const wisp_piece *piece) {
    struct text_job *w = context;
    text_add(&w->text, piece->text.bytes, piece->text.length);
    if (piece->id >= 0) {
        if (w->n_ids == w->most_ids) {
            const size_t most = w->most_ids * 2 + 256;
            int32_t *ids = realloc(w->ids, most * sizeof *ids);
            if (!ids) {
                w->text.failed = true;
                return false;
            }
            w->ids = ids;
            w->most_ids = most;
        }
        w->ids[w->n_ids++] = piece->id;
    }
    if (w->text.failed)
        return false;
    return !w->receive || w->receive(w, piece);
}

/* Makes "" of each content that is null, which clients send beside calls of tools. Returns whether
 * there was one. */
static bool fill_contents(struct text_job *w) {
    const wisp_text json = w->conversation.json;
    char *copy = w->chats ? arena_copy_text(&w->call->arena, json.bytes, json.length) : NULL;
    bool found = false;
    for (const struct json *m = copy ? w->messages->first : NULL; m; m = m->next) {
        const struct json *content = json_get(m, "content");
        if (content && json_is_absent(content)) {
            memcpy(copy + (content->raw - json.bytes), "\"\"  ", content->raw_length);
            found = true;
        }
    }
    if (found)
        w->conversation.json.bytes = copy;
    return found;
}

static wisp_status write_text(struct text_job *w, wisp_session *session, wisp_error *error) {
    return w->chats ? wisp_chat(session, &w->conversation, &w->options, &w->result, error)
                    : wisp_generate(session, w->prompt, &w->options, &w->result, error);
}

bool text_job_run(struct text_job *w, wisp_error *error) {
    struct writers *writers = w->call->served->writers;
    wisp_session *session = NULL;
    bool busy = false;
    *error = (wisp_error){0};
    if (writers_take(writers, &session, &busy, error) != WISP_OK) {
        if (busy)
            reply_problem(w->call, 429, "rate_limit_error", NULL, "the server is busy: %s",
                          error->message);
        else
            reply_error(w->call, error);
        return false;
    }
    w->options.piece = receive_piece;
    w->options.context = w;
    wisp_status status = write_text(w, session, error);
    /* Some templates ask whether a content is null, and others fail if it is. */
    if (status != WISP_OK && w->n_ids == 0 && w->call->request->status == 0 && fill_contents(w))
        status = write_text(w, session, error);
    writers_give(writers, session);
    metrics_count_tokens(&w->call->api->metrics, w->result.prompt_tokens + w->result.tokens);
    if (status == WISP_OK && w->text.failed && w->call->request->status == 0)
        return no_memory(w);
    if (status != WISP_OK && w->call->request->status == 0) {
        reply_error(w->call, error);
        return false;
    }
    return status == WISP_OK;
}

const struct json *text_job_tool_message(struct text_job *w) {
    const wisp_model *model = w->call->served->model;
    const struct json *message;
    wisp_error error;
    size_t length = 0;
    if (!w->has_tools ||
        wisp_chat_tool_calls(model, w->ids, w->n_ids, NULL, 0, &length, &error) != WISP_OK ||
        length == 0)
        return NULL;
    char *text = arena_allocate(&w->call->arena, length + 1);
    if (!text ||
        wisp_chat_tool_calls(model, w->ids, w->n_ids, text, length, &length, &error) != WISP_OK ||
        json_parse(&w->call->arena, text, length, "reply", &message, &error) != WISP_OK)
        return NULL;
    return message;
}

const char *text_job_reason(const struct text_job *w) {
    return w->result.end == WISP_END_LENGTH || w->result.end == WISP_END_CONTEXT ? "length"
                                                                                 : "stop";
}

void text_job_release(struct text_job *w) {
    wisp_grammar_close(w->grammar);
    free(w->text.bytes);
    free(w->ids);
}
