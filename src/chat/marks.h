/* SPDX-License-Identifier: Apache-2.0
 * The control tokens of a vocabulary in the text of a template. */
#ifndef WISP_CHAT_MARKS_H
#define WISP_CHAT_MARKS_H

#include "formats/directory.h"
#include "jinja/value.h"
#include "tokenizers/added_tokens.h"
#include "tokenizers/codec.h"

struct chat_marks {
    struct added_tokens set;
    bool *is_mark;   /* [the vocabulary's size] */
    bool may_forge;  /* some are tokens that texts may be made of too */
    bool keeps_edge; /* SentencePiece puts no space before a text that begins with one */
};

/* Collects the marks. Their memory is the arena's; the spellings are the directory's. */
wisp_status chat_marks_of(const struct directory *dir, const struct codec *codec,
                          struct arena *arena, struct chat_marks *marks, wisp_error *error);

/* Appends the ids of a text that a template has written. A mark is taken if all of its
 * characters are the template's own; all else is encoded as text, and makes no mark. */
wisp_status chat_marks_encode(const struct chat_marks *marks, const struct codec *codec,
                              struct value text, struct token_list *list, wisp_error *error);

/* Returns the id of the first mark after the last character `c` of the text, or -1. */
int32_t chat_marks_after(const struct chat_marks *marks, struct value text, uint32_t c);

#endif
