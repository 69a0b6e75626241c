/* SPDX-License-Identifier: Apache-2.0 */
#include "chat/tool_calls.h"

#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "engine/model.h"

/* JSON that is written if there is room. */
struct output {
    char *text; /* [capacity] */
    size_t length, capacity;
};

static void put(struct output *o, const char *bytes, size_t n) {
    if (n > 0 && n <= o->capacity && o->length <= o->capacity - n)
        memcpy(o->text + o->length, bytes, n);
    o->length += n;
}

static void put_text(struct output *o, const char *text) {
    put(o, text, strlen(text));
}

static wisp_status write_to_output(void *context, const void *bytes, size_t length,
                                   wisp_error *error) {
    (void)error;
    put(context, bytes, length);
    return WISP_OK;
}

static void put_string(struct output *o, wisp_text text) {
    const struct byte_sink sink = {write_to_output, o};
    json_write_string(&sink, text, NULL);
}

/* Writes to `out` (NULL: nowhere) what tokens stand for up to the first `most` bytes of them with
 * control tokens spelled. These are written too if `special`. */
static wisp_status spell(const wisp_model *model, const int32_t *ids, size_t n, bool special,
                         size_t most, char *out, size_t *length, wisp_error *error) {
    size_t spelled = 0;
    *length = 0;
    for (size_t i = 0; i < n && spelled < most; i++) {
        wisp_text text, spelling = {0};
        if (!wisp_token_text(model, ids[i], &text))
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "ids", "%d is not a token", (int)ids[i]);
        const bool is_control = text.length == 0 && wisp_token_spelling(model, ids[i], &spelling);
        const wisp_text shown = is_control ? spelling : text;
        const size_t bytes = shown.length < most - spelled ? shown.length : most - spelled;
        spelled += bytes;
        if (is_control && !special)
            continue;
        if (out)
            memcpy(out + *length, shown.bytes, bytes);
        *length += bytes;
    }
    return WISP_OK;
}

static void put_message(struct output *o, wisp_text content, const struct tool_calls *calls) {
    put_text(o, "{\"role\": \"assistant\", \"content\": ");
    put_string(o, content);
    put_text(o, ", \"tool_calls\": [");
    size_t i = 0;
    for (const struct tool_call *call = calls->first; call; call = call->next) {
        char id[32]; /* of 9 characters, as some templates want it */
        snprintf(id, sizeof id, "call%05zu", ++i);
        put_text(o, i > 1 ? ", {" : "{");
        put_text(o, "\"type\": \"function\", \"id\": \"");
        put_text(o, id);
        put_text(o, "\", \"function\": {\"name\": ");
        put_string(o, call->name);
        put_text(o, ", \"arguments\": ");
        put(o, call->arguments.bytes, call->arguments.length);
        put_text(o, "}}");
    }
    put_text(o, "]}");
}

static wisp_status find(const wisp_model *model, const int32_t *ids, size_t n, struct arena *arena,
                        struct output *output, wisp_error *error) {
    struct tool_calls calls;
    size_t length, plain;
    char *text;
    TRY(spell(model, ids, n, true, SIZE_MAX, NULL, &length, error));
    ARENA_TAKE(arena, text, length, error);
    TRY(spell(model, ids, n, true, SIZE_MAX, text, &length, error));
    TRY(tool_calls_find(arena, (wisp_text){text, length}, &calls, error));
    if (calls.count == 0)
        return WISP_OK;
    ARENA_TAKE(arena, text, length, error);
    TRY(spell(model, ids, n, false, calls.begin, text, &plain, error));
    put_message(output, (wisp_text){text, plain}, &calls);
    return WISP_OK;
}

wisp_status wisp_chat_tool_calls(const wisp_model *model, const int32_t *ids, size_t n, char *json,
                                 size_t capacity, size_t *length, wisp_error *error) {
    struct output output = {.text = json, .capacity = capacity};
    struct arena arena = {0};
    TRY(require(model, "model", error));
    TRY(require(length, "length", error));
    if (n > 0)
        TRY(require(ids, "ids", error));
    if (capacity > 0)
        TRY(require(json, "json", error));
    const wisp_status status = find(model, ids, n, &arena, &output, error);
    arena_release(&arena);
    *length = status == WISP_OK ? output.length : 0;
    return status;
}
