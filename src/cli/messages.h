/* SPDX-License-Identifier: Apache-2.0
 * Messages of a conversation as JSON: an array of objects with "role" and "content". */
#ifndef WISP_CLI_MESSAGES_H
#define WISP_CLI_MESSAGES_H

#include <stdio.h>

#include "wisp.h"

/* A list that starts as zeros. Contents are copies that it owns. */
struct messages {
    wisp_message *list;
    size_t n, capacity;
};

/* Appends a message. Returns false, after complaining, where there is no memory. */
bool messages_add(struct messages *messages, wisp_role role, wisp_text content);

/* Removes all messages after the first n. */
void messages_cut(struct messages *messages, size_t n);

void messages_release(struct messages *messages);

/* Appends the messages of a conversation in JSON: an array of them, or an object in whose
 * "messages" it is. A content is a string, or an array of parts of the type "text". `name` and
 * `line` (0: none) say in complaints where it is from. Returns an exit code, after complaining
 * where it is not EXIT_GOOD; the list then has none of them. */
int messages_parse(struct messages *messages, wisp_text text, const char *name, size_t line);

/* messages_load appends the messages of a file, messages_save writes a file, which appears whole or
 * not at all. Both return an exit code, after complaining where it is not EXIT_GOOD. */
int messages_load(struct messages *messages, const char *path);
int messages_save(const struct messages *messages, const char *path);

/* Writes a message as a JSON object. */
void message_print(FILE *stream, const wisp_message *message);

#endif
