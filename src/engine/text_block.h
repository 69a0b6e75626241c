/* SPDX-License-Identifier: Apache-2.0
 * A block of a text as bytes: the ids, keys and values of some of its tokens, and the state of
 * short convolutions after the last of them. Saved states are made of blocks, and the prompt cache
 * has a file for each. docs/formats.md describes the bytes.
 *
 * A block has the name of the text up to its end: a digest of the name before it, which for the
 * first block says by what the text was computed, and of its own ids. So equal names are equal keys
 * and values. */
#ifndef WISP_ENGINE_TEXT_BLOCK_H
#define WISP_ENGINE_TEXT_BLOCK_H

#include "engine/identity.h"
#include "engine/sequence.h"
#include "engine/text_store.h"

enum {
    TEXT_BLOCK_TOKENS = 64, /* of each block but the last of a text */
    TEXT_BLOCK_HEADER = 88
};

/* Returns the name of the text that `before` names with n more ids. */
struct text_name text_name_after(const struct text_name *before, const int32_t *ids, size_t n);

/* Returns the bytes of a block that has the tokens [first, first + n) of a text of this model and
 * cache type. */
size_t text_block_bytes(const struct sequence *sequence, size_t first, size_t n);

/* Writes the block of the tokens [first, first + n), whose keys and values the sequence has. `ids`
 * are those of the whole text, and `name` is that up to first + n. */
void text_block_write(const struct sequence *sequence, const int32_t *ids, size_t first, size_t n,
                      const struct text_name *name, unsigned char *bytes);

/* Where a reader is in a saved text, and what it expects of the next block. */
struct text_block_reader {
    const char *file; /* in errors; may be NULL */
    size_t first;     /* the token that it begins with */
    size_t vocabulary, most_tokens;
    struct text_name before;          /* the name of the text before it */
    const struct text_name *expected; /* its own name; NULL: it follows from the ids */
};

/* Reads the header of a block, of which TEXT_BLOCK_HEADER bytes are there, and sets *n to its
 * tokens. Fails with WISP_ERROR_FORMAT if it is damaged or does not fit the sequence. */
wisp_status text_block_read_header(const struct sequence *sequence,
                                   const struct text_block_reader *reader,
                                   const unsigned char *bytes, size_t *n, wisp_error *error);

/* Reads a block of n tokens, of which text_block_bytes are there, into a sequence that has room for
 * them, and writes its ids to ids [n]. Sets reader->before to its name. Fails with
 * WISP_ERROR_FORMAT if it is damaged or has another name; then positions from `first` on are
 * undefined. It may change `bytes`. */
wisp_status text_block_read(struct sequence *sequence, struct text_block_reader *reader,
                            unsigned char *bytes, size_t n, int32_t *ids, wisp_error *error);

#endif
