/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/generate/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/byte_order.h"
#include "base/checked.h"
#include "base/json.h"
#include "base/number_text.h"
#include "engine/conversation.h"
#include "engine/generation.h"
#include "engine/requests.h"

struct text {
    struct writing *writing;
    struct text *next;
    size_t index;
    wisp_generate_options options;
    wisp_grammar *grammar; /* of the options */
    size_t stop_room;      /* of the options' stop texts */
    wisp_conversation conversation;
    wisp_text prompt;
    struct token_list reply_to;    /* the prompt if there are messages */
    bool may_call;                 /* the conversation has tools */
    struct token_list reply;       /* the ids of the reply then */
    const wisp_generation *result; /* NULL: it failed when it was read */
    bool has_ended;
    wisp_error *failure; /* of this text only; NULL: none */
};

struct writing {
    struct engine *engine;
    struct arena arena;         /* owns the texts, and what their options and messages point to */
    struct text *first, **last; /* `last` is where the next text goes */
    size_t n;
    wisp_generation *results; /* [n], of texts that did not fail when they were read */
    struct requests requests;
    bool is_open;
    size_t pieces; /* that this writing_run has handed out */
};

EXPORT("writing_new") struct writing *writing_new(struct engine *engine) {
    struct writing *writing = calloc(1, sizeof *writing);
    if (writing) {
        writing->engine = engine;
        writing->last = &writing->first;
    }
    return writing;
}

EXPORT("writing_free") void writing_free(struct writing *writing) {
    if (writing->is_open)
        requests_close(&writing->requests);
    for (struct text *text = writing->first; text; text = text->next) {
        wisp_grammar_close(text->grammar);
        free(text->reply_to.ids);
        free(text->reply.ids);
    }
    arena_release(&writing->arena);
    free(writing);
}

/* ---- options -------------------------------------------------------------------------------- */

enum kind {
    FLOAT,
    WHOLE,
    SEED,
    FLAG,
    NO_FLAG
}; /* NO_FLAG: the field is true if the option is not */

/* Options that are a number or a flag, by the names of js/base/text-options.js in small letters. */
static const struct {
    const char *name;
    enum kind kind;
    size_t offset; /* in struct text */
} numbers[] = {
#define TEXT(field) offsetof(struct text, options.field)
    {"max_tokens", WHOLE, TEXT(max_tokens)},
    {"temperature", FLOAT, TEXT(sampling.temperature)},
    {"temperature_last", FLAG, TEXT(sampling.temperature_last)},
    {"top_k", WHOLE, TEXT(sampling.top_k)},
    {"top_p", FLOAT, TEXT(sampling.top_p)},
    {"min_p", FLOAT, TEXT(sampling.min_p)},
    {"typical_p", FLOAT, TEXT(sampling.typical_p)},
    {"repetition_penalty", FLOAT, TEXT(sampling.repetition_penalty)},
    {"presence_penalty", FLOAT, TEXT(sampling.presence_penalty)},
    {"frequency_penalty", FLOAT, TEXT(sampling.frequency_penalty)},
    {"penalty_window", WHOLE, TEXT(sampling.penalty_window)},
    {"seed", SEED, TEXT(sampling.seed)},
    {"logprobs", WHOLE, TEXT(logprobs)},
    {"drafts", WHOLE, TEXT(drafts)},
    {"context_shift", FLAG, TEXT(context_shift)},
    {"keep", WHOLE, TEXT(keep_tokens)},
    {"thinking", NO_FLAG, offsetof(struct text, conversation.no_thinking)},
};

static wisp_status fail_description(struct writing *writing) {
    return fail(&writing->engine->error, WISP_ERROR_ARGUMENT, NULL, "texts", "not a description");
}

/* Sets an option to a number, a double, after which the option's name stands. js/calls/generator.js
 * has checked that it is in the range of its type. */
static wisp_status set_number(struct text *text, const char *bytes, size_t length) {
    wisp_error *error = &text->writing->engine->error;
    double number;
    if (length < sizeof number)
        return fail_description(text->writing);
    memcpy(&number, bytes, sizeof number);
    swap_file_numbers(&number, 1, sizeof number);
    const char *name =
        arena_copy_text(&text->writing->arena, bytes + sizeof number, length - sizeof number);
    if (!name)
        return fail_memory(error, length);
    size_t i = 0;
    while (i < sizeof numbers / sizeof *numbers && strcmp(numbers[i].name, name) != 0)
        i++;
    if (i == sizeof numbers / sizeof *numbers)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, name, "there is no such option");
    void *place = (char *)text + numbers[i].offset;
    switch (numbers[i].kind) {
    case FLOAT:
        *(float *)place = (float)number;
        break;
    case WHOLE:
        *(uint32_t *)place = (uint32_t)number;
        break;
    case SEED:
        *(uint64_t *)place = (uint64_t)number;
        break;
    case FLAG:
    case NO_FLAG:
        *(bool *)place = (number != 0) == (numbers[i].kind == FLAG);
        break;
    }
    return WISP_OK;
}

/* Adds a stop text: the text ends before it. */
static wisp_status add_stop(struct text *text, const char *bytes, size_t length) {
    wisp_error *error = &text->writing->engine->error;
    wisp_generate_options *o = &text->options;
    if (o->stops == text->stop_room) {
        const char **stop;
        text->stop_room = 2 * text->stop_room + 4;
        ARENA_TAKE(&text->writing->arena, stop, text->stop_room, error);
        if (o->stops > 0)
            memcpy(stop, o->stop, o->stops * sizeof *stop);
        o->stop = stop;
    }
    const char *copy = arena_copy_text(&text->writing->arena, bytes, length);
    if (!copy)
        return fail_memory(error, length);
    ((const char **)(uintptr_t)o->stop)[o->stops++] = copy;
    return WISP_OK;
}

/* Sets the token ids that end the text. */
static wisp_status set_stop_ids(struct text *text, const char *bytes, size_t length) {
    int32_t *ids;
    const size_t n = length / sizeof *ids;
    ARENA_TAKE(&text->writing->arena, ids, n + 1, &text->writing->engine->error);
    memcpy(ids, bytes, n * sizeof *ids);
    swap_file_numbers(ids, n, sizeof *ids);
    text->options.stop_id = ids;
    text->options.stop_ids = n;
    return WISP_OK;
}

/* Sets what is added to the logits of tokens: for each an id and a float. */
static wisp_status set_bias(struct text *text, const char *bytes, size_t length) {
    wisp_token_value *values;
    const size_t n = length / sizeof *values;
    ARENA_TAKE(&text->writing->arena, values, n + 1, &text->writing->engine->error);
    memcpy(values, bytes, n * sizeof *values);
    swap_file_numbers(values, 2 * n, sizeof values->id);
    text->options.sampling.bias = values;
    text->options.sampling.biases = n;
    return WISP_OK;
}

/* Sets the grammar that the text has to match, in GBNF. */
static wisp_status set_grammar(struct text *text, const char *bytes, size_t length) {
    const wisp_text source = {bytes, length};
    TRY(wisp_grammar_open(source, &text->grammar, &text->writing->engine->error));
    text->options.grammar = text->grammar;
    return WISP_OK;
}

/* Sets the JSON Schema under which the text has to be valid. */
static wisp_status set_schema(struct text *text, const char *bytes, size_t length) {
    const wisp_text source = {bytes, length};
    wisp_error *error = &text->writing->engine->error;
    const wisp_status status = wisp_grammar_open_schema(source, &text->grammar, error);
    text->options.grammar = text->grammar;
    if (status == WISP_ERROR_FORMAT && !error->field[0]) /* the schema is not JSON */
        snprintf(error->field, sizeof error->field, "json_schema");
    return status;
}

/* ---- the texts ------------------------------------------------------------------------------ */

/* Appends a piece to the JSON of the run. */
static bool take_piece(void *context, const wisp_piece *piece) {
    struct text *text = context;
    struct engine *engine = text->writing->engine;
    if (text->may_call && piece->id >= 0 &&
        token_list_add(&text->reply, piece->id, &engine->error) != WISP_OK)
        engine->out_of_memory = true;
    put(engine, "%s{\"text\":", text->writing->pieces++ ? "," : "");
    put_string(engine, piece->text);
    put(engine, ",\"id\":%d", piece->id);
    if (text->writing->n > 1)
        put(engine, ",\"index\":%zu", text->index);
    if (text->options.logprobs && piece->id >= 0) {
        put(engine, ",\"logprob\":%s,\"likely\":[", number_text((double)piece->logprob, 9).text);
        for (size_t i = 0; i < piece->likely_count; i++)
            put(engine, "%s{\"id\":%d,\"logprob\":%s}", i ? "," : "", piece->likely[i].id,
                number_text((double)piece->likely[i].value, 9).text);
        put(engine, "]");
    }
    put(engine, "}");
    return !engine->out_of_memory;
}

/* Appends the message that a reply is if it calls tools. */
static wisp_status put_calls(const struct text *text) {
    struct engine *engine = text->writing->engine;
    const struct token_list *reply = &text->reply;
    size_t length;
    char *json;
    TRY(wisp_chat_tool_calls(engine->model, reply->ids, reply->count, NULL, 0, &length,
                             &engine->error));
    if (length == 0)
        return WISP_OK;
    ARENA_TAKE(&text->writing->arena, json, length + 1, &engine->error);
    TRY(wisp_chat_tool_calls(engine->model, reply->ids, reply->count, json, length, &length,
                             &engine->error));
    put(engine, ",\"message\":%s", json);
    return WISP_OK;
}

static void take_end(void *context, const wisp_generation *result) {
    struct text *text = context;
    (void)result;
    text->has_ended = true;
}

/* Keeps the error of one of several texts. Without memory it is told that of another. */
static void take_failure(void *context, const wisp_error *error) {
    static wisp_error no_memory = {.status = WISP_ERROR_MEMORY, .message = "out of memory"};
    struct text *text = context;
    text->failure = arena_allocate(&text->writing->arena, sizeof *text->failure);
    if (text->failure)
        *text->failure = *error;
    else
        text->failure = &no_memory;
}

/* Returns a string of the description as it is there until the writing is freed. */
static const char *text_of(const struct json *string) {
    return json_is(string, JSON_STRING) ? string->text : NULL;
}

static wisp_text raw_of(const struct json *value) {
    return value ? (wisp_text){value->raw, value->raw_length} : (wisp_text){0};
}

/* Makes the text a reply to a conversation in JSON: a line with an object that has perhaps
 * "variables", "format", "template" and "date" of wisp_conversation, and the array of its messages,
 * which may be long. Adds the token that ends the reply to those that end the text. */
static wisp_status reply_to_messages(struct text *text, const char *bytes, size_t length) {
    wisp_error *error = &text->writing->engine->error;
    wisp_generate_options *o = &text->options;
    const struct json *root;
    int32_t end, *stop_id;
    const char *line_end = memchr(bytes, '\n', length);
    if (!line_end)
        return fail_description(text->writing);
    const size_t line = (size_t)(line_end - bytes);
    TRY(json_parse(&text->writing->arena, bytes, line, NULL, &root, error));
    const struct json *template = json_get(root, "template");
    text->conversation.json = (wisp_text){line_end + 1, length - line - 1};
    text->conversation.variables = raw_of(json_get(root, "variables"));
    text->may_call = json_is(json_get(json_get(root, "variables"), "tools"), JSON_ARRAY) &&
                     json_get(json_get(root, "variables"), "tools")->count > 0;
    text->conversation.format = text_of(json_get(root, "format"));
    text->conversation.date = text_of(json_get(root, "date"));
    if (json_is(template, JSON_STRING))
        text->conversation.chat_template = json_text(template);
    text->reply_to.most = prompt_bound(text->writing->engine->model, o);
    TRY(conversation_encode(text->writing->engine->model, &text->conversation, &text->reply_to,
                            &end, error));
    if (end < 0)
        return WISP_OK;
    ARENA_TAKE(&text->writing->arena, stop_id, o->stop_ids + 1, error);
    if (o->stop_ids > 0)
        memcpy(stop_id, o->stop_id, o->stop_ids * sizeof *stop_id);
    stop_id[o->stop_ids++] = end;
    o->stop_id = stop_id;
    return WISP_OK;
}

/* Makes the text continue a prompt. */
static wisp_status set_prompt(struct text *text, const char *bytes, size_t length) {
    const char *copy = arena_copy_text(&text->writing->arena, bytes, length);
    text->prompt = (wisp_text){copy, length};
    return copy ? WISP_OK : fail_memory(&text->writing->engine->error, length);
}

/* The functions that add a part of a description (js/engine/text-engine.js) to a text, by the
 * number that the part begins with. Number 0 begins a text and has no function. */
static wisp_status (*const add_part[])(struct text *text, const char *bytes, size_t length) = {
    NULL,        set_number, add_stop,          set_stop_ids, set_bias,
    set_grammar, set_schema, reply_to_messages, set_prompt,
};

/* Returns whether a text fails alone with this status. */
static bool is_own_fault(wisp_status status) {
    return status == WISP_ERROR_ARGUMENT || status == WISP_ERROR_FORMAT ||
           status == WISP_ERROR_UNSUPPORTED || status == WISP_ERROR_NOT_FOUND;
}

/* Reads the texts from their description. A text whose parts cannot be read keeps the error. It is
 * a list of parts, each of which is a number, the number of its bytes, and these bytes. Numbers
 * have their low byte first, on every machine. */
static wisp_status read_texts(struct writing *writing, const char *bytes, size_t length) {
    struct text *text = NULL;
    uint32_t head[2];
    for (size_t at = 0; at < length; at += sizeof head + head[1]) {
        const char *part = bytes + at + sizeof head;
        bool is_part = length - at >= sizeof head;
        if (is_part) {
            memcpy(head, bytes + at, sizeof head);
            swap_file_numbers(head, 2, sizeof *head);
            is_part = head[1] <= length - at - sizeof head &&
                      head[0] < sizeof add_part / sizeof *add_part && (text || head[0] == 0);
        }
        if (!is_part)
            return fail_description(writing);
        if (head[0] > 0 && text->failure)
            continue;
        if (head[0] > 0) {
            const wisp_status status = add_part[head[0]](text, part, head[1]);
            if (status != WISP_OK && !is_own_fault(status))
                return status;
            if (status != WISP_OK)
                take_failure(text, &writing->engine->error);
            continue;
        }
        ARENA_TAKE(&writing->arena, text, 1, &writing->engine->error);
        *text = (struct text){.writing = writing, .index = writing->n++};
        *writing->last = text;
        writing->last = &text->next;
    }
    return text ? WISP_OK : fail_description(writing);
}

EXPORT("writing_open")
wisp_status writing_open(struct writing *writing, const char *description, size_t length,
                         size_t at_once) {
    wisp_error *error = &writing->engine->error;
    wisp_request *requests;
    size_t n = 0;
    TRY(read_texts(writing, description, length));
    if (writing->n == 1 && writing->first->failure) {
        *error = *writing->first->failure;
        return error->status;
    }
    ARENA_TAKE(&writing->arena, requests, writing->n, error);
    ARENA_TAKE(&writing->arena, writing->results, writing->n, error);
    for (struct text *text = writing->first; text; text = text->next) {
        text->options.piece = take_piece;
        text->options.ended = take_end;
        text->options.failed = writing->n > 1 ? take_failure : NULL;
        text->options.context = text;
        if (text->failure)
            continue;
        text->result = &writing->results[n];
        requests[n++] = (wisp_request){.prompt = text->prompt,
                                       .ids = text->reply_to.ids,
                                       .n_ids = text->reply_to.count,
                                       .options = &text->options};
    }
    if (n == 0)
        return WISP_OK;
    writing->is_open = true;
    return requests_open(&writing->requests, writing->engine->session, requests, n, at_once,
                         writing->results, error);
}

bool writing_ended(const struct writing *writing) {
    return requests_ended(&writing->requests);
}

size_t writing_pieces(const struct writing *writing) {
    return writing->pieces;
}

static void put_failure(struct engine *engine, const wisp_error *error) {
    put(engine, "\"error\":{\"code\":\"%s\",\"field\":", wisp_status_name(error->status));
    put_string(engine, wisp_text_of(error->field));
    put(engine, ",\"message\":");
    put_string(engine, wisp_text_of(error->message));
    put(engine, "},");
}

EXPORT("writing_run")
wisp_status writing_run(struct writing *writing, double seconds) {
    struct engine *engine = writing->engine;
    writing->pieces = 0;
    begin(engine, "{\"pieces\":[");
    TRY(requests_run(&writing->requests, seconds, &engine->error));
    put(engine, "],\"ended\":%s,\"results\":[", writing_ended(writing) ? "true" : "false");
    for (const struct text *text = writing->first; text; text = text->next) {
        static const wisp_generation nothing = {0};
        const wisp_generation *result = text->failure ? &nothing : text->result;
        put(engine, text->index ? ",{" : "{");
        if (text->failure)
            put_failure(engine, text->failure);
        put(engine,
            "\"end\":\"%s\",\"promptTokens\":%zu,\"reusedTokens\":%zu,\"tokens\":%zu,"
            "\"promptSeconds\":%s,\"seconds\":%s,\"droppedTokens\":%zu",
            text->failure ? "error"
                          : wisp_end_name(text->has_ended ? result->end : WISP_END_CALLER),
            result->prompt_tokens, result->reused_tokens, result->tokens,
            number_text(result->prompt_seconds, 9).text, number_text(result->seconds, 9).text,
            result->dropped_tokens);
        if (text->may_call && text->has_ended)
            TRY(put_calls(text));
        put(engine, "}");
    }
    put(engine, "]}");
    return engine->out_of_memory ? fail_memory(&engine->error, engine->capacity) : WISP_OK;
}

EXPORT("engine_text") const char *engine_text(const struct engine *engine) {
    return engine->text;
}

/* ---- tokens --------------------------------------------------------------------------------- */

EXPORT("engine_logits")
wisp_status engine_logits(struct engine *engine, const int32_t *ids, size_t n, float *logits) {
    return wisp_logits(engine->session, ids, n, logits, &engine->error);
}

EXPORT("engine_score")
wisp_status engine_score(struct engine *engine, const int32_t *ids, size_t n, size_t first,
                         float *logprobs) {
    return wisp_score(engine->session, ids, n, first, logprobs, &engine->error);
}

EXPORT("engine_save")
wisp_status engine_save(struct engine *engine, void *bytes, size_t capacity, size_t *size) {
    return wisp_session_save_bytes(engine->session, bytes, capacity, size, &engine->error);
}

EXPORT("engine_load")
wisp_status engine_load(struct engine *engine, const void *bytes, size_t size) {
    return wisp_session_load_bytes(engine->session, bytes, size, &engine->error);
}

EXPORT("engine_chat_template") const char *engine_chat_template(struct engine *engine) {
    wisp_text source = {0};
    wisp_model_chat_template(engine->model, &source, &engine->error);
    return source.bytes;
}

EXPORT("engine_cache_type") const char *engine_cache_type(const struct engine *engine) {
    return wisp_cache_type_name(wisp_session_get_cache_type(engine->session));
}

EXPORT("engine_detokenize")
wisp_status engine_detokenize(struct engine *engine, const int32_t *ids, size_t n, bool continues) {
    wisp_decoder decoder = {.begun = continues}, again = decoder;
    size_t length;
    TRY(wisp_detokenize(engine->model, ids, n, &decoder, NULL, 0, &length, &engine->error));
    char *bytes = malloc(length + 1);
    if (!bytes)
        return fail_memory(&engine->error, length + 1);
    const wisp_status status =
        wisp_detokenize(engine->model, ids, n, &again, bytes, length, &length, &engine->error);
    begin(engine, "");
    put_string(engine, (wisp_text){bytes, length});
    free(bytes);
    if (status != WISP_OK)
        return status;
    return engine->out_of_memory ? fail_memory(&engine->error, engine->capacity) : WISP_OK;
}
