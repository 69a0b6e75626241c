/* SPDX-License-Identifier: Apache-2.0
 * Added tokens: texts such as "[MASK]" that stand for one id wherever they occur, word or not.
 * Where several match, the leftmost does, and of those the longest. */
#ifndef WISP_TEXT_ADDED_TOKENS_H
#define WISP_TEXT_ADDED_TOKENS_H

#include "base/status.h"

/* As in the metadata. */
enum added_flag {
    ADDED_SINGLE_WORD = 1, /* only where no word character stands beside it */
    ADDED_STRIP_LEFT = 2,  /* swallows white space before it */
    ADDED_STRIP_RIGHT = 4, /* and after it */
    ADDED_NORMALIZED = 8,  /* matched after normalisation, else before */
    ADDED_ALL_FLAGS = 15
};

/* Longest text of an added token in code points: bounds how far a match looks ahead. */
enum { ADDED_MAX_LENGTH = 256 };

struct added_token {
    const char *text; /* UTF-8 */
    size_t length;
    int32_t id;
    unsigned flags;
};

struct added_tokens {
    struct added_token *tokens; /* sorted by text */
    size_t count;
    bool starts[128];   /* whether any begins with this ASCII character */
    bool starts_beyond; /* or with any other */
    bool strips_left;   /* whether any has ADDED_STRIP_LEFT */
};

/* Sorts the set's tokens and derives the rest. Returns the first of two equal texts, or NULL. */
const struct added_token *added_tokens_index(struct added_tokens *set);

/* The tokens that begin with what was walked so far. */
struct added_walk {
    size_t low, high; /* their range in the set */
    size_t depth;     /* bytes walked */
};

static inline struct added_walk added_walk_start(const struct added_tokens *set) {
    return (struct added_walk){0, set->count, 0};
}

/* Walks one code point further; false where no token goes on like that. */
bool added_walk_step(const struct added_tokens *set, struct added_walk *walk, uint32_t code_point);

/* The token that is exactly what was walked, or NULL. */
static inline const struct added_token *added_walk_token(const struct added_tokens *set,
                                                         const struct added_walk *walk) {
    const struct added_token *token = &set->tokens[walk->low];
    return token->length == walk->depth ? token : NULL;
}

#endif
