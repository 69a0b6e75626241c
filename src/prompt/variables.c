/* SPDX-License-Identifier: Apache-2.0
 * Compiled for size in WebAssembly. */
#include "prompt/variables.h"

#include <stdio.h>
#include <string.h>

/* ---- messages ------------------------------------------------------------------------------- */

const char *wisp_role_name(size_t role) {
    static const char *const names[] = {[WISP_ROLE_SYSTEM] = "system",
                                        [WISP_ROLE_USER] = "user",
                                        [WISP_ROLE_ASSISTANT] = "assistant"};
    return role < sizeof names / sizeof *names ? names[role] : NULL;
}

/* Sets *value to the name of a role. Templates make marks such as <|user|> of the usual names. */
static wisp_status take_role(struct arena *arena, wisp_text role, struct value *value,
                             wisp_error *error) {
    static const char *const known[] = {"system",    "user",  "assistant", "tool",
                                        "developer", "model", "function",  "ipython"};
    uint32_t mark = JINJA_GIVEN;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (role.length == strlen(known[i]) && memcmp(role.bytes, known[i], role.length) == 0)
            mark = 0;
    return value_from_text(arena, role, mark, value, error);
}

/* Sets *value to a dictionary of n entries, which are to be written. */
static wisp_status begin_message(struct arena *arena, size_t n, struct entry **entries,
                                 struct value *value, wisp_error *error) {
    ARENA_TAKE(arena, *entries, n, error);
    *value = (struct value){.type = JINJA_DICT, .n = (uint32_t)n, .as.entries = *entries};
    return WISP_OK;
}

static wisp_status take_message(struct arena *arena, const wisp_message *message, size_t index,
                                struct value *value, wisp_error *error) {
    const char *role = wisp_role_name((size_t)message->role);
    struct entry *entries;
    char field[48];
    snprintf(field, sizeof field, "messages[%zu].role", index);
    if (!role)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, field, "invalid wisp_role value %d",
                    (int)message->role);
    snprintf(field, sizeof field, "messages[%zu].content", index);
    if (message->content.length > 0)
        TRY(require(message->content.bytes, field, error));
    TRY(begin_message(arena, 2, &entries, value, error));
    TRY(value_from_text(arena, wisp_text_of("role"), 0, &entries[0].key, error));
    TRY(take_role(arena, wisp_text_of(role), &entries[0].value, error));
    TRY(value_from_text(arena, wisp_text_of("content"), 0, &entries[1].key, error));
    return value_from_text(arena, message->content, JINJA_GIVEN, &entries[1].value, error);
}

/* Returns whether a content consists of parts that are all texts. */
static bool is_all_text(const struct json *content) {
    if (!json_is(content, JSON_ARRAY) || content->count == 0)
        return false;
    for (const struct json *part = content->first; part; part = part->next)
        if (!json_equals(json_get(part, "type"), "text") ||
            !json_is(json_get(part, "text"), JSON_STRING))
            return false;
    return true;
}

/* Takes a content. Parts that are all texts become one text, which every template takes; few take
 * parts. */
static wisp_status take_content(struct arena *arena, const struct json *content,
                                struct value *value, wisp_error *error) {
    size_t length = 0;
    char *joined;
    if (!is_all_text(content))
        return value_from_json(arena, content, JINJA_GIVEN, value, error);
    for (const struct json *part = content->first; part; part = part->next)
        length += json_get(part, "text")->text_length;
    ARENA_TAKE(arena, joined, length, error);
    char *at = joined;
    for (const struct json *part = content->first; part; part = part->next) {
        const wisp_text text = json_text(json_get(part, "text"));
        memcpy(at, text.bytes, text.length);
        at += text.length;
    }
    return value_from_text(arena, (wisp_text){joined, length}, JINJA_GIVEN, value, error);
}

static wisp_status take_json_message(struct arena *arena, const struct json *message, size_t index,
                                     struct value *value, wisp_error *error) {
    const struct json *role = json_get(message, "role");
    struct entry *entry;
    char field[48];
    snprintf(field, sizeof field, "messages[%zu]", index);
    if (!json_is(message, JSON_OBJECT))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, field, "not an object");
    snprintf(field, sizeof field, "messages[%zu].role", index);
    if (!json_is(role, JSON_STRING))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, field, "not a string");
    TRY(begin_message(arena, message->count, &entry, value, error));
    for (const struct json *each = message->first; each; each = each->next, entry++) {
        const wisp_text key = {each->key, each->key_length};
        TRY(value_from_text(arena, key, JINJA_GIVEN, &entry->key, error));
        TRY(each == role ? take_role(arena, json_text(role), &entry->value, error)
            : value_is(entry->key, "content")
                ? take_content(arena, each, &entry->value, error)
                : value_from_json(arena, each, JINJA_GIVEN, &entry->value, error));
    }
    return WISP_OK;
}

/* Parses a text in JSON of the type. `what` names both in errors. */
static wisp_status parse(struct arena *arena, wisp_text text, enum json_type type,
                         const char *field, const char *what, const struct json **root,
                         wisp_error *error) {
    wisp_error inner;
    TRY(require(text.bytes, field, error));
    const wisp_status status = json_parse(arena, text.bytes, text.length, NULL, root, &inner);
    if (status != WISP_OK)
        return status == WISP_ERROR_MEMORY
                   ? fail_memory(error, text.length)
                   : fail(error, WISP_ERROR_ARGUMENT, NULL, field, "%s", inner.message);
    if (!json_is(*root, type))
        return fail(error, WISP_ERROR_ARGUMENT, NULL, field, "%s", what);
    return WISP_OK;
}

static wisp_status take_messages(struct arena *arena, const wisp_conversation *conversation,
                                 struct value *value, wisp_error *error) {
    const struct json *root = NULL, *each;
    struct value *messages;
    size_t n = conversation->n;
    if (conversation->json.length > 0) {
        if (n > 0)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "messages",
                        "given as an array and in JSON");
        TRY(parse(arena, conversation->json, JSON_ARRAY, "messages", "not an array", &root, error));
        n = root->count;
    }
    if (n == 0)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "messages", "there are none");
    if (!root)
        TRY(require(conversation->messages, "messages", error));
    if (n > UINT32_MAX)
        return fail_memory(error, n);
    ARENA_TAKE(arena, messages, n, error);
    each = root ? root->first : NULL;
    for (size_t i = 0; i < n; i++, each = each ? each->next : NULL)
        TRY(root ? take_json_message(arena, each, i, &messages[i], error)
                 : take_message(arena, &conversation->messages[i], i, &messages[i], error));
    *value = (struct value){.type = JINJA_LIST, .n = (uint32_t)n, .as.items = messages};
    return WISP_OK;
}

/* ---- variables ------------------------------------------------------------------------------ */

static void add(struct chat_variables *variables, const char *name, struct value value) {
    size_t i = 0;
    while (i < variables->n && strcmp(variables->list[i].name, name) != 0)
        i++;
    variables->n += i == variables->n;
    variables->list[i] = (struct jinja_variable){.name = name, .value = value};
}

/* Adds the spellings of the file's special tokens. */
static wisp_status add_tokens(const struct prompt_call *call, struct arena *arena,
                              struct chat_variables *variables, wisp_error *error) {
    static const char *const names[] = {[PROMPT_BOS] = "bos_token",
                                        [PROMPT_EOS] = "eos_token",
                                        [PROMPT_UNKNOWN] = "unk_token",
                                        [PROMPT_PADDING] = "pad_token"};
    for (size_t i = 0; i < PROMPT_TOKENS; i++) {
        struct value value;
        if (!call->tokens[i].bytes)
            continue;
        TRY(value_from_text(arena, call->tokens[i], 0, &value, error));
        add(variables, names[i], value);
    }
    return WISP_OK;
}

/* Adds the members of a JSON object. */
static wisp_status add_given(struct arena *arena, wisp_text given, struct chat_variables *variables,
                             wisp_error *error) {
    const struct json *root;
    if (given.length == 0)
        return WISP_OK;
    TRY(parse(arena, given, JSON_OBJECT, "variables", "not an object", &root, error));
    if (root->count > CHAT_MAX_VARIABLES / 2)
        return fail(error, WISP_ERROR_ARGUMENT, NULL, "variables", "more than %d",
                    CHAT_MAX_VARIABLES / 2);
    for (const struct json *each = root->first; each; each = each->next) {
        struct value value;
        if (strcmp(each->key, "messages") == 0)
            return fail(error, WISP_ERROR_ARGUMENT, NULL, "variables",
                        "messages are not a variable");
        TRY(value_from_json(arena, each, JINJA_GIVEN, &value, error));
        add(variables, each->key, value);
        variables->has_tools |= strcmp(each->key, "tools") == 0 && each->count > 0;
    }
    return WISP_OK;
}

wisp_status chat_variables_of(const struct prompt_call *call, struct arena *arena,
                              struct chat_variables *variables, wisp_error *error) {
    const wisp_conversation *conversation = call->conversation;
    struct value messages;
    *variables = (struct chat_variables){.n = 0};
    TRY(take_messages(arena, conversation, &messages, error));
    add(variables, "messages", messages);
    add(variables, "tools", (struct value){.type = JINJA_NONE});
    add(variables, "documents", (struct value){.type = JINJA_NONE});
    add(variables, "add_generation_prompt", value_boolean(true));
    TRY(add_tokens(call, arena, variables, error));
    TRY(add_given(arena, conversation->variables, variables, error));
    if (conversation->no_thinking)
        add(variables, CHAT_THINKING, value_boolean(false));
    return WISP_OK;
}

wisp_status chat_probe(struct arena *arena, struct chat_variables *variables, wisp_error *error) {
    static const wisp_message messages[] = {{WISP_ROLE_USER, {"a", 1}},
                                            {WISP_ROLE_ASSISTANT, {"\xEE\x80\x81", 3}}};
    const wisp_conversation conversation = {.messages = messages, .n = 2};
    struct value value;
    TRY(take_messages(arena, &conversation, &value, error));
    add(variables, "messages", value);
    add(variables, "add_generation_prompt", value_boolean(false));
    return WISP_OK;
}
