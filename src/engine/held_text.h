/* SPDX-License-Identifier: Apache-2.0
 * Generated text that is not delivered yet: the text that follows decides whether it is a stop
 * text, or completes its last character. */
#ifndef WISP_ENGINE_HELD_TEXT_H
#define WISP_ENGINE_HELD_TEXT_H

#include "base/status.h"

struct held_text {
    const char *const *stop; /* [stops]: of the caller */
    size_t stops;
    char *bytes;
    size_t length, capacity;
    char *repaired; /* [repaired_capacity]: text without what is ill-formed in `bytes` */
    size_t repaired_capacity;
};

/* Appends the text of a token. */
wisp_status held_text_add(struct held_text *held, wisp_text text, wisp_error *error);

/* Cuts the text before the first stop text. Returns false if there is none. */
bool held_text_cut(struct held_text *held);

/* Sets *text to the first n bytes as well-formed text, in which U+FFFD stands for what is
 * ill-formed and for a character that is cut. It lives until the held text changes. */
wisp_status held_text_take(struct held_text *held, size_t n, wisp_text *text, wisp_error *error);

/* Returns how many bytes at the start can be handed out: those before the first place that may
 * begin a stop text, and before an incomplete character at the end. */
size_t held_text_ready(const struct held_text *held);

/* Removes the first n bytes. */
void held_text_drop(struct held_text *held, size_t n);

void held_text_release(struct held_text *held);

#endif
