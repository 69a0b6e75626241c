/* SPDX-License-Identifier: Apache-2.0
 * The character map by which SentencePiece normalises a text: it replaces the longest sequence of
 * bytes that it knows by another.
 * Source: the serialised form that SentencePiece writes: the bytes of a double-array trie, then the
 * replacements, each ending with a 0. */
#ifndef WISP_TOKENIZERS_CHARSMAP_H
#define WISP_TOKENIZERS_CHARSMAP_H

#include "base/arena.h"

struct charsmap {
    const uint32_t *units; /* the double array; NULL if nothing is replaced */
    size_t n_units;
    const char *texts; /* the replacements; the last byte is 0 */
    size_t text_bytes;
};

/* Reads a serialised map of `length` bytes, and copies it into the arena. Fails if it is
 * malformed; `file` and `field` name it in errors. */
wisp_status charsmap_read(struct charsmap *map, struct arena *arena, const unsigned char *bytes,
                          size_t length, const char *file, const char *field, wisp_error *error);

/* Returns the number of bytes that the map replaces at the start of a text, at most 256, and sets
 * *text to the replacement. Returns 0 if it has no replacement. */
size_t charsmap_find(const struct charsmap *map, const char *at, const char *end, wisp_text *text);

#endif
