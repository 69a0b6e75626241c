/* SPDX-License-Identifier: Apache-2.0
 * Source: the chat templates that models were published with.
 * Compiled for size in WebAssembly. */
#include "chat/tool_calls.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"

/* How a family writes a call: between `open` and `close` (NULL: it needs none) stands JSON that has
 * the name too; or the name, `between` and the arguments. */
static const struct family {
    const char *open, *between, *close;
} families[] = {
    {"<tool_call>", NULL, "</tool_call>"},        /* Hermes, Qwen */
    {"<function=", ">", "</function>"},           /* Llama 3.1, Functionary, Qwen3-Coder */
    {"[TOOL_CALLS]", "[ARGS]", NULL},             /* Mistral from Small 3.2 on */
    {"[TOOL_CALLS]", NULL, NULL},                 /* Mistral before */
    {"<|tool_call|>", NULL, NULL},                /* Granite */
    {"<|START_ACTION|>", NULL, "<|END_ACTION|>"}, /* Command R7B */
    {"<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"}, /* Kimi */
    {"<\uFF5Ctool\u2581call\u2581begin\uFF5C>", "<\uFF5Ctool\u2581sep\uFF5C>",
     "<\uFF5Ctool\u2581call\u2581end\uFF5C>"}, /* DeepSeek */
    {"functools", NULL, NULL},                 /* Firefunction */
    {"<|python_tag|>", NULL, NULL},            /* Llama 3 */
    {"", NULL, NULL},                          /* Llama 3: the whole reply */
};

struct finder {
    struct arena *arena;
    const struct family *family;
    struct tool_calls *calls;
    const char *at, *end; /* what is left of the reply */
    wisp_error *error;
};

/* ---- texts ---------------------------------------------------------------------------------- */

static const char *find(const char *at, const char *end, const char *part) {
    const size_t length = strlen(part);
    for (; (size_t)(end - at) >= length; at++)
        if (memcmp(at, part, length) == 0)
            return at;
    return NULL;
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static wisp_text trim(const char *begin, const char *end) {
    while (begin < end && is_space(*begin))
        begin++;
    while (end > begin && is_space(end[-1]))
        end--;
    return (wisp_text){begin, (size_t)(end - begin)};
}

static void skip_space(struct finder *f) {
    while (f->at < f->end && is_space(*f->at))
        f->at++;
}

static bool take(struct finder *f, const char *text) {
    const size_t length = strlen(text);
    if ((size_t)(f->end - f->at) < length || memcmp(f->at, text, length) != 0)
        return false;
    f->at += length;
    return true;
}

/* Parses the JSON object or array that begins here, and moves past it. Sets *value to NULL if
 * there is none, or it does not end. */
static wisp_status take_json(struct finder *f, const struct json **value) {
    unsigned depth = 0;
    bool quoted = false;
    const char *at = f->at;
    *value = NULL;
    if (at == f->end || (*at != '{' && *at != '['))
        return WISP_OK;
    for (; at < f->end; at++) {
        if (quoted && *at == '\\' && at + 1 < f->end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && (*at == '{' || *at == '['))
            depth++;
        else if (!quoted && (*at == '}' || *at == ']') && --depth == 0)
            break;
    }
    if (at == f->end)
        return WISP_OK;
    wisp_error inner;
    const size_t length = (size_t)(at + 1 - f->at);
    const wisp_status status = json_parse(f->arena, f->at, length, NULL, value, &inner);
    if (status == WISP_ERROR_MEMORY)
        return fail_memory(f->error, length);
    if (status != WISP_OK)
        *value = NULL;
    f->at = at + 1;
    return WISP_OK;
}

/* ---- calls ---------------------------------------------------------------------------------- */

static wisp_status add(struct finder *f, wisp_text name, wisp_text arguments) {
    struct tool_call *call;
    ARENA_TAKE(f->arena, call, 1, f->error);
    call->name = name;
    call->arguments = arguments;
    *(f->calls->count++ ? f->calls->last : &f->calls->first) = call;
    f->calls->last = &call->next;
    return WISP_OK;
}

/* Adds the call that an object is. Sets *good to whether it is one. */
static wisp_status add_object(struct finder *f, const struct json *object, bool *good) {
    static const char *const names[] = {"name", "tool_name"}, *const keys[] = {"arguments",
                                                                               "parameters"};
    const struct json *name = NULL, *arguments = NULL;
    for (size_t i = 0; i < 2; i++) {
        name = name ? name : json_get(object, names[i]);
        arguments = arguments ? arguments : json_get(object, keys[i]);
    }
    *good = json_is(name, JSON_STRING) &&
            (json_is(arguments, JSON_OBJECT) || json_is(arguments, JSON_STRING));
    return *good ? add(f, json_text(name), (wisp_text){arguments->raw, arguments->raw_length})
                 : WISP_OK;
}

/* Adds the calls in JSON: an object, several with semicolons between, or an array of them. */
static wisp_status add_json(struct finder *f, bool *good) {
    const struct json *value;
    do {
        skip_space(f);
        TRY(take_json(f, &value));
        *good = value != NULL;
        const bool many = json_is(value, JSON_ARRAY);
        for (const struct json *each = many ? value->first : value; *good && each;
             each = many ? each->next : NULL)
            TRY(add_object(f, each, good));
        skip_space(f);
    } while (*good && take(f, ";"));
    return WISP_OK;
}

/* Returns a value as JSON: what is not JSON but text is quoted. */
static wisp_status quote(struct finder *f, wisp_text text, wisp_text *json) {
    const struct json *value;
    unsigned char *out;
    *json = text;
    if (json_parse(f->arena, text.bytes, text.length, NULL, &value, NULL) == WISP_OK)
        return WISP_OK;
    ARENA_TAKE(f->arena, out, 6 * text.length + 2, f->error);
    unsigned char *end = out;
    const struct byte_sink sink = {write_to_memory, &end};
    TRY(json_write_string(&sink, text, f->error));
    *json = (wisp_text){(const char *)out, (size_t)(end - out)};
    return WISP_OK;
}

/* Reads <parameter=NAME>VALUE</parameter> and so on as an object. Sets *object to an empty text
 * if one is not whole. */
static wisp_status take_parameters(struct finder *f, wisp_text *object) {
    static const char close[] = "</parameter>";
    char *out;
    size_t n = 0;
    ARENA_TAKE(f->arena, out, 8 * (size_t)(f->end - f->at) + 3, f->error);
    *object = (wisp_text){0};
    out[n++] = '{';
    for (skip_space(f); take(f, "<parameter="); skip_space(f)) {
        const char *name_end = find(f->at, f->end, ">");
        const char *value_end = name_end ? find(name_end, f->end, close) : NULL;
        wisp_text name, value;
        if (!value_end)
            return WISP_OK;
        TRY(quote(f, (wisp_text){f->at, (size_t)(name_end - f->at)}, &name));
        TRY(quote(f, trim(name_end + 1, value_end), &value));
        f->at = value_end + sizeof close - 1;
        if (name.length == 0 || name.bytes[0] != '"' || value.length == 0)
            return WISP_OK;
        n += (size_t)sprintf(out + n, "%s%.*s: %.*s", n > 1 ? ", " : "", (int)name.length,
                             name.bytes, (int)value.length, value.bytes);
    }
    out[n++] = '}';
    if (find(f->at, f->end, f->family->close) == f->at)
        *object = (wisp_text){out, n};
    return WISP_OK;
}

/* Returns a name without what some families put around it: functions.NAME:0, NAME[CALL_ID]... */
static wisp_text bare_name(wisp_text name) {
    static const char before[] = "functions.";
    size_t n = 0;
    if (name.length > sizeof before - 1 && memcmp(name.bytes, before, sizeof before - 1) == 0)
        name = (wisp_text){name.bytes + sizeof before - 1, name.length - (sizeof before - 1)};
    while (n < name.length && name.bytes[n] != ':' && name.bytes[n] != '[' &&
           !is_space(name.bytes[n]))
        n++;
    return (wisp_text){name.bytes, n};
}

/* Adds the call whose name, `between` and arguments come next. */
static wisp_status add_named(struct finder *f, bool *good) {
    const char *between = find(f->at, f->end, f->family->between);
    const struct json *value;
    *good = between != NULL;
    if (!between)
        return WISP_OK;
    wisp_text name = trim(f->at, between), arguments = {0};
    f->at = between + strlen(f->family->between);
    skip_space(f);
    if (name.length == 8 && memcmp(name.bytes, "function", 8) == 0) { /* DeepSeek R1: its type */
        const char *end = find(f->at, f->end, "\n");
        name = trim(f->at, end ? end : f->end);
        const char *object = find(f->at, f->end, "{");
        f->at = object ? object : f->end;
    }
    const char *start = f->at;
    TRY(take_json(f, &value));
    if (json_is(value, JSON_OBJECT))
        arguments = (wisp_text){value->raw, value->raw_length};
    else if (f->at == start && f->family->close)
        TRY(take_parameters(f, &arguments));
    name = bare_name(name);
    *good = name.length > 0 && arguments.length > 0;
    return *good ? add(f, name, arguments) : WISP_OK;
}

/* Returns the bytes of a reply before a call that begins at `at`: Qwen3-Coder opens one twice. */
static size_t before_call(wisp_text reply, size_t at) {
    static const char outer[] = "<tool_call>";
    const size_t length = sizeof outer - 1, end = trim(reply.bytes, reply.bytes + at).length;
    const char *begin = trim(reply.bytes, reply.bytes + at).bytes;
    if (end >= length && memcmp(begin + end - length, outer, length) == 0)
        return (size_t)(begin - reply.bytes) + end - length;
    return at;
}

/* Finds the calls of a family. Sets *good to false if one is not whole. */
static wisp_status find_family(struct finder *f, wisp_text reply, bool *good) {
    const char *open = f->family->open, *next;
    f->at = reply.bytes;
    f->end = reply.bytes + reply.length;
    skip_space(f);
    *good = true;
    next = open[0] ? find(f->at, f->end, open) : f->at;
    f->calls->begin = next ? before_call(reply, (size_t)(next - reply.bytes)) : 0;
    for (; next && *good; next = open[0] ? find(f->at, f->end, open) : NULL) {
        f->at = next + strlen(open);
        TRY(f->family->between ? add_named(f, good) : add_json(f, good));
        const char *close = f->family->close;
        if (*good && close) {
            next = find(f->at, f->end, close);
            f->at = next ? next + strlen(close) : f->end;
        }
        skip_space(f);
        *good = *good && (open[0] || f->at == f->end);
    }
    return WISP_OK;
}

wisp_status tool_calls_find(struct arena *arena, wisp_text reply, struct tool_calls *calls,
                            wisp_error *error) {
    struct finder f = {.arena = arena, .calls = calls, .error = error};
    *calls = (struct tool_calls){0};
    for (size_t i = 0; i < sizeof families / sizeof *families && reply.length > 0; i++) {
        bool good;
        f.family = &families[i];
        TRY(find_family(&f, reply, &good));
        if (good && calls->count > 0)
            return WISP_OK;
        *calls = (struct tool_calls){0};
    }
    return WISP_OK;
}
