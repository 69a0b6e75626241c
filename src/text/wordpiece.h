/* SPDX-License-Identifier: Apache-2.0
 * A WordPiece vocabulary, and words cut into its pieces: always the longest that fits, from left
 * to right. */
#ifndef WISP_TEXT_WORDPIECE_H
#define WISP_TEXT_WORDPIECE_H

#include "base/arena.h"

enum piece_kind {
    PIECE_INITIAL,      /* starts a word */
    PIECE_CONTINUATION, /* goes on in one: "##x" in vocab.txt */
    PIECE_UNUSED        /* never in a word */
};

/* Longest piece in bytes. */
enum { PIECE_MAX_BYTES = 256 };

struct piece {
    const char *bytes; /* without "##" */
    size_t length;
    enum piece_kind kind;
};

/* A hash table with linear probing. What the hash says about a piece is compared before the piece
 * itself, so that a prefix that is no piece seldom costs more than one look at the table. */
struct wordpiece_slot {
    uint32_t tag;   /* more bits of the hash */
    uint32_t piece; /* id + 1; 0 is empty */
};

struct wordpiece {
    const char *bytes;      /* of all pieces, one after the other */
    const uint32_t *starts; /* piece i's are [starts[i], starts[i + 1]) */
    const uint8_t *kinds;
    struct wordpiece_slot *slots;
    uint32_t mask;  /* number of slots - 1 */
    unsigned shift; /* what is above of a hash is a slot's number */
    uint64_t seed;
    size_t longest[2]; /* in bytes, by kind */
};

/* Builds the vocabulary in `arena` from `count` pieces, whose place is their id. `file` and `field`
 * name them in errors. */
wisp_status wordpiece_build(struct wordpiece *vocabulary, struct arena *arena,
                            const struct piece *pieces, size_t count, const char *file,
                            const char *field, wisp_error *error);

/* Cuts a word into pieces and returns how many they are, 0 if it cannot be done. Writes the first
 * `room` ids. */
size_t wordpiece_split(const struct wordpiece *vocabulary, const char *word, size_t length,
                       int32_t *ids, size_t room);

#endif
