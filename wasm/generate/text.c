/* SPDX-License-Identifier: Apache-2.0
 * The functions with which js/text-engine.js generates text. A text is written little by little:
 * text_new, text_set for each option, text_add_message for each message of a conversation,
 * text_open, text_run until it has ended, text_free. An engine has one text at a time, and makes no
 * other call until it is freed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "binding/engine.h"
#include "engine/conversation.h"
#include "engine/requests.h"

struct text {
    struct engine *engine;
    wisp_generate_options options;
    struct arena arena;     /* owns what the options and the messages point to */
    wisp_message *messages; /* [n_messages] */
    size_t n_messages;
    wisp_conversation conversation;
    struct token_list prompt;
    wisp_generation result;
    struct requests requests;
    bool is_open;
    size_t pieces; /* that this text_run has handed out */
};

/* Returns NULL where there is no memory. */
EXPORT("text_new") struct text *text_new(struct engine *engine) {
    struct text *text = calloc(1, sizeof *text);
    if (text)
        text->engine = engine;
    return text;
}

EXPORT("text_free") void text_free(struct text *text) {
    if (text->is_open)
        requests_close(&text->requests);
    arena_release(&text->arena);
    free(text->messages);
    free(text->prompt.ids);
    free(text);
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
    else if (strcmp(name, "no_thinking") == 0)
        text->conversation.no_thinking = number != 0;
    else
        return fail(&text->engine->error, WISP_ERROR_ARGUMENT, NULL, name,
                    "there is no such option");
    return WISP_OK;
}

/* Sets the stop texts to `n` strings, which lie one after the other, each with its terminator. */
EXPORT("text_set_stops")
wisp_status text_set_stops(struct text *text, const char *strings, size_t length, size_t n) {
    wisp_error *error = &text->engine->error;
    const char **stop;
    char *copy;
    ARENA_TAKE(&text->arena, stop, n + 1, error);
    ARENA_TAKE(&text->arena, copy, length + 1, error);
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
    ARENA_TAKE(&text->arena, copy, n + 1, &text->engine->error);
    memcpy(copy, ids, n * sizeof *ids);
    text->options.stop_id = copy;
    text->options.stop_ids = n;
    return WISP_OK;
}

/* Sets what is added to the logits of tokens: values [n], each an id and a float. */
EXPORT("text_set_bias")
wisp_status text_set_bias(struct text *text, const wisp_token_value *values, size_t n) {
    wisp_token_value *copy;
    ARENA_TAKE(&text->arena, copy, n + 1, &text->engine->error);
    memcpy(copy, values, n * sizeof *values);
    text->options.sampling.bias = copy;
    text->options.sampling.biases = n;
    return WISP_OK;
}

/* ---- the text ------------------------------------------------------------------------------- */

/* Appends a piece to the JSON of the run. */
static bool take_piece(void *context, const wisp_piece *piece) {
    struct text *text = context;
    struct engine *engine = text->engine;
    put(engine, "%s{\"text\":\"", text->pieces++ ? "," : "");
    put_escaped(engine, piece->text.bytes, piece->text.length);
    put(engine, "\",\"id\":%d", piece->id);
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

/* Adds a message of a conversation. */
EXPORT("text_add_message")
wisp_status text_add_message(struct text *text, const char *role, const char *content,
                             size_t length) {
    wisp_error *error = &text->engine->error;
    const size_t bytes = (text->n_messages + 1) * sizeof *text->messages;
    wisp_message *messages = realloc(text->messages, bytes);
    if (!messages)
        return fail_memory(error, bytes);
    text->messages = messages;
    wisp_message *message = &messages[text->n_messages];
    const char *copy = arena_copy_text(&text->arena, content, length);
    if (!copy)
        return fail_memory(error, length);
    message->content = (wisp_text){copy, length};
    if (!wisp_role_find(role, &message->role))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "role", "there is no role '%s'", role);
    text->n_messages++;
    return WISP_OK;
}

/* Converts the messages to the ids of the prompt, and adds the token that ends the reply. */
static wisp_status encode_messages(struct text *text, wisp_error *error) {
    wisp_generate_options *o = &text->options;
    int32_t end, *stop_id;
    text->conversation.messages = text->messages;
    text->conversation.n = text->n_messages;
    TRY(conversation_encode(text->engine->model, &text->conversation, &text->prompt, &end, error));
    if (end < 0)
        return WISP_OK;
    ARENA_TAKE(&text->arena, stop_id, o->stop_ids + 1, error);
    if (o->stop_ids > 0)
        memcpy(stop_id, o->stop_id, o->stop_ids * sizeof *stop_id);
    stop_id[o->stop_ids++] = end;
    o->stop_id = stop_id;
    return WISP_OK;
}

/* Begins the text. Where messages were added it is the reply to them, in the chat format `prompt`,
 * and in the model's own where `prompt` is NULL. Else it continues the prompt. */
EXPORT("text_open")
wisp_status text_open(struct text *text, const char *prompt, size_t length) {
    wisp_error *error = &text->engine->error;
    const wisp_generate_options *options = &text->options;
    wisp_request request = {.prompt = {prompt, length}, .options = options};
    text->options.piece = take_piece;
    text->options.context = text;
    if (text->n_messages > 0) {
        text->conversation.format = prompt;
        TRY(encode_messages(text, error));
        request = (wisp_request){
            .ids = text->prompt.ids, .n_ids = text->prompt.count, .options = options};
    }
    text->is_open = true;
    return requests_open(&text->requests, text->engine->session, &request, 1, 1, &text->result,
                         error);
}

/* Goes on for about `seconds`, or until the text has ended. text_json then has the pieces. */
EXPORT("text_run")
wisp_status text_run(struct text *text, double seconds) {
    struct engine *engine = text->engine;
    const wisp_generation *result = &text->result;
    text->pieces = 0;
    begin(engine, "{\"pieces\":[");
    TRY(requests_run(&text->requests, seconds, &engine->error));
    put(engine,
        "],\"ended\":%s,\"result\":{\"end\":\"%s\",\"promptTokens\":%zu,\"reusedTokens\":%zu,"
        "\"tokens\":%zu,\"promptSeconds\":%.9g,\"seconds\":%.9g}}",
        requests_ended(&text->requests) ? "true" : "false", wisp_end_name(result->end),
        result->prompt_tokens, result->reused_tokens, result->tokens, result->prompt_seconds,
        result->seconds);
    return engine->out_of_memory ? fail_memory(&engine->error, engine->capacity) : WISP_OK;
}

/* Returns JSON of the last text_run: its pieces, whether the text has ended, and the result so far.
 */
EXPORT("text_json") const char *text_json(const struct text *text) {
    return text->engine->text;
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
