/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/whole_file.h"

/* ---- the list ------------------------------------------------------------------------------- */

bool messages_add(struct messages *messages, wisp_role role, wisp_text content) {
    if (messages->n == messages->capacity) {
        const size_t capacity = 2 * messages->capacity + 8;
        wisp_message *list = realloc(messages->list, capacity * sizeof *list);
        if (!list) {
            complain("out of memory");
            return false;
        }
        messages->list = list;
        messages->capacity = capacity;
    }
    char *copy = malloc(content.length + 1);
    if (!copy) {
        complain("out of memory");
        return false;
    }
    if (content.length > 0)
        memcpy(copy, content.bytes, content.length);
    wisp_message *added = &messages->list[messages->n++];
    added->role = role;
    added->content.bytes = copy;
    added->content.length = content.length;
    return true;
}

void messages_cut(struct messages *messages, size_t n) {
    while (messages->n > n)
        free((void *)(uintptr_t)messages->list[--messages->n].content.bytes);
}

void messages_release(struct messages *messages) {
    messages_cut(messages, 0);
    free(messages->list);
    *messages = (struct messages){0};
}

/* ---- reading -------------------------------------------------------------------------------- */

/* The place of a message, for complaints. */
struct place {
    const char *name;
    size_t line; /* 0: none */
    size_t index;
};

static int complain_of_field(const struct place *at, const char *field, const char *what) {
    char line[32] = "";
    if (at->line > 0)
        snprintf(line, sizeof line, "line %zu: ", at->line);
    complain("%s: %smessages[%zu]%s: %s", at->name, line, at->index, field, what);
    return EXIT_INPUT;
}

/* Joins the parts of a content into the arena's memory. */
static int join_parts(const struct json *parts, const struct place *at, struct arena *arena,
                      wisp_text *content) {
    size_t length = 0;
    for (const struct json *part = parts->first; part; part = part->next) {
        const struct json *text = json_get(part, "text");
        if (!json_equals(json_get(part, "type"), "text") || !json_is(text, JSON_STRING))
            return complain_of_field(at, ".content",
                                     "a part that is no {\"type\": \"text\", "
                                     "\"text\": ...}");
        length += text->text_length;
    }
    char *bytes = arena_allocate(arena, length + 1);
    if (!bytes)
        return complain_of_memory();
    *content = (wisp_text){bytes, length};
    for (const struct json *part = parts->first; part; part = part->next) {
        const struct json *text = json_get(part, "text");
        memcpy(bytes, text->text, text->text_length);
        bytes += text->text_length;
    }
    return EXIT_GOOD;
}

static int add_message(struct messages *messages, const struct json *object, const struct place *at,
                       struct arena *arena) {
    const struct json *role = json_get(object, "role"), *content = json_get(object, "content");
    wisp_text text = {0};
    wisp_role found;
    int code = EXIT_GOOD;
    if (!json_is(object, JSON_OBJECT))
        return complain_of_field(at, "", "not an object");
    if (!json_is(role, JSON_STRING) || strlen(role->text) != role->text_length ||
        !wisp_role_find(role->text, &found))
        return complain_of_field(at, ".role", "neither \"system\", \"user\" nor \"assistant\"");
    if (json_is(content, JSON_STRING))
        text = json_text(content);
    else if (json_is(content, JSON_ARRAY))
        code = join_parts(content, at, arena, &text);
    else
        return complain_of_field(at, ".content", "not a string");
    for (const struct json *member = object->first; member && code == EXIT_GOOD;
         member = member->next)
        if (member != role && member != content && !json_is(member, JSON_NULL)) {
            char field[64];
            snprintf(field, sizeof field, ".%.40s", member->key);
            return complain_of_field(at, field, "only role and content are understood");
        }
    if (code == EXIT_GOOD && !messages_add(messages, found, text))
        code = EXIT_FAILED;
    return code;
}

int messages_parse(struct messages *messages, wisp_text text, const char *name, size_t line) {
    struct place at = {name, line, 0};
    const size_t before = messages->n;
    const struct json *root;
    struct arena arena = {0};
    wisp_error error;
    int code = EXIT_GOOD;
    if (json_parse(&arena, text.bytes, text.length, NULL, &root, &error) != WISP_OK) {
        arena_release(&arena);
        return complain_of_text(name, line, &error);
    }
    const struct json *array = json_is(root, JSON_OBJECT) ? json_get(root, "messages") : root;
    if (!json_is(array, JSON_ARRAY)) {
        char place[32] = "";
        if (line > 0)
            snprintf(place, sizeof place, "line %zu: ", line);
        complain("%s: %smessages: neither an array of messages nor an object with one", name,
                 place);
        arena_release(&arena);
        return EXIT_INPUT;
    }
    for (const struct json *item = array->first; item && code == EXIT_GOOD;
         item = item->next, at.index++)
        code = add_message(messages, item, &at, &arena);
    arena_release(&arena);
    if (code != EXIT_GOOD)
        messages_cut(messages, before);
    return code;
}

int messages_load(struct messages *messages, const char *path) {
    char *text = NULL;
    size_t length;
    int code = read_whole_file(path, &text, &length);
    if (code == EXIT_GOOD)
        code = messages_parse(messages, (wisp_text){text, length}, path, 0);
    free(text);
    return code;
}

/* ---- writing -------------------------------------------------------------------------------- */

void message_print(FILE *stream, const wisp_message *message) {
    fprintf(stream, "{\"role\": \"%s\", \"content\": ", wisp_role_name((size_t)message->role));
    print_json_string(stream, message->content);
    fputc('}', stream);
}

static void print_list(FILE *stream, const void *context) {
    const struct messages *messages = context;
    for (size_t i = 0; i < messages->n; i++) {
        fputs(i == 0 ? "[" : ",\n ", stream);
        message_print(stream, &messages->list[i]);
    }
    fputs(messages->n == 0 ? "[]\n" : "]\n", stream);
}

int messages_save(const struct messages *messages, const char *path) {
    if (!check_path("/save", path))
        return EXIT_USAGE;
    return write_whole_file(path, print_list, messages);
}
