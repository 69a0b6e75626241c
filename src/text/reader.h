/* SPDX-License-Identifier: Apache-2.0
 * Reads raw text as code points, ill-formed UTF-8 as U+FFFD. To look ahead, copy the reader: it is
 * small. */
#ifndef WISP_TEXT_READER_H
#define WISP_TEXT_READER_H

#include "wisp.h"

#define READER_NONE 0xFFFFFFFFu /* no code point: before the start or past the end */

struct reader {
    const char *begin, *end;
    const char *at;
};

static inline struct reader reader_of(wisp_text text) {
    const char *begin = text.length ? text.bytes : "";
    return (struct reader){begin, begin + text.length, begin};
}

static inline bool reader_at_end(const struct reader *reader) {
    return reader->at == reader->end;
}

/* Returns the number of bytes before the reader. */
static inline size_t reader_position(const struct reader *reader) {
    return (size_t)(reader->at - reader->begin);
}

/* Reads a code point and moves past it. Returns READER_NONE at the end. */
uint32_t reader_next(struct reader *reader);

/* Returns the code point before the reader, or READER_NONE at the start. */
uint32_t reader_previous(const struct reader *reader);

/* Returns whether a code point is part of a word for ADDED_SINGLE_WORD. READER_NONE is not. */
bool reader_is_word(uint32_t code_point);

#endif
