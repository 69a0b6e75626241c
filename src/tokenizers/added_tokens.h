/* SPDX-License-Identifier: Apache-2.0
 * Added tokens: texts such as "[MASK]" that stand for one id wherever they occur, word or not.
 * If several could match, the leftmost is taken, and the longest if several begin there. */
#ifndef WISP_TOKENIZERS_ADDED_TOKENS_H
#define WISP_TOKENIZERS_ADDED_TOKENS_H

#include "base/status.h"
#include "formats/tokens.h"

/* The longest text of an added token, in code points. It bounds how far a match looks ahead. */
enum { ADDED_MAX_LENGTH = 256 };

struct added_token {
    const char *text; /* UTF-8 */
    size_t length;
    int32_t id;
    unsigned flags; /* enum added_flag */
};

struct added_tokens {
    struct added_token *tokens; /* sorted by text */
    size_t count;
    bool starts[128];      /* whether a token begins with this ASCII character */
    bool starts_non_ascii; /* whether a token begins with any other character */
    bool strips_left;      /* whether a token has ADDED_STRIP_LEFT */
};

/* Sorts the set's tokens and fills in its other fields. Returns NULL, or the first of two tokens
 * that have the same text. */
const struct added_token *added_tokens_index(struct added_tokens *set);

/* A search that goes through a text one code point at a time: the tokens that begin with the text
 * so far are [low, high) of the set. */
struct added_walk {
    size_t low, high;
    size_t depth; /* bytes of text so far */
};

static inline struct added_walk added_walk_start(const struct added_tokens *set) {
    return (struct added_walk){0, set->count, 0};
}

/* Adds a code point to the text. Returns false if no token begins with the longer text. */
bool added_walk_step(const struct added_tokens *set, struct added_walk *walk, uint32_t code_point);

/* Returns the token whose text is exactly the text so far, or NULL. */
static inline const struct added_token *added_walk_token(const struct added_tokens *set,
                                                         const struct added_walk *walk) {
    const struct added_token *token = &set->tokens[walk->low];
    return token->length == walk->depth ? token : NULL;
}

#endif
