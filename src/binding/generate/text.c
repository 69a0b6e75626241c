/* SPDX-License-Identifier: Apache-2.0 */
#include "binding/generate/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/byte_order.h"
#include "base/number_text.h"
#include "engine/conversation.h"
#include "engine/requests.h"

struct text {
    struct writing *writing;
    struct text *next;
    size_t index;
    wisp_generate_options options;
    wisp_grammar *grammar;  /* of the options */
    wisp_message *messages; /* [n_messages] */
    size_t n_messages;
    wisp_conversation conversation;
    wisp_text prompt;
    struct token_list reply_to; /* the prompt where there are messages */
    bool has_ended;
};

struct writing {
    struct engine *engine;
    struct arena arena;         /* owns the texts, and what their options and messages point to */
    struct text *first, **last; /* `last` is where the next text goes */
    size_t n;
    wisp_generation *results; /* [n] */
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
        free(text->messages);
        free(text->reply_to.ids);
    }
    arena_release(&writing->arena);
    free(writing);
}

/* ---- options -------------------------------------------------------------------------------- */

/* Options that are a float or an unsigned 32-bit number, by the names of wisp.h. */
static const struct {
    const char *name;
    size_t offset;
    bool is_float;
} numbers[] = {
#define FLOAT(field) {#field, offsetof(wisp_generate_options, sampling.field), true}
#define WHOLE(field) {#field, offsetof(wisp_generate_options, sampling.field), false}
    FLOAT(temperature),
    FLOAT(top_p),
    FLOAT(min_p),
    FLOAT(typical_p),
    FLOAT(repetition_penalty),
    FLOAT(presence_penalty),
    FLOAT(frequency_penalty),
    WHOLE(top_k),
    WHOLE(penalty_window),
    {"max_tokens", offsetof(wisp_generate_options, max_tokens), false},
    {"logprobs", offsetof(wisp_generate_options, logprobs), false},
    {"keep_tokens", offsetof(wisp_generate_options, keep_tokens), false},
};

static wisp_status fail_description(struct writing *writing) {
    return fail(&writing->engine->error, WISP_ERROR_ARGUMENT, NULL, "texts", "no description");
}

/* Sets an option to a number, a double, after which the option's name stands. js/generator.js has
 * checked that it is in the range of its type. */
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
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strcmp(numbers[i].name, name) == 0) {
            char *place = (char *)&text->options + numbers[i].offset;
            if (numbers[i].is_float)
                *(float *)place = (float)number;
            else
                *(uint32_t *)place = (uint32_t)number;
            return WISP_OK;
        }
    if (strcmp(name, "seed") == 0)
        text->options.sampling.seed = (uint64_t)number;
    else if (strcmp(name, "temperature_last") == 0)
        text->options.sampling.temperature_last = number != 0;
    else if (strcmp(name, "context_shift") == 0)
        text->options.context_shift = number != 0;
    else if (strcmp(name, "no_thinking") == 0)
        text->conversation.no_thinking = number != 0;
    else
        return fail(error, WISP_ERROR_ARGUMENT, NULL, name, "there is no such option");
    return WISP_OK;
}

/* Adds a stop text: the text ends before it. */
static wisp_status add_stop(struct text *text, const char *bytes, size_t length) {
    wisp_error *error = &text->writing->engine->error;
    wisp_generate_options *o = &text->options;
    const char **stop;
    ARENA_TAKE(&text->writing->arena, stop, o->stops + 1, error);
    if (o->stops > 0)
        memcpy(stop, o->stop, o->stops * sizeof *stop);
    stop[o->stops] = arena_copy_text(&text->writing->arena, bytes, length);
    if (!stop[o->stops])
        return fail_memory(error, length);
    o->stop = stop;
    o->stops++;
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
    if (status == WISP_ERROR_FORMAT && !error->field[0]) /* the schema is no JSON */
        snprintf(error->field, sizeof error->field, "json_schema");
    return status;
}

/* ---- the texts ------------------------------------------------------------------------------ */

/* Appends a piece to the JSON of the run. */
static bool take_piece(void *context, const wisp_piece *piece) {
    struct text *text = context;
    struct engine *engine = text->writing->engine;
    put(engine, "%s{\"text\":\"", text->writing->pieces++ ? "," : "");
    put_escaped(engine, piece->text.bytes, piece->text.length);
    put(engine, "\",\"id\":%d", piece->id);
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

static void take_end(void *context, const wisp_generation *result) {
    struct text *text = context;
    (void)result;
    text->has_ended = true;
}

/* Adds a message of a conversation: its role, a 0, and its content. */
static wisp_status add_message(struct text *text, const char *bytes, size_t length) {
    wisp_error *error = &text->writing->engine->error;
    const size_t size = (text->n_messages + 1) * sizeof *text->messages;
    wisp_message *messages = realloc(text->messages, size);
    const char *role = arena_copy_text(&text->writing->arena, bytes, length);
    if (messages)
        text->messages = messages;
    if (!messages || !role)
        return fail_memory(error, size + length);
    wisp_message *message = &messages[text->n_messages];
    const size_t role_length = strlen(role);
    if (!wisp_role_find(role, &message->role) || role_length == length)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "role", "there is no role '%s'", role);
    message->content = (wisp_text){role + role_length + 1, length - role_length - 1};
    text->n_messages++;
    return WISP_OK;
}

/* Makes the text a reply to the messages, in the chat format of a terminated name; without a byte
 * it is the model's own. Adds the token that ends the reply to those that end the text. */
static wisp_status reply_to_messages(struct text *text, const char *bytes, size_t length) {
    wisp_error *error = &text->writing->engine->error;
    wisp_generate_options *o = &text->options;
    int32_t end, *stop_id;
    const char *format = arena_copy_text(&text->writing->arena, bytes, length);
    if (!format)
        return fail_memory(error, length);
    text->conversation.messages = text->messages;
    text->conversation.n = text->n_messages;
    text->conversation.format = length > 0 ? format : NULL;
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

/* The functions that add a part of a description (js/text-engine.js) to a text, by the number that
 * the part begins with. Number 0 begins a text and has no function. */
static wisp_status (*const add_part[])(struct text *text, const char *bytes, size_t length) = {
    NULL,        set_number, add_stop,    set_stop_ids,      set_bias,
    set_grammar, set_schema, add_message, reply_to_messages, set_prompt,
};

/* Reads the texts from their description. It is a list of parts, each of which is a number, the
 * number of its bytes, and these bytes. Numbers have their low byte first, on every machine. */
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
        if (head[0] > 0) {
            TRY(add_part[head[0]](text, part, head[1]));
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
    TRY(read_texts(writing, description, length));
    ARENA_TAKE(&writing->arena, requests, writing->n, error);
    ARENA_TAKE(&writing->arena, writing->results, writing->n, error);
    for (struct text *text = writing->first; text; text = text->next) {
        text->options.piece = take_piece;
        text->options.ended = take_end;
        text->options.context = text;
        requests[text->index] = (wisp_request){.prompt = text->prompt,
                                               .ids = text->reply_to.ids,
                                               .n_ids = text->reply_to.count,
                                               .options = &text->options};
    }
    writing->is_open = true;
    return requests_open(&writing->requests, writing->engine->session, requests, writing->n,
                         at_once, writing->results, error);
}

bool writing_ended(const struct writing *writing) {
    return requests_ended(&writing->requests);
}

size_t writing_pieces(const struct writing *writing) {
    return writing->pieces;
}

EXPORT("writing_run")
wisp_status writing_run(struct writing *writing, double seconds) {
    struct engine *engine = writing->engine;
    writing->pieces = 0;
    begin(engine, "{\"pieces\":[");
    TRY(requests_run(&writing->requests, seconds, &engine->error));
    put(engine, "],\"ended\":%s,\"results\":[", writing_ended(writing) ? "true" : "false");
    for (const struct text *text = writing->first; text; text = text->next) {
        const wisp_generation *result = &writing->results[text->index];
        put(engine,
            "%s{\"end\":\"%s\",\"promptTokens\":%zu,\"reusedTokens\":%zu,\"tokens\":%zu,"
            "\"promptSeconds\":%s,\"seconds\":%s,\"droppedTokens\":%zu}",
            text->index ? "," : "", wisp_end_name(text->has_ended ? result->end : WISP_END_CALLER),
            result->prompt_tokens, result->reused_tokens, result->tokens,
            number_text(result->prompt_seconds, 9).text, number_text(result->seconds, 9).text,
            result->dropped_tokens);
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

EXPORT("engine_chat_format") const char *engine_chat_format(struct engine *engine) {
    const char *name = NULL;
    wisp_model_chat_format(engine->model, &name, &engine->error);
    return name;
}

EXPORT("engine_detokenize")
const char *engine_detokenize(struct engine *engine, const int32_t *ids, size_t n) {
    begin(engine, "\"");
    for (size_t i = 0; i < n; i++) {
        wisp_text text;
        if (wisp_token_text(engine->model, ids[i], &text))
            put_escaped(engine, text.bytes, text.length);
    }
    put(engine, "\"");
    return engine->out_of_memory ? NULL : engine->text;
}
