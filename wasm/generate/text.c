/* SPDX-License-Identifier: Apache-2.0
 * The functions with which js/text-engine.js generates text. Texts are written little by little:
 * writing_new; for each of the texts text_new, text_set for each option, and text_prompt or
 * text_add_message and text_reply; writing_open; writing_run until all have ended; writing_free. An
 * engine has one writing at a time, and makes no other call until it is freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "binding/engine.h"
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

/* Returns NULL where there is no memory. */
EXPORT("writing_new") struct writing *writing_new(struct engine *engine) {
    struct writing *writing = calloc(1, sizeof *writing);
    if (writing) {
        writing->engine = engine;
        writing->last = &writing->first;
    }
    return writing;
}

/* Adds a text. Returns NULL where there is no memory. */
EXPORT("text_new") struct text *text_new(struct writing *writing) {
    struct text *text = arena_allocate(&writing->arena, sizeof *text);
    if (text) {
        *text = (struct text){.writing = writing, .index = writing->n++};
        *writing->last = text;
        writing->last = &text->next;
    }
    return text;
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

/* Sets an option to a number. Whole numbers are those of JavaScript, checked there. */
EXPORT("text_set")
wisp_status text_set(struct text *text, const char *name, double number) {
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
        return fail(&text->writing->engine->error, WISP_ERROR_ARGUMENT, NULL, name,
                    "there is no such option");
    return WISP_OK;
}

/* Sets the stop texts to `n` strings, which lie one after the other, each with its terminator. */
EXPORT("text_set_stops")
wisp_status text_set_stops(struct text *text, const char *strings, size_t length, size_t n) {
    wisp_error *error = &text->writing->engine->error;
    const char **stop;
    char *copy;
    ARENA_TAKE(&text->writing->arena, stop, n + 1, error);
    ARENA_TAKE(&text->writing->arena, copy, length + 1, error);
    memcpy(copy, strings, length);
    for (size_t i = 0; i < n; i++, copy += strlen(copy) + 1)
        stop[i] = copy;
    text->options.stop = stop;
    text->options.stops = n;
    return WISP_OK;
}

/* Sets the token ids [n] that end the text. */
EXPORT("text_set_stop_ids")
wisp_status text_set_stop_ids(struct text *text, const int32_t *ids, size_t n) {
    int32_t *copy;
    ARENA_TAKE(&text->writing->arena, copy, n + 1, &text->writing->engine->error);
    memcpy(copy, ids, n * sizeof *ids);
    text->options.stop_id = copy;
    text->options.stop_ids = n;
    return WISP_OK;
}

/* Sets what is added to the logits of tokens: values [n], each an id and a float. */
EXPORT("text_set_bias")
wisp_status text_set_bias(struct text *text, const wisp_token_value *values, size_t n) {
    wisp_token_value *copy;
    ARENA_TAKE(&text->writing->arena, copy, n + 1, &text->writing->engine->error);
    memcpy(copy, values, n * sizeof *values);
    text->options.sampling.bias = copy;
    text->options.sampling.biases = n;
    return WISP_OK;
}

/* Sets the grammar that the text has to match: GBNF, or a JSON Schema. */
EXPORT("text_set_grammar")
wisp_status text_set_grammar(struct text *text, const char *bytes, size_t length, int is_schema) {
    const wisp_text source = {bytes, length};
    wisp_error *error = &text->writing->engine->error;
    const wisp_status status = is_schema ? wisp_grammar_open_schema(source, &text->grammar, error)
                                         : wisp_grammar_open(source, &text->grammar, error);
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
        put(engine, ",\"logprob\":%.9g,\"likely\":[", (double)piece->logprob);
        for (size_t i = 0; i < piece->likely_count; i++)
            put(engine, "%s{\"id\":%d,\"logprob\":%.9g}", i ? "," : "", piece->likely[i].id,
                (double)piece->likely[i].value);
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

/* Adds a message of a conversation. */
EXPORT("text_add_message")
wisp_status text_add_message(struct text *text, const char *role, const char *content,
                             size_t length) {
    wisp_error *error = &text->writing->engine->error;
    const size_t bytes = (text->n_messages + 1) * sizeof *text->messages;
    wisp_message *messages = realloc(text->messages, bytes);
    if (!messages)
        return fail_memory(error, bytes);
    text->messages = messages;
    wisp_message *message = &messages[text->n_messages];
    const char *copy = arena_copy_text(&text->writing->arena, content, length);
    if (!copy)
        return fail_memory(error, length);
    message->content = (wisp_text){copy, length};
    if (!wisp_role_find(role, &message->role))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "role", "there is no role '%s'", role);
    text->n_messages++;
    return WISP_OK;
}

/* Makes the text a reply to the messages, in a chat format; NULL is the model's own. Adds the token
 * that ends the reply to those that end the text. */
EXPORT("text_reply")
wisp_status text_reply(struct text *text, const char *format) {
    wisp_error *error = &text->writing->engine->error;
    wisp_generate_options *o = &text->options;
    int32_t end, *stop_id;
    text->conversation.messages = text->messages;
    text->conversation.n = text->n_messages;
    text->conversation.format = format;
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
EXPORT("text_prompt")
wisp_status text_prompt(struct text *text, const char *bytes, size_t length) {
    const char *copy = arena_copy_text(&text->writing->arena, bytes, length);
    text->prompt = (wisp_text){copy, length};
    return copy ? WISP_OK : fail_memory(&text->writing->engine->error, length);
}

/* Begins the texts, of which at most `at_once` (0: 8) are computed at a time. */
EXPORT("writing_open")
wisp_status writing_open(struct writing *writing, size_t at_once) {
    wisp_error *error = &writing->engine->error;
    wisp_request *requests;
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

/* Goes on for about `seconds`, or until all texts have ended. engine_text then has JSON: the pieces
 * of this run, whether all texts have ended, and the result of each so far, whose end is "caller"
 * until it has ended. */
EXPORT("writing_run")
wisp_status writing_run(struct writing *writing, double seconds) {
    struct engine *engine = writing->engine;
    writing->pieces = 0;
    begin(engine, "{\"pieces\":[");
    TRY(requests_run(&writing->requests, seconds, &engine->error));
    put(engine, "],\"ended\":%s,\"results\":[",
        requests_ended(&writing->requests) ? "true" : "false");
    for (const struct text *text = writing->first; text; text = text->next) {
        const wisp_generation *result = &writing->results[text->index];
        put(engine,
            "%s{\"end\":\"%s\",\"promptTokens\":%zu,\"reusedTokens\":%zu,\"tokens\":%zu,"
            "\"promptSeconds\":%.9g,\"seconds\":%.9g,\"droppedTokens\":%zu}",
            text->index ? "," : "", wisp_end_name(text->has_ended ? result->end : WISP_END_CALLER),
            result->prompt_tokens, result->reused_tokens, result->tokens, result->prompt_seconds,
            result->seconds, result->dropped_tokens);
    }
    put(engine, "]}");
    return engine->out_of_memory ? fail_memory(&engine->error, engine->capacity) : WISP_OK;
}

/* Returns the JSON of the last writing_run or search_run. */
EXPORT("engine_text") const char *engine_text(const struct engine *engine) {
    return engine->text;
}

/* ---- tokens --------------------------------------------------------------------------------- */

/* Computes the logits [n, vocabulary_size] that follow each of n token ids. */
EXPORT("engine_logits")
wisp_status engine_logits(struct engine *engine, const int32_t *ids, size_t n, float *logits) {
    return wisp_logits(engine->session, ids, n, logits, &engine->error);
}

/* Computes the log-probabilities [n - first] of the ids from `first` on, each given all before. */
EXPORT("engine_score")
wisp_status engine_score(struct engine *engine, const int32_t *ids, size_t n, size_t first,
                         float *logprobs) {
    return wisp_score(engine->session, ids, n, first, logprobs, &engine->error);
}

/* Saves what the engine has computed of its last texts: sets *size, and writes `bytes` where they
 * fit in `capacity`. */
EXPORT("engine_save")
wisp_status engine_save(struct engine *engine, void *bytes, size_t capacity, size_t *size) {
    return wisp_session_save_bytes(engine->session, bytes, capacity, size, &engine->error);
}

EXPORT("engine_load")
wisp_status engine_load(struct engine *engine, const void *bytes, size_t size) {
    return wisp_session_load_bytes(engine->session, bytes, size, &engine->error);
}

/* Returns the name of the model's chat format, or NULL and an error of wisp_model_chat_format. */
EXPORT("engine_chat_format") const char *engine_chat_format(struct engine *engine) {
    const char *name = NULL;
    wisp_model_chat_format(engine->model, &name, &engine->error);
    return name;
}

/* Returns the text that n token ids stand for, as a JSON string; NULL where there is no memory. Ids
 * that are no tokens stand for nothing. */
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
