/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/messages.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/input.h"
#include "cli/output_file.h"
#include "cli/whole_file.h"

/* ---- the list ------------------------------------------------------------------------------- */

bool messages_take(struct messages *messages, char *text) {
    if (text && messages->n == messages->capacity) {
        const size_t capacity = 2 * messages->capacity + 8;
        char **list = realloc(messages->list, capacity * sizeof *list);
        if (list) {
            messages->list = list;
            messages->capacity = capacity;
        } else {
            free(text);
            text = NULL;
        }
    }
    if (!text) {
        complain("out of memory");
        return false;
    }
    messages->list[messages->n++] = text;
    return true;
}

bool messages_add(struct messages *messages, const char *role, wisp_text content) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (stream) {
        fprintf(stream, "{\"role\": \"%s\", \"content\": ", role);
        print_json_string(stream, content);
        fputc('}', stream);
        if (!close_memstream(stream, &text)) {
            free(text);
            text = NULL;
        }
    }
    return messages_take(messages, text);
}

void messages_cut(struct messages *messages, size_t n) {
    while (messages->n > n)
        free(messages->list[--messages->n]);
}

void messages_release(struct messages *messages) {
    messages_cut(messages, 0);
    free((void *)messages->list);
    *messages = (struct messages){0};
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Returns the members of an object that are variables of templates, as an object, or NULL if it
 * has none. */
static int take_variables(const struct json *root, char **variables) {
    const struct json *members[] = {json_get(root, "tools"), json_get(root, "documents")};
    size_t length = 0;
    *variables = NULL;
    if (!members[0] && !members[1])
        return EXIT_GOOD;
    FILE *stream = open_memstream(variables, &length);
    if (!stream)
        return complain_of_memory();
    fputc('{', stream);
    for (size_t i = 0; i < 2; i++)
        if (members[i]) {
            fputs(i > 0 && members[0] ? ", " : "", stream);
            print_member(stream, members[i]);
        }
    fputc('}', stream);
    return close_memstream(stream, variables) ? EXIT_GOOD : complain_of_memory();
}

static int take_messages(struct messages *messages, const struct json *array) {
    for (const struct json *item = array->first; item; item = item->next)
        if (!messages_take(messages, strndup(item->raw, item->raw_length)))
            return EXIT_FAILED;
    return EXIT_GOOD;
}

int messages_parse(struct messages *messages, wisp_text text, const char *name, size_t line,
                   char **variables) {
    const size_t before = messages->n;
    const struct json *root;
    struct arena arena = {0};
    wisp_error error;
    int code;
    *variables = NULL;
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
        code = EXIT_INPUT;
    } else {
        code = take_messages(messages, array);
        if (code == EXIT_GOOD)
            code = take_variables(root, variables);
    }
    arena_release(&arena);
    if (code != EXIT_GOOD)
        messages_cut(messages, before);
    return code;
}

int messages_load(struct messages *messages, const char *path) {
    char *text = NULL, *variables = NULL;
    size_t length;
    int code = read_whole_file(path, &text, &length);
    if (code == EXIT_GOOD)
        code = messages_parse(messages, (wisp_text){text, length}, path, 0, &variables);
    free(variables);
    free(text);
    return code;
}

/* ---- writing -------------------------------------------------------------------------------- */

void messages_print(FILE *stream, const struct messages *messages) {
    for (size_t i = 0; i < messages->n; i++)
        fprintf(stream, "%s%s", i == 0 ? "[" : ",\n ", messages->list[i]);
    fputs(messages->n == 0 ? "[]\n" : "]\n", stream);
}

static void print_list(FILE *stream, const void *context) {
    messages_print(stream, context);
}

int messages_save(const struct messages *messages, const char *path) {
    const int code = check_output("/save", path, OUTPUT_REPORT, false);
    return code == EXIT_GOOD ? write_whole_file(path, print_list, messages) : code;
}

/* ---- objects -------------------------------------------------------------------------------- */

/* Returns whether a later object has a member of the same name. */
static bool is_replaced(const struct json *const *roots, size_t at, size_t n, const char *key) {
    for (size_t i = at + 1; i < n; i++)
        if (roots[i] && json_get(roots[i], key))
            return true;
    return false;
}

char *join_objects(const char *const *objects, const char *const *names, size_t n,
                   const char *array, bool *has_items) {
    enum { MOST = 4 };
    const struct json *roots[MOST] = {NULL};
    struct arena arena = {0};
    char *text = NULL;
    size_t length = 0;
    bool good = n <= MOST, first = true;
    *has_items = false;
    wisp_error error;
    for (size_t i = 0; good && i < n; i++) {
        if (!objects[i])
            continue;
        if (json_parse(&arena, objects[i], strlen(objects[i]), NULL, &roots[i], &error) !=
            WISP_OK) {
            complain("%s: %s", names[i], error.message);
            good = false;
        } else if (!json_is(roots[i], JSON_OBJECT)) {
            complain("%s: not a JSON object", names[i]);
            good = false;
        }
    }
    FILE *stream = good ? open_memstream(&text, &length) : NULL;
    if (good && !stream)
        complain_of_memory();
    if (stream) {
        fputc('{', stream);
        for (size_t i = 0; i < n; i++)
            for (const struct json *each = roots[i] ? roots[i]->first : NULL; each;
                 each = each->next)
                if (!is_replaced(roots, i, n, each->key)) {
                    fputs(first ? "" : ", ", stream);
                    print_member(stream, each);
                    first = false;
                    *has_items |= strcmp(each->key, array) == 0 && each->count > 0;
                }
        fputc('}', stream);
        if (!close_memstream(stream, &text)) {
            complain_of_memory();
            free(text);
            text = NULL;
        }
    }
    arena_release(&arena);
    return text;
}
