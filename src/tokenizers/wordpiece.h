/* SPDX-License-Identifier: Apache-2.0
 * A WordPiece vocabulary. Words are cut into its pieces from left to right; each piece is the
 * longest one that fits. */
#ifndef WISP_TOKENIZERS_WORDPIECE_H
#define WISP_TOKENIZERS_WORDPIECE_H

#include "base/arena.h"
#include "formats/tokens.h"

enum piece_kind {
    PIECE_INITIAL,      /* starts a word */
    PIECE_CONTINUATION, /* is further on in a word: "##x" in vocab.txt */
    PIECE_UNUSED        /* is never part of a word */
};

struct piece {
    const char *bytes; /* without "##" */
    size_t length;
    enum piece_kind kind;
};

/* An entry of a hash table with linear probing. The tag is compared before the piece itself, so
 * that looking for a text that is not a piece seldom reads more than one slot. */
struct wordpiece_slot {
    uint32_t tag;   /* bits of the hash other than those that pick the slot */
    uint32_t piece; /* id + 1; 0 is empty */
};

struct wordpiece {
    const char *bytes;      /* all pieces, one after the other */
    const uint32_t *starts; /* [pieces + 1]: piece i is bytes[starts[i] .. starts[i + 1]) */
    const uint8_t *kinds;
    struct wordpiece_slot *slots;
    uint32_t mask;  /* number of slots - 1 */
    unsigned shift; /* hash >> shift is the number of a slot */
    uint64_t seed;
    size_t longest[2]; /* the longest piece of each kind, in bytes */
};

/* Builds the vocabulary in `arena` from `count` pieces: the id of a piece is its index. `file` and
 * `field` name the source in errors. */
wisp_status wordpiece_build(struct wordpiece *vocabulary, struct arena *arena,
                            const struct piece *pieces, size_t count, const char *file,
                            const char *field, wisp_error *error);

/* Returns the id of the piece that starts a word and has these bytes, or -1 if there is none. */
int32_t wordpiece_find(const struct wordpiece *vocabulary, const char *bytes, size_t length);

/* Cuts a word into pieces and returns their number, or 0 if the word has none that fit. Writes
 * at most `room` of their ids. */
size_t wordpiece_split(const struct wordpiece *vocabulary, const char *word, size_t length,
                       int32_t *ids, size_t room);

#endif
