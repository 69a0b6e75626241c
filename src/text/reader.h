/* SPDX-License-Identifier: Apache-2.0
 * Raw text as code points: ill-formed UTF-8 as U+FFFD, and in lower case where the model wants
 * that. A reader is small and copied freely, to look ahead. */
#ifndef WISP_TEXT_READER_H
#define WISP_TEXT_READER_H

#include "wisp.h"

#define READER_NONE 0xFFFFFFFFu /* no code point: before the start, past the end */

struct reader {
    const char *begin, *end;
    const char *at;
    bool lowercase;   /* as Python's str.lower() */
    bool dot_pending; /* the U+0307 of a lower-cased U+0130 comes next */
};

static inline struct reader reader_of(wisp_text text, bool lowercase) {
    const char *begin = text.length ? text.bytes : "";
    return (struct reader){begin, begin + text.length, begin, lowercase, false};
}

static inline bool reader_at_end(const struct reader *reader) {
    return reader->at == reader->end && !reader->dot_pending;
}

/* Grows with every code point read. */
static inline size_t reader_position(const struct reader *reader) {
    return 2 * (size_t)(reader->at - reader->begin) - reader->dot_pending;
}

/* The code point at the reader, which it moves past; READER_NONE at the end. */
uint32_t reader_next(struct reader *reader);

/* The code point before the reader, or READER_NONE. A sigma's form is not looked into. */
uint32_t reader_previous(const struct reader *reader);

#endif
