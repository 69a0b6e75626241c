/* SPDX-License-Identifier: Apache-2.0
 * Conversations in JSON, as chat APIs have them. */
#ifndef WISP_CLI_MESSAGES_H
#define WISP_CLI_MESSAGES_H

#include <stdio.h>

#include "wisp.h"

/* Messages, each an object in JSON that the list owns. It starts as zeros. */
struct messages {
    char **list;
    size_t n, capacity;
};

/* Appends a message. Returns false, after complaining, if there is no memory. */
bool messages_add(struct messages *messages, const char *role, wisp_text content);

/* Appends a message in JSON, which the list takes and frees, also on failure. */
bool messages_take(struct messages *messages, char *text);

/* Removes all messages after the first n. */
void messages_cut(struct messages *messages, size_t n);

void messages_release(struct messages *messages);

/* Appends the messages of a conversation: an array of them, or an object in whose "messages" it is.
 * *variables becomes the object's "tools" and "documents" as a JSON object, which the caller frees,
 * or NULL. `name` and `line` (0: none) say in complaints where it is from. Returns an exit code,
 * after complaining if it is not EXIT_GOOD; the list then has none of them. */
int messages_parse(struct messages *messages, wisp_text text, const char *name, size_t line,
                   char **variables);

/* messages_load appends the messages of a file, messages_save writes a file, which appears whole or
 * not at all. Both return an exit code, after complaining if it is not EXIT_GOOD. */
int messages_load(struct messages *messages, const char *path);
int messages_save(const struct messages *messages, const char *path);

/* Writes the messages as an array. */
void messages_print(FILE *stream, const struct messages *messages);

/* Returns a JSON object, which the caller frees, of the members of JSON objects [n], each of which
 * may be NULL; the last member of a name counts. `names` says in complaints what each is. Sets
 * *has_items to whether the member `array` has items. Returns NULL after complaining. */
char *join_objects(const char *const *objects, const char *const *names, size_t n,
                   const char *array, bool *has_items);

#endif
